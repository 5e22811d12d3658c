"""``./dev image``: the CCM's image for every kind of server, in a file or in a registry."""

import argparse
from pathlib import Path

from image import registry
from image.build import build, cache_folder
from image.oci import PlatformImages, index_of, write_layout
from image.platforms import PLATFORMS
from image.source import read_source
from release.made import read_images
from sandbox.console import Steps
from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import CRANE
from sandbox.output_paths import check_file
from sandbox.site import Clone

HELP = "build the CCM's image for amd64 and arm64"
WITHOUT_ADDRESSES = True
_MIB = 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where it goes."""
    parser.add_argument(
        "--output", type=_file, metavar="FILE", help="write the image to this tar archive, as an OCI layout"
    )
    parser.add_argument(
        "--push",
        metavar="REGISTRY/NAME:TAG",
        help="push the image, with the credentials of 'docker login' or of CCMFS_REGISTRY_USERNAME and "
        "CCMFS_REGISTRY_PASSWORD",
    )
    parser.add_argument(
        "--release",
        type=Path,
        metavar="FOLDER",
        help="use the images in this output folder of './dev release' (default: build the images)",
    )


def _file(text: str) -> Path:
    path = Path(text)
    if not path.name or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} must be a file")
    return path


def check(_clone: Clone, arguments: argparse.Namespace) -> None:
    """Make sure that it can be kept where it was asked for."""
    if arguments.output:
        check_file(arguments.output)


def run(clone: Clone, arguments: argparse.Namespace) -> int:
    """Build it, or take that of a release, and put it where it was asked for."""
    steps = Steps()
    target = None if arguments.push is None else registry.parse_target(arguments.push)
    with steps.step("The CCM's image"):
        made = read_images(arguments.release) if arguments.release else _of_tree(clone.root)
    for platform, image in zip(PLATFORMS, made.images, strict=True):
        steps.note(f"  {platform.name}  {image.manifest.digest}  {image.size / _MIB:.1f} MiB")
    steps.note(f"  index  {made.index.digest}")
    if arguments.output:
        _write(arguments.output, made)
        steps.note(f"✓ written to {arguments.output}")
    if target:
        _push(clone, target, made, steps)
    return 0


def _of_tree(root: Path) -> PlatformImages:
    source = read_source(root)
    images = tuple(build(source, cache_folder(), PLATFORMS))
    return PlatformImages(source.reference(), index_of(images, source.labels()), images)


def _write(path: Path, made: PlatformImages) -> None:
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            write_layout({made.reference: made.index}, made.below, file)
        partial.replace(path)
    finally:  # after an error or an interruption
        partial.unlink(missing_ok=True)


def _push(clone: Clone, target: registry.Target, made: PlatformImages, steps: Steps) -> None:
    with steps.step(f"Pushing to {target}", f"Pushed to {target}") as progress:
        crane = toolchain.ensure(clone.cache, progress, [CRANE]).bin / "crane"
        registry.push(crane, target, made.index, made.below)
    steps.note(f"  to use the image in a stack: pulumi config set ccmImage {target}")
