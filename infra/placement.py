"""Where each server stands: where the settings want it, or, where there is no room, at a fallback. Pure.

A fallback is chosen once, for a server that does not exist or is made anew. A label on the server says what
it stands in for, so neither room that comes back nor another list of fallbacks moves it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import Problem
from .given import decoded

FALLBACK_FOR = "fallback-for"
"""Label of a server at a fallback: the type and the location that were wanted, such as ``cpx22.fsn1``."""
MOST_FALLBACKS = 20

_KEYS = {"serverType": "server_type", "location": "location"}
_WORD = re.compile(r"[\w.-]{1,63}", re.ASCII)
_EXAMPLE = '[{"serverType": "cpx32"}, {"location": "nbg1"}]'


@dataclass(frozen=True)
class Placement:
    """A server type at a location."""

    server_type: str
    location: str

    def __str__(self) -> str:
        return f"{self.server_type} in {self.location}"


@dataclass(frozen=True)
class Fallback:
    """Another server type, another location, or both; what is empty is as wanted."""

    server_type: str = ""
    location: str = ""

    def instead_of(self, wanted: Placement) -> Placement:
        """The placement that this makes of a wanted one."""
        return Placement(self.server_type or wanted.server_type, self.location or wanted.location)


@dataclass(frozen=True)
class Demand:
    """A server that the settings ask for.

    Attributes:
        role: By which it is known: its name without the cluster's.
        pool: Of which it is one.
        wanted: What and where.
        key: The setting that says its type.
        alternatives: Where else it may be made, in order.
        has_ipv4: Whether it has a public IPv4 address, and then one of IPv6, too.
        image: Of which it is made; empty: another one is no reason to make it anew.
        group: Name of its placement group, empty for none; None: another one is no reason to make it anew.
    """

    role: str
    pool: str
    wanted: Placement
    key: str
    alternatives: tuple[Placement, ...] = ()
    has_ipv4: bool = True
    image: str = ""
    group: str | None = None


@dataclass(frozen=True)
class Present:
    """A server that exists.

    Attributes:
        placement: What and where.
        labels: Its labels in the cloud.
        has_ipv4: Whether it has a public IPv4 address.
        networks: Ids of the private networks that it is in.
        is_public: Whether it has a public address of either kind.
        image: Of which it was made; empty: the cloud has that image no more.
        image_id: Its id, by which the settings may name it, too.
        group: Name of its placement group; empty: it is in none.
        disk: Its size in GB, which may be less than that of its type.
        is_arm: Whether its processor is of that kind.
    """

    placement: Placement
    labels: Mapping[str, str] = field(default_factory=dict)
    has_ipv4: bool = True
    networks: frozenset[int] = frozenset()
    is_public: bool = True
    image: str = ""
    image_id: str = ""
    group: str = ""
    disk: int = 0
    is_arm: bool = False


@dataclass(frozen=True)
class Choice:
    """Where a server stands or is made, and where it was wanted."""

    placement: Placement
    wanted: Placement

    @property
    def labels(self) -> Mapping[str, str]:
        """What the server is labelled with, so that it stays where it is."""
        return {} if self.placement == self.wanted else {FALLBACK_FOR: _label_of(self.wanted)}


def parse_fallbacks(value: Any, key: str) -> tuple[tuple[Fallback, ...], list[Problem]]:
    """Reads the setting as far as it can be read.

    Args:
        value: A list, or one as JSON.
        key: The setting's, for problems.

    Returns:
        The fallbacks, and every problem.
    """
    entries = decoded(value)
    if not isinstance(entries, list) or len(entries) > MOST_FALLBACKS:
        allowed = f"give a list of at most {MOST_FALLBACKS}, such as {_EXAMPLE}"
        return (), [Problem(key, value, allowed)]
    problems: list[Problem] = []
    fallbacks = []
    for index, entry in enumerate(entries):
        found = _entry_problems(entry, f"{key}[{index}]")
        problems += found
        # what can't be read is nothing else than what is wanted: places in the list keep their numbers
        fallbacks.append(Fallback() if found else Fallback(**{_KEYS[name]: entry[name] for name in entry}))
    return tuple(fallbacks), problems


def _entry_problems(entry: Any, key: str) -> list[Problem]:
    if not isinstance(entry, dict) or not entry:
        return [Problem(key, entry, f"give serverType, location or both, such as in {_EXAMPLE}")]
    problems = []
    for name, value in entry.items():
        if name not in _KEYS:
            allowed = f"there is no such key; a fallback has {', '.join(_KEYS)}"
            problems.append(Problem(f"{key}.{name}", value, allowed))
        elif not isinstance(value, str) or not _WORD.fullmatch(value):
            allowed = "give a name of at most 63 letters, digits, dots and hyphens"
            problems.append(Problem(f"{key}.{name}", value, allowed))
    return problems


def choose(
    demands: Sequence[Demand],
    has_room: Callable[[Placement], bool],
    present: Mapping[str, Present],
) -> tuple[dict[str, Choice], list[Demand]]:
    """Decides for every server where it stands.

    One that exists stays where it is, at a fallback too, as long as the settings want what they wanted. One
    that the settings want elsewhere goes there, never to a fallback. One that doesn't exist gets the first
    placement with room; so does one that is made anew where it is, for which that is the first.

    Args:
        demands: What the settings ask for.
        has_room: Whether the cloud has room there now.
        present: Servers by role.

    Returns:
        By role, and for which of them there is no room: they have the first of their placements in the
        former.
    """
    choices, homeless = {}, []
    for demand in demands:
        wanted, here = demand.wanted, present.get(demand.role)
        if here is None:
            places = wanted, *demand.alternatives
        elif reasons_for_another(demand, here):
            places = here.placement, wanted, *demand.alternatives
        elif not _stays(here, wanted):
            places = (wanted,)
        else:
            choices[demand.role] = Choice(here.placement, wanted)
            continue
        placement = next(filter(has_room, places), None)
        choices[demand.role] = Choice(placement or places[0], wanted)
        if placement is None:
            homeless.append(demand)
    return choices, homeless


def reasons_for_another(demand: Demand, here: Present) -> list[str]:
    """Why a server is deleted and made anew where it is; nothing where another place is wanted."""
    if not _stays(here, demand.wanted):
        return []
    differs = {
        "another image": has_another_image(demand, here),
        "other public addresses": demand.has_ipv4 != here.is_public,
        "another placement group": demand.group not in (None, here.group),
    }
    return [reason for reason, is_so in differs.items() if is_so]


def has_another_image(demand: Demand, here: Present) -> bool:
    """Whether a server was made of another image than it is wanted of, as far as that counts."""
    return bool(demand.image and here.image) and demand.image not in (here.image, here.image_id)


def _stays(here: Present, wanted: Placement) -> bool:
    return here.placement == wanted or here.labels.get(FALLBACK_FOR) == _label_of(wanted)


def _label_of(wanted: Placement) -> str:
    return f"{wanted.server_type}.{wanted.location}"
