"""The CCM's image: built here while the servers boot, then imported into the control server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, Resource

from infra.dynamic import Provider
from infra.errors import ImageBuildError
from infra.oci.build import Built, build, cache_folder, read_source
from infra.remote import Host, connect
from infra.server import Server, host_of

_IMPORT_SECONDS = 180.0
_WAIT_FOR_CONTAINERD = """n=0
# k3s says that it is ready when its API is; containerd comes with the node, a moment later
until said=$(k3s ctr version 2>&1); do
  n=$((n + 1))
  [ "$n" -lt 300 ] || { echo "$said" >&2; exit 1; }
  sleep 0.2
done"""


class CcmImageProvider(Provider):
    """Builds the image of this tree."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Builds it, or finds it in the cache."""
        built = build(read_source(), cache_folder())
        return CreateResult("image", {**props, "reference": built.reference})


class CcmImage(Resource, module="ccm-from-scratch", name="CcmImage"):
    """The image in this machine's cache. Its name changes with its content."""

    reference: pulumi.Output[str]

    def __init__(self, name: str, key: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(CcmImageProvider(), name, {"key": key, "reference": None}, opts)


class ImportedImageProvider(Provider):
    """Brings the image into the container store of a server."""

    replaced_by = ("server_id", "generation")
    unheeded = ("private_key", "host_key", "address")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Imports it; an image that is there already is only checked."""
        built = _same_build(props["reference"])
        asyncio.run(import_image(host_of(props), built.archive))
        return CreateResult(f"{props['server_id']}/{built.reference}", dict(props))


class ImportedImage(Resource, module="ccm-from-scratch", name="ImportedImage"):
    """The image in a server's container store, so that no registry is needed."""

    reference: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        server: Server,
        *,
        generation: pulumi.Input[str],
        reference: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Imports the image.

        Args:
            name: Of the resource.
            server: Into whose container store.
            generation: Known once k3s is there; changes when its store was emptied.
            reference: Of the image.
            opts: As for every resource.
        """
        props = {**server.access.inputs(), "generation": generation, "reference": reference}
        super().__init__(ImportedImageProvider(), name, props, opts)


async def import_image(host: Host, archive: Path) -> None:
    """Sends the archive through SSH into containerd."""
    async with connect(host) as shell:
        content = await asyncio.to_thread(archive.read_bytes)
        await shell.run(_WAIT_FOR_CONTAINERD, what="waiting for containerd", timeout=_IMPORT_SECONDS)
        await shell.feed(
            "k3s ctr images import -", content, what="importing the CCM's image", timeout=_IMPORT_SECONDS
        )


def _same_build(reference: str) -> Built:
    built = build(read_source(), cache_folder())
    if built.reference != reference:
        raise ImageBuildError(
            "ccm/ changed while its image was on its way to the server: run pulumi up again"
        )
    return built
