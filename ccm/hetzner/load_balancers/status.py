"""How clients reach a load balancer, as a Service's status has it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ccm.cloud import Ingress
from ccm.hetzner.api.wire import LoadBalancer
from ccm.hetzner.load_balancers.wishes.read import Wishes

VIP = "VIP"
PROXY = "Proxy"


def ingress_of(balancer: LoadBalancer, wishes: Wishes) -> tuple[Ingress, ...]:
    """The entries of the status: a host name alone, or public and private addresses."""
    if wishes.hostname:
        return (Ingress(hostname=wishes.hostname),)
    # With the PROXY protocol, Pods must not take the short way past the load balancer: nobody would add the
    # header that they expect.
    mode = PROXY if any(port.proxyprotocol for port in wishes.ports.values()) else VIP
    return tuple(Ingress(ip=ip, ip_mode=mode) for ip in _addresses(balancer, wishes))


def _addresses(balancer: LoadBalancer, wishes: Wishes) -> Iterator[str]:
    public = balancer.public_net
    if public.enabled and public.ipv4.ip:
        yield public.ipv4.ip
    if public.enabled and public.ipv6.ip and wishes.ipv6:
        yield public.ipv6.ip
    if wishes.private_ingress:
        yield from (net.ip for net in balancer.private_net if net.ip)
