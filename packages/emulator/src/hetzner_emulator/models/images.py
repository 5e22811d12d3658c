"""What is kept of an image that was made from a server's disk, and how images of both kinds are found."""

from __future__ import annotations

from typing import Any, ClassVar

from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, InvalidInput, NotFound
from hetzner_emulator.models.system_images import SYSTEM_IMAGES, Image, system_image_wire
from hetzner_emulator.state.records import Record, index, record


@record
class Snapshot(Record):
    """An image of a server's disk, of type ``snapshot`` or ``backup``.

    Attributes:
        type: Either of them.
        description: The user's.
        architecture: ``x86`` or ``arm``.
        source: Id of the server that it was made from.
        source_name: Its name at that time.
        bound_to: Id of the server whose backup it is, or None.
        flavor: Of the operating system.
        version: Likewise.
        disk_size: In GB, of the server's disk.
        size: In GB, of what was kept of it; None until that is known.
        status: ``creating`` or ``available``.
    """

    KIND: ClassVar[str] = "image"
    FIRST_ID: ClassVar[int] = 500_000_001  # above those of the system's images

    type: str
    description: str
    architecture: str
    source: int
    source_name: str
    bound_to: int | None
    flavor: str
    version: str
    disk_size: int
    size: float | None = None
    status: str = "creating"
    protected: bool = False


@index("backups_of", Snapshot.KIND)
def _bound(image: Snapshot) -> list[int]:
    return [] if image.bound_to is None else [image.bound_to]


def snapshot_wire(_cloud: Cloud, image: Snapshot) -> dict[str, Any]:
    """The image as the API shows it."""
    return {
        **image.common_wire(),
        "name": None,
        "type": image.type,
        "status": image.status,
        "description": image.description,
        "image_size": image.size,
        "disk_size": image.disk_size,
        "created_from": {"id": image.source, "name": image.source_name},
        "bound_to": image.bound_to,
        "os_flavor": image.flavor,
        "os_version": image.version,
        "rapid_deploy": False,
        "protection": {"delete": image.protected},
        "deprecation": None,
        "deleted": None,
        "architecture": image.architecture,
    }


def image_wire(cloud: Cloud, image: Image | Snapshot) -> dict[str, Any]:
    """An image of either kind as the API shows it."""
    return system_image_wire(image) if isinstance(image, Image) else snapshot_wire(cloud, image)


def backups_of(cloud: Cloud, server: int) -> list[Snapshot]:
    """The backups of a server, the oldest first."""
    found = cloud.store.lookup("backups_of", server)
    return sorted((image for image in found if isinstance(image, Snapshot)), key=lambda image: image.id)


def image_by_id(cloud: Cloud, identity: int | None) -> Image | Snapshot | None:
    """An image, if it is there."""
    if identity is None:
        return None
    system = next((image for image in SYSTEM_IMAGES if image.id == identity), None)
    return system or cloud.store.find(Snapshot, identity)


def check_image(cloud: Cloud, identity: int | None) -> None:
    """Refuse to make a disk from an image that was deleted meanwhile.

    Raises:
        NotFound: It was.
    """
    if identity is not None and image_by_id(cloud, identity) is None:
        raise NotFound("image", identity)


def find_image(cloud: Cloud, project: str, text: str, architecture: str, disk: int) -> Image | Snapshot:
    """An image by id, or by name and architecture.

    Args:
        cloud: Has the snapshots.
        project: Whose.
        text: What a request says.
        architecture: That it must be for.
        disk: Size in GB of the disk that it must fit on.

    Raises:
        ApiError: ``invalid_input``; there is none.
        InvalidInput: It is not ready, too large or for another architecture.
    """
    found: list[Image | Snapshot] = [i for i in SYSTEM_IMAGES if text in {i.name, str(i.id)}]
    if text.isascii() and text.isdecimal() and len(text) < 20:
        own = cloud.store.find(Snapshot, int(text))
        found += [own] if own is not None and own.project == project else []
    if not found:
        raise ApiError("invalid_input", "image not found")
    fitting = [image for image in found if image.architecture == architecture]
    if not fitting:
        raise InvalidInput({"image": [f"image '{text}' has incompatible architecture"]})
    image = fitting[0]
    if isinstance(image, Snapshot) and image.status != "available":
        raise InvalidInput({"image": [f"image '{text}' is not available"]})
    if image.disk_size > disk:
        raise InvalidInput({"image": [f"image '{text}' needs a disk of {image.disk_size} GB"]})
    return image
