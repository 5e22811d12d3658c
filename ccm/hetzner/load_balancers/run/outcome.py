"""What came of the steps of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from ccm.cloud import CloudError, Notice
from ccm.hetzner.load_balancers.facts import Facts, Views


@dataclass
class Outcome:
    """What came of a plan so far, and of those before it.

    Attributes:
        views: Where what is done is seen from now on.
        facts: What there is now.
        steps: What was done.
        errors: What was not, and why.
        notices: What the owner should know.
        again: Whether the API has decided about something, so that the rest has to be planned anew.
        released: Ids of load balancers that the Service has left.
    """

    views: Views
    facts: Facts
    steps: list[str] = field(default_factory=list[str])
    errors: list[CloudError] = field(default_factory=list[CloudError])
    notices: list[Notice] = field(default_factory=list[Notice])
    again: bool = False
    released: list[int] = field(default_factory=list[int])
