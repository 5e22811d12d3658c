"""System images; every machine of the sandbox boots the same Debian, whatever its image is called."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from sandbox.cloud.state.records import timestamp


@dataclass(frozen=True)
class Image:
    """One system image."""

    id: int
    flavor: str
    version: str
    architecture: str = "x86"
    deprecated: str | None = None
    created: float = 1714051587.0
    disk_size: int = 5

    @property
    def name(self) -> str:
        """For example ``debian-12``."""
        return f"{self.flavor}-{self.version}"

    @functools.cache  # noqa: B019  images are as old as the module
    def wire(self) -> dict[str, Any]:
        """As the API shows it; shared between answers, so not to be changed."""
        return {
            "id": self.id,
            "type": "system",
            "status": "available",
            "name": self.name,
            "description": f"{self.flavor.capitalize()} {self.version}",
            "image_size": None,
            "disk_size": self.disk_size,
            "created": timestamp(self.created),
            "created_from": None,
            "bound_to": None,
            "os_flavor": self.flavor,
            "os_version": self.version,
            "rapid_deploy": True,
            "protection": {"delete": False},
            "deprecated": self.deprecated,
            "deleted": None,
            "labels": {},
            "architecture": self.architecture,
        }


SYSTEM_IMAGES = (
    Image(67794396, "ubuntu", "22.04"),
    Image(103908130, "ubuntu", "22.04", "arm"),
    Image(114690387, "debian", "12"),
    Image(114690389, "debian", "12", "arm"),
    Image(45557056, "debian", "11", deprecated="2026-08-31T00:00:00Z"),
    Image(161547269, "ubuntu", "24.04"),
    Image(161547270, "ubuntu", "24.04", "arm"),
    Image(310557660, "debian", "13"),
    Image(310557661, "debian", "13", "arm"),
    Image(232895454, "fedora", "41"),
    Image(186371830, "rocky", "9"),
    Image(186371832, "alma", "9"),
)
