"""What came of the steps of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ccm.cloud import CloudError, Notice
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.run.patience import Patience
from ccm.hetzner.load_balancers.views import Views


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a plan, and of those before it.

    Attributes:
        facts: What there is now.
        steps: What was done.
        errors: What was not, and why.
        notices: What the owner should know.
        again: Whether the API has decided about something, so that the rest has to be planned anew.
    """

    facts: Facts
    steps: tuple[str, ...] = ()
    errors: tuple[CloudError, ...] = ()
    notices: tuple[Notice, ...] = ()
    again: bool = False


@dataclass
class Work:
    """What came of the steps so far, and where it is seen from now on.

    Attributes:
        patience: How long it may still wait for others.
        released: Ids of load balancers that the Service has left.
    """

    views: Views
    patience: Patience
    facts: Facts
    steps: list[str]
    errors: list[CloudError]
    notices: list[Notice]
    again: bool = False
    released: list[int] = field(default_factory=list[int])

    def failed(self, error: CloudError) -> None:
        """Something was not done."""
        self.errors.append(error)
        self.patience.note(error)

    def outcome(self) -> Outcome:
        """The result."""
        former = self.facts.certificates
        known = self.views.certificates.known(self.facts.service)
        known = replace(known, error=former.error, requested=former.requested)
        facts = replace(self.facts, certificates=known)
        return Outcome(facts, tuple(self.steps), tuple(self.errors), tuple(self.notices), self.again)
