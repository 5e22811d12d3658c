"""Times in Pulumi's notation, and durations as programs write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sandbox.engine.errors import UsageError

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?)(ns|us|µs|ms|s|m|h)")


def timestamp(now: datetime | None = None) -> str:
    """A moment (default: now) as RFC 3339 with nanoseconds, as states have it."""
    moment = now or datetime.now(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond * 1000:09d}Z"


def seconds(text: str) -> float:
    """A Go duration such as `1h30m` or `500ms` in seconds.

    Raises:
        UsageError: The text is no duration.
    """
    matches = list(_PART.finditer(text))
    if not matches or "".join(match[0] for match in matches) != text:
        raise UsageError(f"'{text}' is not a duration (like 30s, 5m or 1h30m)")
    return sum(float(number) * _UNITS[unit] for number, unit in (match.groups() for match in matches))
