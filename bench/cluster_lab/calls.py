"""Calls that a client made one after the other, and for how long they failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """One call.

    Attributes:
        began: When, in seconds of a steady clock.
        ended: When it was answered, or given up.
        answered: Whether it was answered as it should be.
    """

    began: float
    ended: float
    answered: bool


def longest_failure(calls: Sequence[Call]) -> float:
    """The longest time without an answer, in seconds; 0 where every call was answered.

    Such a time begins with the first call that fails, and ends with the answer of the next that does not.

    Args:
        calls: By the time at which they began.
    """
    longest, failing = 0.0, None
    for call in calls:
        if not call.answered and failing is None:
            failing = call.began
        if failing is not None:
            longest = max(longest, call.ended - failing)
        if call.answered:
            failing = None
    return longest


def answers_again(calls: Sequence[Call], since: float) -> float | None:
    """Seconds from a moment until calls are answered and none fails any more; 0 where none failed.

    Args:
        calls: By the time at which they began.
        since: The moment.

    Returns:
        None where the last call failed.
    """
    after = [call for call in calls if call.ended >= since]
    failed = [number for number, call in enumerate(after) if not call.answered]
    if not failed:
        return 0.0
    following = after[failed[-1] + 1 :]
    return following[0].ended - since if following else None


def failures(calls: Sequence[Call]) -> str:
    """How many calls failed, in words."""
    return f"{sum(not call.answered for call in calls)} of {len(calls)} were lost"
