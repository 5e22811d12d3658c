"""Samples of servers and load balancers, and rates between samples; the number of samples is limited."""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

MAX_SAMPLES = 500
"""Maximum number of samples for one server or load balancer. An API response never has more samples."""

GAUGES = frozenset({"open_connections"})
"""Series whose values are totals. The values of other series are rates per second."""

Key = tuple[str, int]


@dataclass(frozen=True)
class Sample:
    """Totals by series at a Unix time."""

    at: float
    totals: Mapping[str, float]


class Measurements:
    """The latest samples by kind and ID."""

    def __init__(self) -> None:
        self.at = -math.inf  # Unix time of the last one
        self._samples: dict[Key, deque[Sample]] = {}

    def add(
        self, measured: Mapping[Key, Mapping[str, float]], now: float, born: Callable[[Key], float | None]
    ) -> None:
        """Store samples at a Unix time, and delete those of deleted objects.

        ``born`` returns the Unix time when an object's totals were zero; None if it is deleted.
        """
        self.at = now
        self._samples = {key: kept for key, kept in self._samples.items() if born(key) is not None}
        for key, totals in measured.items():
            since = born(key)
            if since is None:
                continue
            first = Sample(since, dict.fromkeys(totals, 0.0))
            self._samples.setdefault(key, deque([first], maxlen=MAX_SAMPLES)).append(Sample(now, totals))

    def of(self, key: Key) -> Sequence[Sample]:
        """The samples of an object, oldest first."""
        return tuple(self._samples.get(key, ()))


def values_at(samples: Sequence[Sample], series: str, moments: Sequence[float]) -> list[tuple[float, float]]:
    """The values of a series at Unix times between the first and the last sample, all oldest first.

    A rate is the average between two samples. A total that decreased started again at zero.
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
