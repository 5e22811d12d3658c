"""How the targets of a load balancer are, as it says itself. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from ccm.cloud import Notice
from ccm.hetzner.api.wire import LoadBalancer

HEALTHY, UNHEALTHY, UNKNOWN = "healthy", "unhealthy", "unknown"
STATUSES = (HEALTHY, UNHEALTHY, UNKNOWN)


def count_targets(balancer: LoadBalancer, ports: Collection[int]) -> Counter[str]:
    """How many targets are how; one that fails the check of any port is unhealthy.

    Args:
        balancer: The load balancer.
        ports: The listeners that matter.
    """
    found: Counter[str] = Counter()
    for target in balancer.targets:
        said = {one.status for one in target.health_status if one.listen_port in ports}
        found[UNHEALTHY if UNHEALTHY in said else HEALTHY if said == {HEALTHY} else UNKNOWN] += 1
    return found


def complaints(balancer: LoadBalancer, ports: Collection[int]) -> Iterator[Notice]:
    """A port that no target answers serves nobody: its owner should know, and where to look."""
    dead: list[str] = []
    for listener in balancer.services:
        said = [
            status.status
            for target in balancer.targets
            for status in target.health_status
            if status.listen_port == listener.listen_port
        ]
        if listener.listen_port in ports and said and set(said) == {UNHEALTHY}:
            check = listener.health_check
            dead.append(f"port {listener.listen_port} (asked on port {check.port} by {check.protocol})")
    if dead:
        text = (
            f"no target passes the health check of {', '.join(dead)}: are the Pods ready, does a "
            "firewall keep the load balancer out, do all ends speak the PROXY protocol, or none of them?"
        )
        yield Notice("NoHealthyTargets", text)
