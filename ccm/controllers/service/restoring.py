"""How soon what we wrote into a Service is written again after somebody else changed it. Pure.

Who slips once is set right at once. Another controller that writes the same would go on for ever, each write
of ours followed by one of its own; so each further one waits longer. Time is an argument, in seconds of any
monotonic clock.
"""

from __future__ import annotations

FIRST = 5.0  # seconds that the second time waits, then doubled: the delays of failures
LONGEST = 300.0
PEACE = 2 * LONGEST  # seconds without a loss after which the next one is the first again


class Restoring:
    """One Service's losses of late."""

    __slots__ = ("_due", "_times")

    def __init__(self) -> None:
        self._times = 0
        self._due = 0.0

    @property
    def contested(self) -> bool:
        """Whether it happened again: then it was no slip."""
        return self._times > 1

    def lost(self, now: float) -> float:
        """Note a loss, and say in how many seconds it is to be made good; 0 = at once.

        Until then, whatever else is lost waits for the same moment.
        """
        if now < self._due:
            return self._due - now
        if now > self._due + PEACE:
            self._times = 0
        delay = min(LONGEST, FIRST * 2.0 ** (self._times - 1)) if self._times else 0.0
        self._times = min(self._times + 1, 60)  # far beyond the longest delay, and a float holds it
        self._due = now + delay
        return delay
