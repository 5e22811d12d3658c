"""The record of a volume."""

import re
from typing import Any, ClassVar

from hetzner_emulator.api.catalog import LOCATIONS
from hetzner_emulator.backend import AttachedVolume, VolumeSpec
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.state.records import Indexes, Record, record

SMALLEST, LARGEST = 10, 10_240
FORMATS = ("ext4", "xfs")
_NAME = re.compile(r"[a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?")


@record
class Volume(Record):
    """A disk that servers can have."""

    KIND: ClassVar[str] = "volume"
    FIRST_ID: ClassVar[int] = 21_000_001
    INDEXES: ClassVar[Indexes] = {
        "volumes_of": lambda volume: {volume.server, volume.wanted_by} - {None},
    }

    size: int  # in GB
    location: str  # name
    format: str | None = None  # file system at its creation, or None
    status: str = "creating"  # `creating` or `available`
    server: int | None = None  # ID of its server, or None
    automount: bool = False  # whether the server mounts it
    wanted_by: int | None = None  # ID of the server that an action is attaching it to, or None
    protected: bool = False


def name_problem(name: str) -> str:
    """Describe what is invalid in a volume's name; "" if it is valid."""
    return "" if _NAME.fullmatch(name) else "must be letters, digits, dashes, underscores and dots"


def volume_wire(_cloud: Cloud, volume: Volume) -> dict[str, Any]:
    """The volume as the API shows it."""
    return {
        **volume.common_wire("size", "server", "format", "status"),
        "location": LOCATIONS[volume.location].wire(),
        "linux_device": f"/dev/disk/by-id/scsi-0HC_Volume_{volume.id}",
        "protection": {"delete": volume.protected},
    }


def volume_spec(volume: Volume, size: int | None = None) -> VolumeSpec:
    """The volume as the backend sees it, optionally with another size."""
    return VolumeSpec(volume.id, size or volume.size, volume.format)


def volumes_of(cloud: Cloud, server: int) -> list[Volume]:
    """The volumes of a server, the oldest first."""
    found = cloud.store.lookup("volumes_of", server)
    return sorted((v for v in found if isinstance(v, Volume) and v.server == server), key=lambda v: v.id)


def wanted_volumes(cloud: Cloud, server: int) -> int:
    """Number of volumes of a server, including those that an action is attaching."""
    return len(cloud.store.lookup("volumes_of", server))


def attached(cloud: Cloud, server: int) -> tuple[AttachedVolume, ...]:
    """The volumes of a server as the backend sees them."""
    return tuple(AttachedVolume(volume_spec(v), v.automount) for v in volumes_of(cloud, server))
