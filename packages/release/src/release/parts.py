"""The parts of a release, each built from a copy of the tree into the release's folder.

The same copy gives the same bytes: the time in them is the commit's. Wheel and sdist are compressed by the
zlib of the Python that builds them, the chart by the Go that Helm was built with.
"""

import sys
from pathlib import Path

from image import recipe, sbom
from image.build import build, cache_folder
from image.oci import Image, index_of, write_layout
from image.platforms import PLATFORMS
from image.source import Source, read_source
from release.programs import run

CHART = Path("charts", "ccm-from-scratch")
EMULATOR = Path("packages", "emulator")


def python_packages(tree: Path, folder: Path, time: int) -> None:
    """Write wheels and sdists of the CCM and the emulator into a folder, made by the pinned build backend."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder)]
    for distribution in (tree, tree / EMULATOR):
        run("building wheel and sdist", command, cwd=distribution, settings=_at(time))


def chart(tree: Path, folder: Path, time: int, helm: Path) -> None:
    """Write the chart's package, made by Helm, into a folder; its files' time is ``time``."""
    command = [str(helm), "package", str(CHART), "--destination", str(folder)]
    run("packing the chart", command, cwd=tree, settings=_at(time))


def images(tree: Path, folder: Path, time: int) -> dict[str, str]:
    """Write the CCM's images into a folder: OCI layouts in tars, and their SBOMs. Their time is ``time``.

    Returns digests by platform, and that of the index, which a registry has after ``./dev image --push``.
    """
    source = read_source(tree, _at(time))
    built = build(source, cache_folder(), PLATFORMS)
    digests = {"index": index_of(built, source.labels()).digest}
    for platform, image in zip(PLATFORMS, built, strict=True):
        stem = f"{source.project.name}-{source.project.version}-image-linux-{platform.name}"
        _archive(source, image, folder / f"{stem}.tar")
        (folder / f"{stem}.cdx.json").write_bytes(sbom.inside(image))
        digests[platform.name] = image.manifest.digest
    return digests


def _archive(source: Source, image: Image, path: Path) -> None:
    repository = f"{recipe.REPOSITORY}:{source.project.version}"
    with path.open("wb") as file:
        write_layout({repository: image.manifest}, image.blobs, file)


def _at(time: int) -> dict[str, str]:
    """https://reproducible-builds.org/specs/source-date-epoch/."""
    return {"SOURCE_DATE_EPOCH": str(time)}
