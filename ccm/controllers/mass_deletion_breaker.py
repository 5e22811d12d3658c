"""Keeps a wrong view of the cloud from deleting the cluster.

One machine that disappears is normal. If all disappear at once, the token belongs to another project, or the
cloud's answers are wrong. If the machines of other Nodes are still found, the view is right, because IDs are
never reused; but if most are gone, waiting longer costs little. To take a cluster down on purpose, switch the
breaker off (``--mass-deletion-breaker=false``).
"""

import enum
from dataclasses import dataclass


class Verdict(enum.Enum):
    """What may be done about machines that are absent."""

    DELETE = "delete"
    WAIT = "wait"  # most are gone: look for longer
    STOP = "stop"  # all are gone: a person must confirm it


@dataclass(slots=True)
class MassDeletionBreaker:
    """Evaluates disappearances, and remembers since when they have lasted."""

    on: bool = True  # False = believe everything, as upstream does: for taking a cluster down
    share: float = 0.5  # the share of the Nodes that may disappear at once without a wait
    confirm_after: float = 300.0  # seconds that a larger share must stay absent before we believe it
    # since when too many have been absent, on the clock of `evaluate`; None = they are not
    tripped_at: float | None = None
    verdict: Verdict = Verdict.DELETE  # of the last evaluation

    def evaluate(self, *, total: int, absent: int, now: float) -> Verdict:
        """Say what may be done about ``absent`` of ``total`` machines; ``now``: seconds of a steady clock."""
        self.verdict = self._evaluate(total, absent, now)
        return self.verdict

    def _evaluate(self, total: int, absent: int, now: float) -> Verdict:
        everything = absent == total and total > 1
        many = absent > 2 and absent > total * self.share
        if not self.on or not (everything or many):
            self.tripped_at = None
            return Verdict.DELETE
        if self.tripped_at is None:
            self.tripped_at = now
        if everything:
            return Verdict.STOP
        return Verdict.DELETE if now - self.tripped_at >= self.confirm_after else Verdict.WAIT
