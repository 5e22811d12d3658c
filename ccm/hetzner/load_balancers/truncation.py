"""Limits the length of tenants' texts in messages."""

from collections.abc import Iterable, Sequence
from itertools import islice

MAX_SHOWN_LENGTH = 80
MAX_SHOWN = 20


def shown(value: str) -> str:
    """A value in quotes, cut if it is long."""
    return repr(value if len(value) <= MAX_SHOWN_LENGTH else value[:MAX_SHOWN_LENGTH] + "…")


def enumerated(names: Sequence[str], *, between: str = ", ", limit: int = MAX_SHOWN) -> str:
    """The first names, and the number of the others."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return between.join(names[:limit]) + more


def quoted(names: Iterable[str]) -> str:
    """The first values in quotes, each cut if it is long."""
    several = [shown(name) for name in islice(names, MAX_SHOWN + 1)]
    return ", ".join(several[:MAX_SHOWN]) + (" and more" if len(several) > MAX_SHOWN else "")
