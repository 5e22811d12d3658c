"""System images as the API shows them."""

from __future__ import annotations

import functools
from typing import Any

from hetzner_emulator.api.catalog import deprecation_wire
from hetzner_emulator.api.offer import SYSTEM_IMAGES, Image
from hetzner_emulator.state.records import timestamp

__all__ = ["SYSTEM_IMAGES", "Image", "system_image_wire"]


@functools.cache
def system_image_wire(image: Image) -> dict[str, Any]:
    """The image as the API shows it; shared between answers, so not to be changed."""
    return {
        "id": image.id,
        "type": "system",
        "status": "available",
        "name": image.name,
        "description": f"{image.flavor.capitalize()} {image.version}",
        "image_size": None,
        "disk_size": image.disk_size,
        "created": timestamp(image.created),
        "created_from": None,
        "bound_to": None,
        "os_flavor": image.flavor,
        "os_version": image.version,
        "rapid_deploy": True,
        "protection": {"delete": False},
        "deprecation": deprecation_wire(image.deprecation),
        "deleted": None,
        "labels": {},
        "architecture": image.architecture,
    }
