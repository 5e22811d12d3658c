"""What the cloud offers now: locations, server types and where there is room for them, images."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from infra.api import Fetch, everything
from infra.errors import Problem
from infra.settings import Settings, key_of


@dataclass(frozen=True)
class Catalogue:
    """What can be had.

    Attributes:
        zones: Network zone of each location.
        server_types: Per server type the locations where it can be had now; None where the API doesn't say.
        images: Names of the system images for x86.
        arm: Names of the server types with ARM processors.
    """

    zones: Mapping[str, str]
    server_types: Mapping[str, Mapping[str, bool]]
    images: frozenset[str]
    arm: frozenset[str] = frozenset()


def read_catalogue(fetch: Fetch) -> Catalogue:
    """Asks for the three lists at the same time."""
    with ThreadPoolExecutor(max_workers=3) as pool:
        locations, types, images = pool.map(
            lambda what: everything(fetch, *what),
            [("locations", ""), ("server_types", ""), ("images", "&type=system&architecture=x86")],
        )
    return Catalogue(
        zones={location["name"]: location["network_zone"] for location in locations},
        server_types={kind["name"]: _availability(kind) for kind in types},
        images=frozenset(image["name"] for image in images if image["name"]),
        arm=frozenset(kind["name"] for kind in types if kind.get("architecture") == "arm"),
    )


def catalogue_problems(settings: Settings, catalogue: Catalogue) -> list[Problem]:
    """What of the settings the cloud can't give."""
    zone = catalogue.zones.get(settings.location)
    problems = []
    if zone is None:
        problems.append(_unknown("location", settings.location, catalogue.zones))
    elif zone != settings.network_zone:
        problems.append(
            Problem(
                key_of("network_zone"), settings.network_zone, f"{settings.location} is in the zone {zone}"
            )
        )
    wanted = {"control_server_type": settings.control_server_type}
    if settings.worker_count:
        wanted["worker_server_type"] = settings.worker_server_type
    for field, name in wanted.items():
        problems += _type_problems(field, name, settings.location, catalogue)
    if settings.control_server_type in catalogue.arm and _image_is_built(settings):
        problems.append(_built_for_x86(settings, catalogue))
    # a number is the id of a snapshot, which the list of system images doesn't have
    if settings.image not in catalogue.images and not settings.image.isdigit():
        problems.append(_unknown("image", settings.image, catalogue.images))
    return problems


def _availability(kind: Mapping[str, Any]) -> Mapping[str, bool]:
    return {place["name"]: place.get("available", True) for place in kind.get("locations", [])}


def _type_problems(field: str, name: str, location: str, catalogue: Catalogue) -> list[Problem]:
    places = catalogue.server_types.get(name)
    if places is None:
        return [_unknown(field, name, catalogue.server_types)]
    if location not in catalogue.zones or places.get(location, False):
        return []
    elsewhere = [place for place, free in places.items() if free]
    here = sorted(other for other, at in catalogue.server_types.items() if at.get(location))
    return [
        Problem(
            key_of(field),
            name,
            f"{location} has no room for it now; it can be had in {', '.join(elsewhere) or 'no location'}, "
            f"and {location} has {', '.join(here) or 'nothing'}",
        )
    ]


def _image_is_built(settings: Settings) -> bool:
    """Whether the CCM's image is built from this tree and put on the control server."""
    return not settings.ccm_image and not settings.kubeconfig_path


def _built_for_x86(settings: Settings, catalogue: Catalogue) -> Problem:
    others = sorted(
        name
        for name, places in catalogue.server_types.items()
        if places.get(settings.location) and name not in catalogue.arm
    )
    return Problem(
        key_of("control_server_type"),
        settings.control_server_type,
        "it has ARM processors, and the CCM's image that is built here is for x86; either build one with "
        f"ccm/Dockerfile, push it and set {key_of('ccm_image')} to its reference, or take one of "
        f"{', '.join(others) or 'another location'}",
    )


def _unknown(field: str, value: str, known: Sequence[str] | Mapping[str, Any] | frozenset[str]) -> Problem:
    names = sorted(known)
    near = difflib.get_close_matches(value, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    return Problem(key_of(field), value, f"{hint}there are {', '.join(names)}")
