"""Validates a cron schedule by the rules of the parser that k3s uses for its snapshots.

k3s reports no error for a schedule that this parser refuses, and takes no snapshots:
https://github.com/k3s-io/k3s/blob/master/pkg/etcd/snapshot.go (``setSnapshotFunction``),
https://pkg.go.dev/github.com/robfig/cron/v3#hdr-CRON_Expression_Format
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAYS_OF_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""Number of days in each month of a leap year."""


@dataclass(frozen=True)
class _Field:
    """One of the five fields. Its names are numbers, the first is ``minimum``."""

    name: str
    minimum: int
    maximum: int
    names: Sequence[str] = ()

    def values(self, text: str) -> frozenset[int]:
        """The numbers that it selects; a ValueError says why it is invalid."""
        return frozenset().union(*(self._span(part) for part in text.split(",")))

    def _span(self, text: str) -> range:
        span, slash, step_text = text.partition("/")
        step = self._number(step_text, ()) if slash else 1
        first_text, dash, last_text = span.partition("-")
        first = self.minimum if span == "*" else self._number(first_text, self.names)
        last = self._number(last_text, self.names) if dash else first
        if span == "*" or (slash and not dash):
            last = self.maximum
        if not step:
            raise ValueError(f"{self.name}: {text} has no steps")
        if not self.minimum <= first <= last <= self.maximum:
            raise ValueError(f"{self.name}: {text} must be between {self.minimum} and {self.maximum}")
        return range(first, last + 1, step)

    def _number(self, text: str, names: Sequence[str]) -> int:
        if text.lower() in names:
            return names.index(text.lower()) + self.minimum
        if not re.fullmatch("[0-9]{1,4}", text, re.ASCII):
            raise ValueError(f"{self.name}: {text or 'nothing'} is not a number")
        return int(text)


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 6, _WEEKDAYS),
)


def wrong_with(schedule: str) -> str:
    """Why a schedule of five fields is invalid; empty if it is valid. ``@daily`` and its like are invalid."""
    fields = schedule.split(" ")
    if len(fields) != len(_FIELDS):
        return f"it has {len(fields)} fields"
    try:
        _, _, days, months, _ = (field.values(text) for field, text in zip(_FIELDS, fields, strict=True))
    except ValueError as error:
        return str(error)
    # if both fields select days, either of them is enough
    any_weekday = any(part in ("*", "*/1") for part in fields[4].split(","))
    if any_weekday and min(days) > max(_DAYS_OF_MONTHS[month - 1] for month in months):
        return "none of the months in the schedule has this day of the month"
    return ""
