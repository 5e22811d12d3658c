"""Checks whether servers can be created from images that settings name by ID, such as snapshots."""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import quote

from ..lib.cloud_api import Fetch, fetch_or_none, understood


@dataclass(frozen=True)
class Snapshot:
    """An image of the project."""

    architecture: str  # of servers from it: ``x86`` or ``arm``
    status: str  # ``available``, or why not
    disk: int  # GB; size of the smallest disk that it fits on
    deleted: bool = False


def read_snapshots(fetch: Fetch, ids: Collection[str]) -> dict[str, Snapshot]:
    """The existing ones of some images, by ID, read in parallel."""
    if not ids:
        return {}
    with ThreadPoolExecutor(max_workers=3) as pool:
        found = zip(ids, pool.map(lambda number: _read(fetch, number), ids), strict=True)
        return {number: snapshot for number, snapshot in found if snapshot}


def _read(fetch: Fetch, number: str) -> Snapshot | None:
    path = f"/images/{number}"
    answer = fetch_or_none(fetch, path)
    if answer is None:
        return None
    with understood(f"GET {path}"):
        image = answer["image"]
        gone = bool(image.get("deleted"))
        return Snapshot(image["architecture"], image["status"], int(image["disk_size"]), gone)


def unfit(snapshot: Snapshot | None, disks: Mapping[str, int], arm: Collection[str]) -> str:
    """Why servers of some types, with the sizes of their disks in GB, can't be created from an image; empty
    if they can. Without a snapshot there is no such image.
    """
    if snapshot is None or snapshot.deleted:
        return "the project of this token has no such image; list the images with: hcloud image list"
    if snapshot.status != "available":
        return f"the image is {snapshot.status}; wait until it is available"
    for name, disk in disks.items():
        architecture = "arm" if name in arm else "x86"
        if snapshot.architecture != architecture:
            return f"the image has the architecture {snapshot.architecture}, but {name} has {architecture}"
        if snapshot.disk > disk:
            return f"the image needs a disk of {snapshot.disk} GB, but {name} has {disk} GB"
    return ""


def unfit_now(fetch: Fetch, image: str, server_type: str) -> str:
    """Why a server of a type can't be created from an image now; empty if it can."""
    path = f"/server_types?name={quote(server_type, safe='')}"
    with understood(f"GET {path}"):
        kinds = fetch(path)["server_types"]
        if not kinds:
            return f"there is no server type {server_type}"
        architecture, disk = kinds[0]["architecture"], kinds[0]["disk"]
    if image.isdigit():
        arm = {server_type} if architecture == "arm" else ()
        return unfit(_read(fetch, image), {server_type: disk}, arm)
    path = f"/images?name={quote(image, safe='')}&architecture={architecture}&include_deprecated=true"
    with understood(f"GET {path}"):
        return (
            ""
            if fetch(path)["images"]
            else f"there is no image {image} for the server type {server_type} ({architecture})"
        )
