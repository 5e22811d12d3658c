"""On which Primary IPs a load balancer is made.

Hetzner assigns them when it creates a load balancer, and never later: one that exists keeps its addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ccm.cloud import Notice
from ccm.hetzner.api.models import LoadBalancer, PrimaryIp
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.ownership_labels import NAMESPACE
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.service_errors import shown
from ccm.hetzner.load_balancers.spec import PRIMARY_IP_KEY, LoadBalancerSpec


@dataclass(frozen=True, slots=True)
class PrimaryIpChoice:
    """The Primary IPs of a new load balancer.

    Attributes:
        chosen: By ``ipv4`` and ``ipv6``.
        location: Where they are, and so the load balancer; empty = there are none.
        problems: What is wrong with annotations, by annotation.
        notices: What an existing load balancer can't have any more.
    """

    chosen: Mapping[str, PrimaryIp] = field(default_factory=dict[str, PrimaryIp])
    location: str = ""
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    notices: tuple[Notice, ...] = ()


def choose_primary_ips(spec: LoadBalancerSpec, observed: ObservedState) -> PrimaryIpChoice:
    """Choose the Primary IPs of a new load balancer, or say why an existing one is not on them."""
    if observed.balancer is not None:
        return PrimaryIpChoice(notices=tuple(_not_assigned(spec, observed, observed.balancer)))
    problems = dict(spec.primary_ip_problems())
    chosen: dict[str, PrimaryIp] = {}
    location = ""
    for family in spec.primary_ips:
        key, ip = PRIMARY_IP_KEY.format(family), observed.primary_ips.get(family)
        why = _refused(ip, family, spec, observed) or _elsewhere(ip, location, spec)
        if why:
            problems.setdefault(key, f"{key}: {shown(spec.primary_ips[family])} {why}")
        elif ip is not None:
            chosen[family], location = ip, ip.location.name
    return PrimaryIpChoice(chosen, location, problems)


def _refused(ip: PrimaryIp | None, family: str, spec: LoadBalancerSpec, observed: ObservedState) -> str:
    """Why a load balancer can't have a Primary IP; empty = it can."""
    namespace = spec.service.namespace
    if ip is None or not observed.tenants.may_use_ip(namespace, observed.cluster, ip.labels):
        # One text for both, so that nobody learns what others have.
        return (
            f"is neither ID nor name of a Primary IP that Services of namespace {namespace!r} may use; to "
            f"allow one, label it {NAMESPACE}={namespace} at Hetzner, or name the namespace in "
            "CCM_UNLABELLED_PRIMARY_IP_KEY_NAMESPACES"
        )
    if ip.type != family:
        return f"is an {ip.type} address: annotate {PRIMARY_IP_KEY.format(ip.type)} with it"
    if ip.assignee_id:
        return "is assigned already: unassign it, or choose another one"
    return "is blocked by Hetzner" if ip.blocked else ""


def _elsewhere(ip: PrimaryIp | None, location: str, spec: LoadBalancerSpec) -> str:
    """Why a Primary IP is in the wrong place; empty = it is not."""
    annotations, there = spec.service.annotations, ip.location if ip else None
    if there is None:
        return ""
    if location and there.name != location:
        return f"is in {there.name}, and the other Primary IP is in {location}"
    for key, wanted, found in (
        ("location", spec.location, there.name),
        ("network-zone", spec.network_zone, there.network_zone),
    ):
        # A variable is for Services that say nothing; the address says where.
        if wanted and found and wanted != found and annotations.get(PREFIX + key, "").strip():
            return f"is in {found}, and {PREFIX}{key} is {shown(wanted)}"
    return ""


def _not_assigned(
    spec: LoadBalancerSpec, observed: ObservedState, balancer: LoadBalancer
) -> Iterator[Notice]:
    for family, reference in spec.primary_ips.items():
        address, wanted = balancer.public_net.of(family), observed.primary_ips.get(family)
        if address.id and (str(address.id) == reference or (wanted and wanted.id == address.id)):
            continue
        key, name = PRIMARY_IP_KEY.format(family), f"{balancer.name} ({balancer.id})"
        yield Notice(
            "PrimaryIPNotAssigned",
            f"{key}: load balancer {name} keeps {address.ip}: "
            f"Hetzner assigns a Primary IP to a new load balancer only. To have one on {shown(reference)}, "
            "delete the load balancer or the Service; a new one is then created on that address",
        )
