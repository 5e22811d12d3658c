from collections.abc import Callable
from pathlib import Path

import pytest

from image.layer import make_layer
from image.oci import Image, describe, index_of, write_layout
from image.platforms import PLATFORMS, Platform
from image.tree import File
from release.errors import ReleaseError
from release.made import read_images

LABELS = {"org.opencontainers.image.version": "1.2.3"}
NAME = "localhost/ccm-from-scratch:1.2.3"


def image(platform: Platform, content: bytes = b"content") -> Image:
    return describe(platform, [make_layer({"file": File(content)}, epoch=0)], {"User": "1"}, LABELS, epoch=7)


IMAGES = tuple(image(platform) for platform in PLATFORMS)


def archive(folder: Path, platform: Platform) -> Path:
    return folder / f"ccm-from-scratch-1.2.3-image-linux-{platform.name}.tar"


def write(folder: Path, platform: Platform, one: Image) -> None:
    with archive(folder, platform).open("wb") as file:
        write_layout({NAME: one.manifest}, one.blobs, file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for platform, one in zip(PLATFORMS, IMAGES, strict=True):
        write(tmp_path, platform, one)
    (tmp_path / "RELEASE.md").write_text(f"| index | `{index_of(IMAGES, LABELS).digest}` |\n")
    return tmp_path


def test_the_images_and_their_index_are_those_that_were_built(folder: Path) -> None:
    made = read_images(folder)
    assert made.reference == NAME
    assert made.images == IMAGES
    assert made.index == index_of(IMAGES, LABELS)
    blobs = {blob.digest for one in IMAGES for blob in (one.manifest, *one.blobs)}
    assert {blob.digest for blob in made.below} == blobs


def edited(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    """Changes the content of the first archive."""

    def edit(folder: Path) -> None:
        path = archive(folder, PLATFORMS[0])
        path.write_bytes(change(path.read_bytes()))

    return edit


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edited(lambda old: old[:-12000]), r"image-linux-amd64\.tar: the file isn't a complete OCI layout"),
        (
            edited(lambda old: old.replace(b'"User":"1"', b'"User":"0"')),
            r"amd64\.tar: the digest of the blob sha256:\w+ doesn't match its name: sha256:",
        ),
        (
            lambda folder: write(folder, PLATFORMS[0], image(PLATFORMS[0], b"another")),
            r"RELEASE\.md doesn't contain the digest of the image index: sha256:",
        ),
        (
            lambda folder: archive(folder, PLATFORMS[1]).unlink(),
            r"contains 0 files named \*-image-linux-arm64\.tar instead of one",
        ),
        (
            lambda folder: (folder / "ccm-from-scratch-1.2.4-image-linux-arm64.tar").touch(),
            r"contains 2 files named \*-image-linux-arm64\.tar instead of one",
        ),
        (lambda folder: (folder / "RELEASE.md").unlink(), r"RELEASE\.md"),
    ],
)
def test_what_was_changed_is_no_release(folder: Path, change: Callable[[Path], object], message: str) -> None:
    change(folder)
    with pytest.raises(ReleaseError, match=rf"isn't a release that '\./dev release' created: .*{message}"):
        read_images(folder)
