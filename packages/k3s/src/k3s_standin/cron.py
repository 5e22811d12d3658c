"""Cron schedules with the five fields and the words that k3s accepts (robfig/cron's standard parser)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from ccm.go import parse_duration

_FIELDS: Sequence[tuple[str, int, int, Sequence[str]]] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    ("day of the week", 0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_ZONES = ("CRON_TZ=", "TZ=")
_MOST_DAYS = 5 * 366
"""The maximum number of days to search for the next date of a schedule. As in k3s, this is five years."""


@dataclass(frozen=True)
class Schedule:
    """When a task is due."""

    minutes: frozenset[int] = frozenset()  # of the hour
    hours: frozenset[int] = frozenset()  # of the day
    days: frozenset[int] = frozenset()  # of the month
    months: frozenset[int] = frozenset()  # of the year
    weekdays: frozenset[int] = frozenset()  # 0 is Sunday
    either_day: bool = False  # whether one of ``days`` and ``weekdays`` suffices: neither is a star
    # Whole seconds between two times, at least one, instead of the fields; None: use the fields.
    every: timedelta | None = None
    zone: tzinfo | None = None  # the time zone of the fields; None: the machine's own

    def after(self, now: datetime) -> datetime | None:
        """The first time after ``now`` (both in the machine's time zone); None if not within five years."""
        if self.every:
            return (now + self.every).replace(microsecond=0)
        there = now.astimezone(self.zone).replace(tzinfo=None) if self.zone else now
        due = self._fitting(there)
        # The difference is added, so the result is later than now even if clocks change in between.
        return now + (due - there) if due else None

    def _fitting(self, now: datetime) -> datetime | None:
        """The first time after ``now`` that fits the fields, both in their time zone."""
        earliest = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
        for days in range(_MOST_DAYS):
            day = earliest + timedelta(days=days)
            if days:
                day = day.replace(hour=0, minute=0)
            if self._has_day(day) and (found := self._in_day(day)):
                return found
        return None

    def _has_day(self, day: datetime) -> bool:
        by_date, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        of_two = by_date or by_week if self.either_day else by_date and by_week
        return day.month in self.months and of_two

    def _in_day(self, start: datetime) -> datetime | None:
        times = ((hour, minute) for hour in sorted(self.hours) for minute in sorted(self.minutes))
        later = ((hour, minute) for hour, minute in times if (hour, minute) >= (start.hour, start.minute))
        found = next(later, None)
        return start.replace(hour=found[0], minute=found[1]) if found else None


def parse(spec: str) -> Schedule:
    """Read a schedule such as ``0 */12 * * *``, ``@daily`` or ``@every 6h``; the ValueError says why not.

    It may begin with ``CRON_TZ=Europe/Berlin`` or ``TZ=Europe/Berlin`` and one space.
    """
    zone, spec = _split(spec)
    if spec.startswith(_EVERY):
        return Schedule(every=timedelta(seconds=max(1, int(parse_duration(spec.removeprefix(_EVERY))))))
    fields = _WORDS.get(spec, spec).split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: {spec!r}")
    parsed = [_field(text, *about) for text, about in zip(fields, _FIELDS, strict=True)]
    values = [frozenset(value) for value, _ in parsed]
    return Schedule(*values, either_day=not (parsed[2][1] or parsed[4][1]), zone=zone)


def _split(spec: str) -> tuple[tzinfo | None, str]:
    """The time zone of a schedule, and the schedule without it."""
    if not spec.startswith(_ZONES):
        return None, spec
    name, space, rest = spec.partition("=")[2].partition(" ")
    if not space:
        raise ValueError(f"the schedule must have more fields after the time zone: {spec!r}")
    return _zone(name), rest.strip()


def _zone(name: str) -> tzinfo | None:
    """The time zone that Go's time.LoadLocation finds by this name; None is the machine's."""
    if name == "Local":
        return None
    if name in {"", "UTC"}:
        return UTC
    # Other schedules don't need the module.
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"this machine has no time zone named {name!r}") from None


def _field(text: str, name: str, least: int, most: int, names: Sequence[str]) -> tuple[set[int], bool]:
    """The values of a field, and whether it has a star, which is all of them."""
    values: set[int] = set()
    star = False
    for part in text.split(","):
        found, all_of_them = _part(part, name, least, most, names)
        values |= found
        star = star or all_of_them
    return values, star


def _part(text: str, name: str, least: int, most: int, names: Sequence[str]) -> tuple[set[int], bool]:
    span, slash, step_text = text.partition("/")
    step = _number(step_text, name, ()) if slash else 1
    star = span in {"*", "?"}
    first_text, dash, last_text = span.partition("-")
    first = least if star else _number(first_text, name, names, least)
    last = _number(last_text, name, names, least) if dash else (most if star or slash else first)
    if not (least <= first <= last <= most and step):
        raise ValueError(f"{text!r} isn't a valid {name}. Allowed numbers: {least} to {most}")
    return set(range(first, last + 1, step)), star and step == 1


def _number(text: str, name: str, names: Sequence[str], least: int = 0) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + least
    if not re.fullmatch("[0-9]{1,4}", text, re.ASCII):
        raise ValueError(f"{text!r} isn't a number for the field {name}")
    return int(text)
