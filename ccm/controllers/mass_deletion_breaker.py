"""Keeps a wrong view of the cloud from deleting the cluster.

One machine that vanishes is ordinary. All of them at once is not: then the token belongs to another project,
or the cloud answers nonsense with a straight face. If the machines of other Nodes are still found, the view
is the right one, because ids are never given out twice; but if most are gone, it costs little to look for
longer.

To take a cluster down on purpose, switch the breaker off (``--mass-deletion-breaker=false``).
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
    """Evaluates disappearances, and remembers since when they have lasted.

    Attributes:
        on: False = believe everything, as upstream does. Meant for taking a cluster down.
        share: Share of the Nodes that may vanish at once without a wait.
        confirm_after: How long more than that must stay absent before it is believed, in seconds.
        tripped_at: Since when too many have been absent, on the clock of :meth:`evaluate`; None = they
            are not.
        verdict: The last one.
    """

    on: bool = True
    share: float = 0.5
    confirm_after: float = 300.0
    tripped_at: float | None = None
    verdict: Verdict = Verdict.DELETE

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
