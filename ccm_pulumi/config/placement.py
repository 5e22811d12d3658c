"""Types and locations of servers: wanted ones, existing ones, and fallbacks.

A fallback is chosen once, when a server is created (``choose`` in preflight/capacity.py). A label on the
server records the placement that was wanted then. So neither new capacity nor another list of fallbacks moves
it later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..lib.errors import Problem
from .config_values import WORD, Parts, decoded, parts_of, word

FALLBACK_FOR = "fallback-for"
"""Label of a server that uses a fallback. The value is the configured type and location: ``cpx22.fsn1``."""
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

    @property
    def label(self) -> Mapping[str, str]:
        """The label that keeps a server at a fallback for this placement."""
        return {FALLBACK_FOR: f"{self.server_type}.{self.location}"}


@dataclass(frozen=True)
class Fallback:
    """Another server type, another location, or both; empty fields are as wanted."""

    server_type: str = ""
    location: str = ""

    def instead_of(self, wanted: Placement) -> Placement:
        """The placement that replaces a wanted one."""
        return Placement(self.server_type or wanted.server_type, self.location or wanted.location)


@dataclass(frozen=True)
class Present:
    """A server that exists."""

    placement: Placement
    labels: Mapping[str, str] = field(default_factory=dict)
    has_ipv4: bool = True  # whether it has a public IPv4 address
    networks: frozenset[int] = frozenset()  # IDs
    is_public: bool = True  # whether it has a public IPv4 or IPv6 address
    image: str = ""  # from which it was created; empty: that image no longer exists
    image_id: str = ""  # which the settings may have instead of the name
    group: str = ""  # name of its placement group; empty: it is in none
    disk: int = 0  # GB; may be less than that of its type
    is_arm: bool = False

    def stays(self, wanted: Placement) -> bool:
        """Whether it has the wanted placement, or a fallback for it."""
        return self.placement == wanted or self.labels.items() >= wanted.label.items()


def parse_fallbacks(value: Any, key: str) -> tuple[tuple[Fallback, ...], list[Problem]]:
    """The fallbacks, as far as they can be read, and all problems."""
    entries = decoded(value)
    if not isinstance(entries, list) or len(entries) > MAX_FALLBACKS:
        allowed = f"give a list of at most {MAX_FALLBACKS} fallbacks, such as {_EXAMPLE}"
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
        # an invalid entry becomes the wanted placement, so that the indexes of the others stay
        fallbacks.append(Fallback(values.get("serverType", ""), values.get("location", "")))
    return tuple(fallbacks), problems
