"""The CCM's image: built here while the servers boot, then imported into the control server."""

import asyncio
import io
from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult

from ccm_pulumi.lib.dynamic import Provider, ProviderResource
from ccm_pulumi.lib.errors import InfraError
from ccm_pulumi.lib.ssh import Host, connect
from ccm_pulumi.servers.probe import Report
from ccm_pulumi.servers.server import OneServerProvider, host_of
from image.build import build, cache_folder
from image.errors import ImageError
from image.oci import write_layout
from image.platforms import PLATFORMS, Platform, of_machine
from image.source import Source, read_source

_IMPORT_SECONDS = 180.0
_WAIT_FOR_CONTAINERD = """n=0
# k3s reports ready as soon as its API is ready; containerd starts a moment later
until said=$(k3s ctr version 2>&1); do
  n=$((n + 1))
  [ "$n" -lt 300 ] || { echo "$said" >&2; exit 1; }
  sleep 0.2
done"""
_PIN = """k3s ctr images ls -q | grep '^{repository}:' | while read -r image; do
  # an empty value removes the label
  [ "$image" = '{reference}' ] && pinned=pinned || pinned=
  k3s ctr images label "$image" "io.cri-containerd.pinned=$pinned" || exit 1
done"""
"""Pins the CCM's image, because kubelets remove unused images when a disk fills up. Only one control server
uses the image, so the other kubelets could remove it. No registry contains the image
(https://github.com/k3s-io/k3s/discussions/9624)."""


class CcmImageProvider(Provider):
    """Builds the image of this tree, for every kind of server."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Builds it, or finds it in the cache."""
        return CreateResult("image", {**props, "reference": _built().reference()})


class CcmImage(ProviderResource, provider=CcmImageProvider):
    """The image in this machine's cache. Its name changes with its content."""

    reference: pulumi.Output[str]

    def __init__(self, name: str) -> None:
        super().__init__(name, key=read_source().reference())


class ImportedImageProvider(OneServerProvider):
    """Brings the image into the container store of a server."""

    replaced_by = ("server_id", "generation")
    ignored_inputs = ("private_key", "host_key", "address", "jump")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Imports it; an image that is there already is only checked."""
        source = _built()
        if source.reference() != props["reference"]:
            raise InfraError("files in ccm/ changed while Pulumi copied the image. Run pulumi up again")
        asyncio.run(import_image(host_of(props), source))
        return CreateResult(f"{props['server_id']}/{props['reference']}", dict(props))

    def compare(self, props: Mapping[str, Any], report: Report) -> list[str]:
        """Looks for the image, and for what keeps it on the server."""
        return image_drift(props["reference"], report)


class ImportedImage(ProviderResource, provider=ImportedImageProvider):
    """The image in a server's container store, so that no registry is needed.

    It is imported again with another ``generation`` of the cluster or ``installation`` of k3s, which begin
    with an empty store.
    """

    reference: pulumi.Output[str]


async def import_image(host: Host, source: Source) -> None:
    """Sends the image for the server's own kind of processor through SSH into containerd, and pins it there.
    Images of earlier versions stay as long as the disk has room for them.
    """
    async with connect(host) as shell:
        said = await shell.run("uname -m", what="asking for the processor", timeout=_IMPORT_SECONDS)
        machine = said.strip()
        platform = of_machine(machine)
        if platform is None:
            known = ", ".join(each.machine for each in PLATFORMS)
            raise InfraError(
                f"the processor of the server is {machine}, but the CCM's image is built only for {known}"
            )
        content = await asyncio.to_thread(archive_for, source, platform)
        await shell.run(_WAIT_FOR_CONTAINERD, what="waiting for containerd", timeout=_IMPORT_SECONDS)
        await shell.feed(
            "k3s ctr images import -", content, what="importing the CCM's image", timeout=_IMPORT_SECONDS
        )
        await shell.run(pin(source.reference()), what="pinning the CCM's image", timeout=_IMPORT_SECONDS)


def image_drift(reference: str, report: Report) -> list[str]:
    """The differences of an image on a server, for a person; empty if the image store does not answer."""
    if report.images is None or report.images.get(reference):
        return []
    return [f"the image {reference} is {'not pinned' if reference in report.images else 'gone'}"]


def pin(reference: str) -> str:
    """The commands that keep the kubelet from removing an image, and let it remove others of that name."""
    return _PIN.format(repository=reference.rpartition(":")[0], reference=reference)


def archive_for(source: Source, platform: Platform) -> bytes:
    """The image of one platform as ``ctr images import`` takes it."""
    (image,) = build(source, cache_folder(), [platform])
    target = io.BytesIO()
    write_layout({source.reference(): image.manifest}, image.blobs, target)
    return target.getvalue()


def _built() -> Source:
    try:
        source = read_source()
        build(source, cache_folder(), PLATFORMS)
    except ImageError as error:
        raise InfraError(f"the CCM's image could not be built: {error}") from error
    return source
