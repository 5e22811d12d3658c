"""What the cloud offers now: locations, server types and where there is room for them, images."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from .api import Fetch, everything
from .errors import Problem
from .settings import Settings, key_of


@dataclass(frozen=True)
class Catalogue:
    """What can be had.

    Attributes:
        zones: Network zone of each location.
        server_types: Per server type the locations where it can be had now; None where the API doesn't say.
        images: Names of the system images, by architecture: ``x86`` and ``arm``.
        arm: Names of the server types with ARM processors.
    """

    zones: Mapping[str, str]
    server_types: Mapping[str, Mapping[str, bool]]
    images: Mapping[str, frozenset[str]]
    arm: frozenset[str] = frozenset()


def read_catalogue(fetch: Fetch) -> Catalogue:
    """Asks for the three lists at the same time."""
    with ThreadPoolExecutor(max_workers=3) as pool:
        locations, types, images = pool.map(
            lambda what: everything(fetch, *what),
            [("locations", ""), ("server_types", ""), ("images", "&type=system")],
        )
    return Catalogue(
        zones={location["name"]: location["network_zone"] for location in locations},
        server_types={kind["name"]: _availability(kind) for kind in types},
        images=_by_architecture(images),
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
    architectures = {"arm" if name in catalogue.arm else "x86" for name in wanted.values()}
    return problems + _image_problems(settings.image, architectures, catalogue)


def _by_architecture(images: Sequence[Mapping[str, Any]]) -> Mapping[str, frozenset[str]]:
    return {
        architecture: frozenset(
            image["name"] for image in images if image["name"] and image["architecture"] == architecture
        )
        for architecture in ("arm", "x86")
    }


def _image_problems(name: str, architectures: Collection[str], catalogue: Catalogue) -> list[Problem]:
    """What is wrong with the servers' image; a number is the id of a snapshot, which the list hasn't."""
    names = frozenset.intersection(*(catalogue.images[architecture] for architecture in architectures))
    return [] if name in names or name.isdigit() else [_unknown("image", name, names)]


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


def _unknown(field: str, value: str, known: Sequence[str] | Mapping[str, Any] | frozenset[str]) -> Problem:
    names = sorted(known)
    near = difflib.get_close_matches(value, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    return Problem(key_of(field), value, f"{hint}there are {', '.join(names)}")
