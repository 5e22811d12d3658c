"""Prevents the deletion of all Nodes because of wrong data from the cloud.

One missing machine is normal. If all machines disappear at once, the token belongs to another project, or the
cloud's data is wrong. If some machines still exist, the project is the right one, because IDs are never
reused. But if most machines are missing, a longer wait costs little. Before you delete a whole cluster,
disable the breaker (``--mass-deletion-breaker=false``).
"""

import enum
from dataclasses import dataclass


class Verdict(enum.Enum):
    """Whether Nodes without a machine may be deleted."""

    DELETE = "delete"
    WAIT = "wait"  # most machines are missing: check for longer
    STOP = "stop"  # all machines are missing: a user must confirm it


@dataclass(slots=True)
class MassDeletionBreaker:
    """Evaluates the number of missing machines, and stores since when too many are missing."""

    on: bool = True  # False, as in upstream = no check, to delete a whole cluster
    share: float = 0.5  # the share of Nodes that may lose their machine without a wait
    confirm_after: float = 300.0  # seconds that a larger share must be missing before deletions
    # since when too many machines are missing, on the clock of `evaluate`; None = not too many
    tripped_at: float | None = None
    verdict: Verdict = Verdict.DELETE  # of the last evaluation

    def evaluate(self, *, total: int, absent: int, now: float) -> Verdict:
        """Decide about ``absent`` of ``total`` machines; ``now``: seconds of a monotonic clock."""
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
