"""``./dev image``: the CCM's image for every kind of server, in a file or in a registry."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from image import credentials, registry
from image.build import build, cache_folder
from image.errors import ImageError
from image.oci import Blob, Image, index_of, write_layout
from image.platforms import PLATFORMS
from image.source import Source, read_source
from sandbox.console import Steps
from sandbox.errors import SandboxError
from sandbox.outputs import check_file
from sandbox.site import Clone

HELP = "build the CCM's image for amd64 and arm64; put it into a file or a registry"
_MIB = 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where it goes."""
    parser.add_argument(
        "--output", type=_file, metavar="FILE", help="write it as an OCI layout in a tar archive"
    )
    parser.add_argument(
        "--push",
        metavar="REGISTRY/NAME:TAG",
        help="upload it, with the credentials of 'docker login' or of CCMFS_REGISTRY_USERNAME and "
        "CCMFS_REGISTRY_PASSWORD",
    )


def _file(text: str) -> Path:
    path = Path(text)
    if not path.name or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} has to be a file")
    return path


def check(_clone: Clone, arguments: argparse.Namespace) -> None:
    """Make sure that it can be kept where it was asked for.

    Raises:
        SandboxError: It can't.
    """
    if arguments.output:
        check_file(arguments.output)


def run(clone: Clone, arguments: argparse.Namespace) -> int:
    """Build it, and put it where it was asked for."""
    steps = Steps(Console())
    try:
        target = None if arguments.push is None else registry.parse_target(arguments.push)
        with steps.step("The CCM's image"):
            source = read_source(clone.root)
            images = build(source, cache_folder(), PLATFORMS)
        index = index_of(images, source.labels())
        for platform, image in zip(PLATFORMS, images, strict=True):
            steps.note(f"  {platform.name}  {image.manifest.digest}  {image.size / _MIB:.1f} MiB")
        steps.note(f"  index  {index.digest}")
        if arguments.output:
            _write(arguments.output, index, images, source)
            steps.note(f"✓ written to {arguments.output}")
        if target:
            _push(target, index, images, steps)
    except ImageError as error:
        raise SandboxError(str(error)) from error
    return 0


def _write(path: Path, index: Blob, images: Sequence[Image], source: Source) -> None:
    partial = path.with_name(f"{path.name}.partial")
    below = [blob for image in images for blob in (image.manifest, *image.blobs)]
    try:
        with partial.open("wb") as file:
            write_layout({source.reference(): index}, below, file)
        partial.replace(path)
    finally:  # of a full disk, or of who did not wait
        partial.unlink(missing_ok=True)


def _push(target: registry.Target, index: Blob, images: Sequence[Image], steps: Steps) -> None:
    with steps.step(f"Pushing to {target}", f"Pushed to {target}"):
        place = registry.Registry(target, credentials.find(target.registry))
        sent = place.push(
            index, [image.manifest for image in images], [blob for image in images for blob in image.blobs]
        )
    steps.note(f"  {sent} new layers and configurations; for the stack: pulumi config set ccmImage {target}")
