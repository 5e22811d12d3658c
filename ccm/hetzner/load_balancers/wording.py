"""Words for people, of a length that doesn't depend on what a tenant wrote. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

LONGEST_SHOWN = 80
MOST_SHOWN = 20


def shown(value: str) -> str:
    """A value in quotes, cut where it is long."""
    return repr(value if len(value) <= LONGEST_SHOWN else value[:LONGEST_SHOWN] + "…")


def enumerated(names: Sequence[str], *, between: str = ", ", most: int = MOST_SHOWN) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def quoted(names: Iterable[str], *, most: int = MOST_SHOWN) -> str:
    """The first of some values in quotes, each cut where it is long."""
    several = list(islice(names, most + 1))
    return ", ".join(shown(name) for name in several[:most]) + (" and more" if len(several) > most else "")
