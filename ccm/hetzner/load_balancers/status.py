"""Evaluates a load balancer: its addresses for clients, and the health of its targets."""

from collections import Counter
from collections.abc import Collection, Iterator

from ccm.cloud import Ingress, Notice
from ccm.hetzner.api.models import LoadBalancer
from ccm.hetzner.load_balancers.spec import LoadBalancerSpec

VIP = "VIP"
PROXY = "Proxy"
HEALTHY, UNHEALTHY, UNKNOWN = "healthy", "unhealthy", "unknown"
STATUSES = (HEALTHY, UNHEALTHY, UNKNOWN)


def ingress_of(balancer: LoadBalancer, spec: LoadBalancerSpec) -> tuple[Ingress, ...]:
    """The entries of the Service's status: either a host name, or public and private addresses."""
    if spec.hostname:
        return (Ingress(hostname=spec.hostname),)
    # With the PROXY protocol, Pods must not bypass the load balancer, which adds the expected header.
    mode = PROXY if any(port.proxyprotocol for port in spec.ports.values()) else VIP
    return tuple(Ingress(ip=ip, ip_mode=mode) for ip in _addresses(balancer, spec))


def _addresses(balancer: LoadBalancer, spec: LoadBalancerSpec) -> Iterator[str]:
    public = balancer.public_net
    if public.enabled and public.ipv4.ip:
        yield public.ipv4.ip
    if public.enabled and public.ipv6.ip and spec.ipv6:
        yield public.ipv6.ip
    if spec.private_ingress:
        yield from (net.ip for net in balancer.private_net if net.ip)


def serves(balancer: LoadBalancer, ports: Collection[int]) -> bool:
    """Whether the load balancer listens on any of the ports."""
    return any(listener.listen_port in ports for listener in balancer.services)


def count_targets(balancer: LoadBalancer, ports: Collection[int]) -> Counter[str]:
    """The number of targets by health. A target is unhealthy if the check of any port fails."""
    found: Counter[str] = Counter()
    for target in balancer.targets:
        said = {status.status for status in target.health_status if status.listen_port in ports}
        found[UNHEALTHY if UNHEALTHY in said else HEALTHY if said == {HEALTHY} else UNKNOWN] += 1
    return found


def complaints(balancer: LoadBalancer, ports: Collection[int]) -> Iterator[Notice]:
    """Report ports without a healthy target, with the reasons."""
    dead: list[str] = []
    for listener in balancer.services:
        said = [
            status
            for target in balancer.targets
            for status in target.health_status
            if status.listen_port == listener.listen_port
        ]
        if listener.listen_port in ports and said and all(one.status == UNHEALTHY for one in said):
            check = listener.health_check
            # Each reason once, without the number of targets, which changes too often for an Event.
            reasons = "".join(f", {one}" for one in sorted({one.reason for one in said} - {""}))
            asked = f"{check.protocol} check on port {check.port}{reasons}"
            dead.append(f"port {listener.listen_port} ({asked})")
    if dead:
        text = (
            f"no target passes the health check of {', '.join(dead)}. Check that the Pods are ready, that "
            "no firewall blocks the load balancer, and that the PROXY protocol is enabled on both sides "
            "or on neither"
        )
        yield Notice("NoHealthyTargets", text)
