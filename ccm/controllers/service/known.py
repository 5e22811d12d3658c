"""What we remember of a Service that we work for."""

from __future__ import annotations

from dataclasses import dataclass, field

from ccm.cloud import Notice
from ccm.controllers.names import CLEANUP_FINALIZER
from ccm.controllers.service.hosts import Host
from ccm.controllers.service.policy import has_finalizer
from ccm.controllers.service.restoring import Restoring
from ccm.kube.objects import LoadBalancerIngress, Service

MOST_SHOWN = 3  # addresses of a status in a message


@dataclass(slots=True)
class Known:
    """One Service, and what came of the last look at it. Lost at a restart, which costs one look more.

    Attributes:
        service: As it was when it was last looked at.
        hosts: The Nodes that the cloud was last told of; None = of none yet.
        ingress: The status that we wrote; None = none yet.
        notices: What its owner was told and has not become untrue since.
        due: Since when, in the event loop's seconds, its Nodes are out of date; None = they are not.
        restoring: How often others changed what we wrote.
    """

    service: Service
    hosts: tuple[Host, ...] | None = None
    ingress: tuple[LoadBalancerIngress, ...] | None = None
    notices: frozenset[Notice] = frozenset()
    due: float | None = None
    restoring: Restoring = field(default_factory=Restoring)

    def lost(self, old: Service, new: Service) -> str:
        """What somebody changed of what we wrote, in words; empty = nothing.

        Our own writes arrive as changes, too.
        """
        if has_finalizer(old) and not has_finalizer(new):
            return f"its finalizer {CLEANUP_FINALIZER} is taken away"
        theirs = new.status.load_balancer.ingress
        if self.ingress is None or old.status.load_balancer.ingress != self.ingress or theirs == self.ingress:
            return ""
        return f"its status says {_shown(theirs)}, and it is reached at {_shown(self.ingress)}"


def _shown(ingress: tuple[LoadBalancerIngress, ...]) -> str:
    addresses = [one.ip or one.hostname for one in ingress]
    more = f" and {len(addresses) - MOST_SHOWN} more" if len(addresses) > MOST_SHOWN else ""
    return ", ".join(addresses[:MOST_SHOWN]) + more or "nothing"
