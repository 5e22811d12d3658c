"""System images; every machine of the sandbox boots the same Debian, whatever its image is called."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from sandbox.cloud.api.call import Call
from sandbox.cloud.api.catalog import Catalog
from sandbox.cloud.api.registry import operation
from sandbox.cloud.api.resource import listing
from sandbox.cloud.errors import ApiError, InvalidInput, NotFound
from sandbox.cloud.wire.reply import Reply


@dataclass(frozen=True)
class Image:
    """One system image."""

    id: int
    flavor: str
    version: str
    architecture: str = "x86"
    deprecated: str | None = None
    created: str = "2024-04-25T13:26:27Z"

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
            "disk_size": 5,
            "created": self.created,
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


_IMAGES = (
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


def find_image(text: str, architecture: str) -> Image:
    """An image by id, or by name and architecture.

    Raises:
        InvalidInput: There is none, or it is for another architecture.
    """
    IMAGES.find(text)
    for image in IMAGES.called(text):
        if image.architecture == architecture:
            return image
    raise InvalidInput({"image": [f"image '{text}' has incompatible architecture"]})


def _wanted(call: Call, image: Image) -> bool:
    query, wire = call.query, image.wire()
    for parameter in ("type", "status", "architecture"):
        values = query.getall(parameter, [])
        if values and wire[parameter] not in values:
            return False
    if query.get("label_selector") or query.get("bound_to"):
        return False
    return image.deprecated is None or query.get("include_deprecated") == "true"


@operation("PUT", "/images/{id}")
@operation("DELETE", "/images/{id}")
@operation("POST", "/images/{id}/actions/change_protection")
async def change_image(call: Call) -> Reply:
    """System images belong to Hetzner."""
    call.identity("id", "image")
    raise ApiError(
        "unsupported_error", "only images of type snapshot and backup can be changed; the sandbox has none"
    )


@operation("GET", "/images/actions")
@operation("GET", "/images/{id}/actions")
async def image_actions(call: Call) -> Reply:
    """Nothing ever happens to system images."""
    return listing(call, "actions", [], lambda entry: entry)


@operation("GET", "/images/actions/{id}")
@operation("GET", "/images/{id}/actions/{action_id}")
async def image_action(call: Call) -> Reply:
    """No action of an image is ever found."""
    raise NotFound("action", call.parameters.get("action_id", call.parameters["id"]))


IMAGES = Catalog(
    "images", "image", _IMAGES, lambda _call, entry: entry.wire(), ("id", "name", "created"), _wanted
)
IMAGES.register()
