"""The setting ``osUpgrades``: when servers may reboot."""

import datetime as dt
import re
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..lib.errors import Problem
from .config_values import Parts, decoded, parts_of

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]", re.ASCII)
_EXAMPLE = '{"days": ["sat", "sun"], "start": "02:00", "end": "05:00", "timeZone": "Europe/Berlin"}'
_OF_THIS_MACHINE = "localtime"
"""Python lists this name as a time zone on some machines, but kured doesn't support this name."""


@dataclass(frozen=True)
class RebootWindow:
    """When servers may reboot."""

    days: tuple[str, ...]  # some of ``DAYS``, in their order
    start: str  # time of the day, as in "02:00"
    end: str  # likewise; later on the same day
    time_zone: str  # of both, as in the IANA time zone database

    def is_open(self, now: dt.datetime) -> bool:
        """Whether servers may reboot at a time, which has a zone."""
        there = now.astimezone(zoneinfo.ZoneInfo(self.time_zone))
        return DAYS[there.weekday()] in self.days and self.start <= there.strftime("%H:%M") < self.end


def parse_window(value: Any, key: str) -> tuple[RebootWindow | None, list[Problem]]:
    """The window, None if it is not set or invalid; and all problems."""
    setting = decoded(value)
    if not isinstance(setting, Mapping):
        return None, [Problem(key, value, f"give {_EXAMPLE}, or remove the setting")]
    if not setting:
        return None, []
    parts, problems = parts_of(setting, key, _PARTS, _PARTS)
    if "start" in parts and "end" in parts and parts["end"] <= parts["start"]:
        allowed = f"give a time after 'start' ({parts['start']}): a window can't extend past midnight"
        problems.append(Problem(f"{key}.end", parts["end"], allowed))
    if problems:
        return None, problems
    return RebootWindow(parts["days"], parts["start"], parts["end"], parts["timeZone"]), []


def _days(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(day in DAYS for day in value):
        raise ValueError
    return tuple(day for day in DAYS if day in value)


def _time(value: Any) -> str:
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise ValueError
    return value


def _zone(value: Any) -> str:
    if value == _OF_THIS_MACHINE or value not in zoneinfo.available_timezones():
        raise ValueError
    return str(value)


_TIME_ALLOWED = 'give a time in quotes, with two digits for hours and two digits for minutes, such as "02:00"'
_PARTS: Parts = {
    "days": (_days, f"give a list of days: {', '.join(DAYS)}"),
    "start": (_time, _TIME_ALLOWED),
    "end": (_time, _TIME_ALLOWED),
    "timeZone": (_zone, "give the name of a time zone, such as Europe/Berlin or UTC"),
}
