"""A release that has been made: its images, as they are to be published."""

from pathlib import Path

from image.errors import LayoutError
from image.oci import Image, PlatformImages, index_of, labels_of, read_layout
from image.platforms import PLATFORMS, Platform
from release.errors import ReleaseError
from release.make import NOTES


def read_images(folder: Path) -> PlatformImages:
    """The images of a release, from the archives that :func:`release.make.make` wrote."""
    try:
        found = [_image(folder, platform) for platform in PLATFORMS]
        notes = (folder / NOTES).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _no_release(folder, str(error)) from error
    (reference, first), images = found[0], tuple(image for _, image in found)
    index = index_of(images, labels_of(first))
    if f"`{index.digest}`" not in notes:
        raise _no_release(folder, f"{NOTES} doesn't contain the digest of the image index: {index.digest}")
    return PlatformImages(reference, index, images)


def _image(folder: Path, platform: Platform) -> tuple[str, Image]:
    pattern = f"*-image-linux-{platform.name}.tar"
    archives = sorted(folder.glob(pattern))
    if len(archives) != 1:
        raise _no_release(folder, f"the folder contains {len(archives)} files named {pattern} instead of one")
    try:
        with archives[0].open("rb") as file:
            [(reference, image)] = read_layout(file).items()
    except (LayoutError, ValueError) as error:
        raise _no_release(folder, f"{archives[0].name}: {error}") from error
    return reference, image


def _no_release(folder: Path, why: str) -> ReleaseError:
    return ReleaseError(f"the folder {folder} isn't a release that './dev release' created: {why}")
