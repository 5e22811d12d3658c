"""What the cloud offers now: locations, images, and server types with the locations that have capacity."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ..config.setting_types import key_of
from ..config.settings import Settings
from ..lib.cloud_api import Fetch, everything
from ..lib.errors import Problem
from ..servers.snapshot_images import Snapshot, read_snapshots, unfit


@dataclass(frozen=True)
class Catalogue:
    """What can be had."""

    zones: Mapping[str, str]  # network zone of each location
    server_types: Mapping[str, Mapping[str, bool]]  # by type and location: whether it can be had there now
    images: Mapping[str, frozenset[str]]  # names by architecture, ``x86`` and ``arm``
    arm: frozenset[str] = frozenset()  # names of the server types with ARM processors
    disks: Mapping[str, int] = field(default_factory=dict)  # GB by server type
    # images that the settings name by their IDs
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)


def read_catalogue(fetch: Fetch, now: datetime, named: Collection[str] = ()) -> Catalogue:
    """Asks for the three lists at the same time, and for the images in ``named`` that are IDs.

    A server type whose last day has passed is unavailable; ``now`` has a time zone.
    """
    with ThreadPoolExecutor(max_workers=3) as pool:
        locations, types, images = pool.map(
            lambda what: everything(fetch, *what),
            # a deprecated image can be used for some months
            [("locations", ""), ("server_types", ""), ("images", "&type=system&include_deprecated=true")],
        )
    return Catalogue(
        zones={location["name"]: location["network_zone"] for location in locations},
        server_types={kind["name"]: _availability(kind, now) for kind in types},
        images=_by_architecture(images),
        arm=frozenset(kind["name"] for kind in types if kind.get("architecture") == "arm"),
        disks={kind["name"]: kind["disk"] for kind in types},
        snapshots=read_snapshots(fetch, sorted({name for name in named if name.isdigit()})),
    )


@dataclass(frozen=True)
class Needed:
    """Images and types that new servers get, and types that existing servers get.

    Hetzner removes images and types some months after their deprecation. Existing servers keep theirs.
    """

    images: frozenset[str]
    server_types: frozenset[str]


def catalogue_problems(
    settings: Settings, catalogue: Catalogue, needed: Needed | None = None
) -> list[Problem]:
    """Settings that the cloud can't fulfill; ``needed`` are images and types (None: all that are set)."""
    kinds = [*settings.servers, *settings.autoscaled]
    places = dict.fromkeys((kind.keys.location, kind.wanted.location) for kind in kinds)
    # also those that no control server is in
    for index, name in enumerate(settings.control_locations):
        places.setdefault((f"{key_of('control_locations')}[{index}]", name))
    # load balancers are there, even if all servers are elsewhere
    if settings.makes_balancers or settings.location not in catalogue.zones:
        places.setdefault((key_of("location"), settings.location))
    problems = [problem for place in places for problem in _location_problems(place, settings, catalogue)]
    problems += [
        unknown(key, name, catalogue.server_types)
        for key, name in dict.fromkeys((kind.keys.server_type, kind.wanted.server_type) for kind in kinds)
        if name not in catalogue.server_types and (needed is None or name in needed.server_types)
    ]
    made_of: dict[tuple[str, str], set[str]] = {}
    for kind in kinds:
        made_of.setdefault((kind.keys.image, kind.image), set()).add(kind.wanted.server_type)
    for (key, name), wanted in made_of.items():
        if needed is None or name in needed.images:
            problems += _image_problems(key, name, wanted, catalogue)
    return problems


def _location_problems(place: tuple[str, str], settings: Settings, catalogue: Catalogue) -> list[Problem]:
    key, location = place
    zone = catalogue.zones.get(location)
    if zone is None:
        return [unknown(key, location, catalogue.zones)]
    if zone == settings.network_zone:
        return []
    if key == key_of("location"):
        return [
            Problem(
                key_of("network_zone"),
                settings.network_zone,
                f"location {location} is in the network zone {zone}",
            )
        ]
    near = ", ".join(sorted(name for name, at in catalogue.zones.items() if at == settings.network_zone))
    allowed = (
        f"this location is in the network zone {zone}, but the network is in {settings.network_zone} "
        f"(locations: {near or 'none'})"
    )
    return [Problem(key, location, allowed)]


def _by_architecture(images: Sequence[Mapping[str, Any]]) -> Mapping[str, frozenset[str]]:
    return {
        architecture: frozenset(
            image["name"] for image in images if image["name"] and image["architecture"] == architecture
        )
        for architecture in ("arm", "x86")
    }


def _image_problems(key: str, name: str, types: Collection[str], catalogue: Catalogue) -> list[Problem]:
    """Problems with the image of servers of some types. A number is the ID of an image without a name."""
    if name.isdigit():
        disks = {kind: catalogue.disks[kind] for kind in sorted(types) if kind in catalogue.disks}
        why = unfit(catalogue.snapshots.get(name), disks, catalogue.arm)
        return [Problem(key, name, why)] if why else []
    architectures = {"arm" if kind in catalogue.arm else "x86" for kind in types}
    names = frozenset.intersection(*(catalogue.images[architecture] for architecture in architectures))
    return [] if name in names else [unknown(key, name, names)]


def _availability(kind: Mapping[str, Any], now: datetime) -> Mapping[str, bool]:
    """Whether a server type is available, by location. After its last day, a deprecated type never is.

    https://docs.hetzner.cloud/reference/cloud#server-types
    """
    return {
        place["name"]: place.get("available", True) and not _is_over(place.get("deprecation"), now)
        for place in kind.get("locations", [])
    }


def _is_over(deprecation: Mapping[str, str] | None, now: datetime) -> bool:
    if not deprecation:
        return False
    day = datetime.fromisoformat(deprecation["unavailable_after"])
    return (day if day.tzinfo else day.replace(tzinfo=UTC)) <= now


def unknown(key: str, value: str, known: Sequence[str] | Mapping[str, Any] | frozenset[str]) -> Problem:
    """The problem that a setting has an unknown name; it proposes the nearest known one."""
    names = sorted(known)
    near = difflib.get_close_matches(value, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    return Problem(key, value, f"{hint}there are {', '.join(names)}")
