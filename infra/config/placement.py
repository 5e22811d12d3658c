"""Types and locations of servers: the ones that the settings ask for, and the ones that exist. Pure.

A fallback is chosen once, when a server is created (``choose`` in preflight/capacity.py). A label on the
server says what the settings asked for then, so neither free capacity nor another list of fallbacks moves it
later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..lib.errors import Problem
from .config_values import WORD, Parts, decoded, parts_of, word

FALLBACK_FOR = "fallback-for"
"""Label of a server at a fallback: the type and the location that were wanted, such as ``cpx22.fsn1``."""
MAX_FALLBACKS = 20

_PARTS: Parts = {"serverType": (word, WORD), "location": (word, WORD)}
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

    def stays(self, wanted: Placement) -> bool:
        """Whether it is where it is wanted, or stands at a fallback for that."""
        return self.placement == wanted or self.labels.get(FALLBACK_FOR) == _label_of(wanted)


@dataclass(frozen=True)
class Choice:
    """Where a server stands or is made, and where it was wanted."""

    placement: Placement
    wanted: Placement

    @property
    def types(self) -> list[str]:
        """The wanted server type, and the one that it gets."""
        return [self.wanted.server_type, self.placement.server_type]

    @property
    def labels(self) -> Mapping[str, str]:
        """What the server is labelled with, so that it stays where it is."""
        return {} if self.placement == self.wanted else {FALLBACK_FOR: _label_of(self.wanted)}


def parse_fallbacks(value: Any, key: str) -> tuple[tuple[Fallback, ...], list[Problem]]:
    """Reads the setting as far as it can be read.

    Returns:
        The fallbacks, and every problem.
    """
    entries = decoded(value)
    if not isinstance(entries, list) or len(entries) > MAX_FALLBACKS:
        allowed = f"give a list of at most {MAX_FALLBACKS}, such as {_EXAMPLE}"
        return (), [Problem(key, value, allowed)]
    problems: list[Problem] = []
    fallbacks = []
    for index, entry in enumerate(entries):
        at = f"{key}[{index}]"
        if not isinstance(entry, dict) or not entry:
            allowed = f"give serverType, location or both, such as in {_EXAMPLE}"
            values, found = {}, [Problem(at, entry, allowed)]
        else:
            values, found = parts_of(entry, at, _PARTS)
        problems += found
        # what can't be read is nothing else than what is wanted: places in the list keep their numbers
        fallbacks.append(Fallback(values.get("serverType", ""), values.get("location", "")))
    return tuple(fallbacks), problems


def _label_of(wanted: Placement) -> str:
    return f"{wanted.server_type}.{wanted.location}"
