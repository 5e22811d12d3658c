"""What was measured of servers and load balancers, and the rates that follow from it; bounded in memory."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

KEPT = 500
"""Samples of one server or load balancer; as many as the API shows at once."""

GAUGES = frozenset({"open_connections"})
"""Series that show a total as it is; others show how much it grows in a second."""

Key = tuple[str, int]


@dataclass(frozen=True)
class Sample:
    """Totals by series at a moment, in Unix time."""

    at: float
    totals: Mapping[str, float]


class Measurements:
    """The latest samples of everything that runs, by kind and id.

    Attributes:
        at: When the last was taken, in Unix time.
    """

    def __init__(self) -> None:
        self.at = -math.inf
        self._samples: dict[Key, deque[Sample]] = {}

    def add(
        self, measured: Mapping[Key, Mapping[str, float]], now: float, born: Callable[[Key], float | None]
    ) -> None:
        """Keep what was measured now, and forget what is no more.

        Args:
            measured: Totals by series of everything that runs.
            now: Unix time.
            born: When something was made, which is when its totals were zero; None where it is gone.
        """
        self.at = now
        self._samples = {key: kept for key, kept in self._samples.items() if born(key) is not None}
        for key, totals in measured.items():
            since = born(key)
            if since is None:
                continue
            first = Sample(since, dict.fromkeys(totals, 0.0))
            self._samples.setdefault(key, deque([first], maxlen=KEPT)).append(Sample(now, totals))

    def of(self, key: Key) -> Sequence[Sample]:
        """The samples of one, oldest first; empty where none was taken."""
        return tuple(self._samples.get(key, ()))


def values_at(samples: Sequence[Sample], series: str, moments: Sequence[float]) -> list[tuple[float, float]]:
    """What a series was at some moments; those before the first and after the last sample are left out.

    Between two samples a rate is what it was on average. A total that fell began anew, at zero.

    Args:
        samples: Oldest first.
        series: Its name.
        moments: Unix times, oldest first.
    """
    found: list[tuple[float, float]] = []
    place = 1
    for moment in moments:
        while place < len(samples) and samples[place].at < moment:
            place += 1
        if place >= len(samples):
            break
        before, after = samples[place - 1], samples[place]
        if moment >= before.at and after.at > before.at and series in after.totals:
            found.append((moment, _value(before, after, series)))
    return found


def _value(before: Sample, after: Sample, series: str) -> float:
    total, last = after.totals[series], before.totals.get(series, 0.0)
    if series in GAUGES:
        return total
    return (total - last if total >= last else total) / (after.at - before.at)
