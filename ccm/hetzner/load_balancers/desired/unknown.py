"""What a load balancer keeps, because it is not known what it should be instead. Pure."""

from __future__ import annotations

from dataclasses import replace

from ccm.cloud import Notice
from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.desired.desired import Desired
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.labels import ADOPTED
from ccm.hetzner.load_balancers.wishes import PREFIX, Wishes

# Not even what is in them is known where they are too long: then their problem's key is the prefix alone.
_TARGET_KEYS = frozenset({PREFIX, PREFIX + "node-selector", PREFIX + "use-private-ip"})


def keep_unknown(wishes: Wishes, actual: LoadBalancer, facts: Facts, desired: Desired) -> Desired:
    """Have what can't be understood or found now stay as it is.

    Args:
        wishes: What the Service asks for.
        actual: Its load balancer.
        facts: What there is.
        desired: What the load balancer should be, as if all were known.
    """
    adopts = wishes.adopt and wishes.adopt not in (str(actual.id), actual.name)
    if adopts and facts.leads and not facts.adopting and ADOPTED not in actual.labels:
        text = (
            f"{PREFIX}adopt: {wishes.adopt!r} is not adopted, because load balancer {actual.name} "
            f"({actual.id}) is this Service's; delete that to have the other adopted"
        )
        notice = Notice("LoadBalancerNotAdopted", text)
        desired = replace(desired, notices=(*desired.notices, notice))
    ports = frozenset(one.listen_port for one in actual.services)
    if desired.problems:
        # Its nodes are followed all the same, unless it is not known which.
        return Desired(
            name=actual.name,
            labels=actual.labels,
            targets=None if desired.problems.keys() & _TARGET_KEYS else desired.targets,
            foreign_ports=ports,
            foreign_targets=desired.foreign_targets,
            reachable=desired.reachable,
            errors=desired.errors,
            notices=desired.notices,
        )
    if desired.errors or desired.refused:
        kept = ports & wishes.ports.keys() - {one.listen_port for one in desired.listeners}
        return replace(desired, foreign_ports=desired.foreign_ports | kept)
    return desired
