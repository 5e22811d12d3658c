"""The record of an image of a server's disk, and how to find it or a system image by its ID."""

from typing import Any, ClassVar

from hetzner_emulator.api.offer import SYSTEM_IMAGES, Image
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.catalogs import system_image_wire
from hetzner_emulator.state.records import Indexes, Record, record


@record
class Snapshot(Record):
    """An image of a server's disk, of type ``snapshot`` or ``backup``."""

    KIND: ClassVar[str] = "image"
    FIRST_ID: ClassVar[int] = 500_000_001  # above those of system images
    INDEXES: ClassVar[Indexes] = {
        "backups_of": lambda image: {image.bound_to} - {None},
    }

    type: str
    description: str
    architecture: str  # `x86` or `arm`
    source: int  # ID of the server that it is a copy of
    source_name: str  # its name at that time
    bound_to: int | None  # ID of the server whose backup it is, or None
    flavor: str  # of the operating system
    version: str  # likewise
    disk_size: int  # in GB, of the server's disk
    size: float | None = None  # in GB, of the copy; None until it is complete
    status: str = "creating"  # `creating` or `available`
    protected: bool = False


def snapshot_wire(_cloud: Cloud, image: Snapshot) -> dict[str, Any]:
    """The image as the API shows it."""
    return {
        **image.common_wire("type", "status", "description", "disk_size", "bound_to", "architecture"),
        "name": None,
        "image_size": image.size,
        "created_from": {"id": image.source, "name": image.source_name},
        "os_flavor": image.flavor,
        "os_version": image.version,
        "rapid_deploy": False,
        "protection": {"delete": image.protected},
        "deprecation": None,
        "deleted": None,
    }


def image_wire(cloud: Cloud, image: Image | Snapshot) -> dict[str, Any]:
    """An image of either kind as the API shows it."""
    return system_image_wire(image) if isinstance(image, Image) else snapshot_wire(cloud, image)


def backups_of(cloud: Cloud, server: int) -> list[Snapshot]:
    """The backups of a server, the oldest first."""
    found = cloud.store.lookup("backups_of", server)
    return sorted((image for image in found if isinstance(image, Snapshot)), key=lambda image: image.id)


def image_by_id(cloud: Cloud, identity: int | None) -> Image | Snapshot | None:
    """The image with this ID, or None."""
    if identity is None:
        return None
    system = next((image for image in SYSTEM_IMAGES if image.id == identity), None)
    return system or cloud.store.find(Snapshot, identity)
