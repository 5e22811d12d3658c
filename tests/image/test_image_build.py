"""The image as it is built: twice the same, small, and open to scanners."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path

import pytest
import zstandard

from image import recipe
from image.build import build, cache_folder
from image.oci import Image
from image.platforms import AMD64, PLATFORMS
from image.source import ROOT, read_source

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def linked_cache(target: Path) -> Path:
    """An empty cache, but for packages: what is fetched is compared with its hash anyway."""
    packages = cache_folder() / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    target.mkdir()
    (target / "packages").symlink_to(packages)
    return target


def files(image: Image) -> dict[str, bytes]:
    found = {}
    for blob in image.blobs[1:]:
        plain = zstandard.ZstdDecompressor().decompress(blob.content)
        with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
            found |= {member.name: tar.extractfile(member).read() for member in tar if member.isreg()}
    return found


@pytest.fixture(scope="module")
def images():
    return build(read_source(), cache_folder(), PLATFORMS)


def test_another_folder_and_an_empty_cache_make_the_same_image(images, tmp_path):
    tree = tmp_path / "another clone"
    shutil.copytree(ROOT / "ccm", tree / "ccm")
    shutil.copytree(ROOT / "image", tree / "image")
    shutil.copy(ROOT / "pyproject.toml", tree)
    again = build(read_source(tree), linked_cache(tmp_path / "cache"), [AMD64])
    assert [image.manifest.digest for image in again] == [images[0].manifest.digest]


def test_each_is_small_enough(images):
    assert all(image.size < 35 * 2**20 for image in images)


def test_scanners_find_what_is_in_it(images):
    found = files(images[1])
    assert "usr/share/doc/libc6/copyright" in found
    assert b"Package: libc6\n" in found["var/lib/dpkg/status.d/libc6"]
    purls = [component["purl"] for component in json.loads(found[recipe.SBOM])["components"]]
    assert any(purl.startswith("pkg:pypi/aiohttp@") for purl in purls)


def test_every_module_of_ours_is_compiled(images):
    found = files(images[0])
    ours = [path for path in found if path.startswith(f"{recipe.APPLICATION}/ccm/") and path.endswith(".py")]
    for path in ours:
        folder, _, name = path.rpartition("/")
        compiled = found[f"{folder}/__pycache__/{name.removesuffix('.py')}.cpython-313.pyc"]
        assert compiled[4:8] == b"\1\0\0\0"  # by hash, and never compared
