"""What a Service may not use of a load balancer that it shares. Pure."""

from __future__ import annotations

from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.labels import SERVICE_UID
from ccm.hetzner.load_balancers.wishes import Wishes


def foreign_ports(wishes: Wishes, facts: Facts) -> dict[int, str]:
    """Ports that are not the Service's to use, and who has them."""
    balancer, owners, own = facts.balancer, facts.marks.owners, facts.marks.own
    if balancer is None or not (wishes.tolerates_others or facts.marks.others):
        return {}
    taken = {port: f"the Service with UID {uid}" for port, uid in owners.items() if uid not in own}
    if not owners and balancer.labels.get(SERVICE_UID) == wishes.service.uid and not facts.adopting:
        return taken  # it was not shared until now
    for listener in balancer.services:
        if owners.get(listener.listen_port) not in own:
            for port in listener.ports:
                taken.setdefault(port, "somebody else")
    return taken
