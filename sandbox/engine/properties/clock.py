"""Times in Pulumi's notation, and durations as programs write them."""

from __future__ import annotations

from datetime import UTC, datetime

from ccm.go import parse_duration
from sandbox.engine.errors import UsageError


def timestamp(now: datetime | None = None) -> str:
    """A moment (default: now) as RFC 3339 with nanoseconds, as states have it."""
    moment = now or datetime.now(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond * 1000:09d}Z"


def seconds(text: str) -> float:
    """A Go duration such as ``1h30m`` or ``500ms`` in seconds.

    Raises:
        UsageError: The text is no duration.
    """
    try:
        return parse_duration(text)
    except ValueError:
        raise UsageError(f"'{text}' is not a duration (like 30s, 5m or 1h30m)") from None
