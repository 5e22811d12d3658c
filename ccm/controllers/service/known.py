"""What we remember of a Service that we work for."""

from __future__ import annotations

from dataclasses import dataclass

from ccm.cloud import Notice
from ccm.controllers.service.hosts import Host
from ccm.controllers.service.policy import has_finalizer
from ccm.kube.objects import LoadBalancerIngress, Service


@dataclass(slots=True)
class Known:
    """One Service, and what came of the last look at it. Lost at a restart, which costs one look more.

    Attributes:
        service: As it was when it was last looked at.
        hosts: The Nodes that the cloud was last told of; None = of none yet.
        ingress: The status that we wrote; None = none yet.
        notices: What its owner was told and has not become untrue since.
        due: Since when, in the event loop's seconds, its Nodes are out of date; None = they are not.
    """

    service: Service
    hosts: tuple[Host, ...] | None = None
    ingress: tuple[LoadBalancerIngress, ...] | None = None
    notices: frozenset[Notice] = frozenset()
    due: float | None = None

    def lost_something(self, old: Service, new: Service) -> bool:
        """Whether somebody changed what we wrote; our own writes arrive as changes too."""
        if has_finalizer(old) and not has_finalizer(new):
            return True
        if self.ingress is None:
            return False
        return old.status.load_balancer.ingress == self.ingress != new.status.load_balancer.ingress
