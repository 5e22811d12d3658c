"""How long a build takes and how much of it is left, from what the same build took before."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sandbox.kubernetes.components import Component

RECORDED = Path(__file__).with_name("costs.json")
"""CPU seconds and Go packages of each component's build, from ``./dev bench toolchain --record``."""

TRUSTED_SECONDS = 30.0
"""After this number of seconds, the estimate gives the observed and the assumed speed the same weight."""


@dataclass(frozen=True)
class Cost:
    """What one build took, after those that come before it in the order of building."""

    seconds: float  # CPU time
    packages: int  # Go packages that were compiled


@cache
def _recorded() -> dict[str, Cost]:
    return {name: Cost(*figures) for name, figures in json.loads(RECORDED.read_text()).items()}


def costs(components: Iterable[Component]) -> list[Cost]:
    """The recorded costs of components; a component without a record, as in tests, costs nothing."""
    return [_recorded().get(component.name, Cost(0, 0)) for component in components]


def seconds_left(todo: Sequence[Cost], compiled: int, done: float, elapsed: float, cores: int) -> float:
    """Seconds on the clock that the rest of a build takes at the speed so far.

    Until the speed is known, each core does one recorded second a second. Of the first component in ``todo``,
    ``compiled`` packages are done; components built before took ``done`` recorded CPU seconds.
    """
    first, *rest = todo
    part = min(compiled / first.packages, 1.0) if first.packages else 0.0
    left = first.seconds * (1 - part) + sum(cost.seconds for cost in rest)
    speed = (done + first.seconds * part + TRUSTED_SECONDS * cores) / (elapsed + TRUSTED_SECONDS)
    return left / speed


def duration(seconds: float) -> str:
    """A time for people: ``≈ 12 min``, or ``< 1 min``."""
    return f"≈ {seconds / 60:.0f} min" if seconds >= 60 else "< 1 min"


def first_time(components: Iterable[Component]) -> str:
    """How long components take on this machine while nothing is built, for people."""
    return duration(sum(cost.seconds for cost in costs(components)) / len(os.sched_getaffinity(0)))
