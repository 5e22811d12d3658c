"""Where a load balancer is made, and of which type; later changes of the place are named, not made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network

from ccm.cloud import Notice
from ccm.hetzner.api.models import LoadBalancer, LoadBalancerType, PrimaryIp
from ccm.hetzner.load_balancers.desired.desired_state import Placement
from ccm.hetzner.load_balancers.desired.primary_ip_choice import choose_primary_ips
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.ownership_labels import DEFAULT_TYPE
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.service_errors import enumerated
from ccm.hetzner.load_balancers.spec import LoadBalancerSpec


@dataclass(frozen=True, slots=True)
class PlacementChoice:
    """Where and on which Primary IPs it is made, and of :class:`DesiredState` what says where it is inside.

    Attributes:
        problems: What is wrong with annotations, by annotation.
    """

    site: Placement = field(default_factory=Placement)
    network: int | None = None
    private_ip: str = ""
    ip_range: str = ""
    primary_ips: Mapping[str, PrimaryIp] = field(default_factory=dict[str, PrimaryIp])
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    notices: tuple[Notice, ...] = ()


def choose_placement(spec: LoadBalancerSpec, observed: ObservedState) -> PlacementChoice:
    """Choose where a load balancer is made, and its network; or tell why the one that there is stays."""
    addresses = choose_primary_ips(spec, observed)
    if not observed.is_owner:
        return PlacementChoice(notices=addresses.notices)
    held = _is_held_elsewhere(spec, observed)
    inside = (None if held else observed.network, spec.private_ipv4, spec.ip_range)
    if observed.balancer is not None:
        problems = {} if held else dict(_refused(spec, observed))
        notices = (*_not_moved(spec, observed, observed.balancer, held=held), *addresses.notices)
        return PlacementChoice(Placement(), *inside, problems=problems, notices=notices)
    on = PlacementChoice(
        Placement(addresses.location, "" if addresses.location else observed.zone),
        *inside,
        addresses.chosen,
        addresses.problems,
    )
    # What is chosen is where the annotations say, if they say anything.
    if addresses.location or not spec.has_placement:
        return on
    chosen = spec.location or spec.network_zone
    names = {one.name if spec.location else one.network_zone for one in observed.locations}
    problems = {**addresses.problems}
    if chosen not in names:
        key = "location" if spec.location else "network-zone"
        text = f"{chosen!r} is not one of {', '.join(sorted(names))}"
        problems[PREFIX + key] = f"{_source(spec, key)}: {text}"
    return replace(on, site=Placement(spec.location, spec.network_zone), problems=problems)


def _source(spec: LoadBalancerSpec, key: str) -> str:
    """The annotation, or the variable that counts without it."""
    if spec.service.annotations.get(PREFIX + key, "").strip():
        return PREFIX + key
    return f"HCLOUD_LOAD_BALANCERS_{key.upper().replace('-', '_')}"


def _refused(spec: LoadBalancerSpec, observed: ObservedState) -> Iterator[tuple[str, str]]:
    """Why the load balancer can't have the address for which it would give up its own, by annotation."""
    if observed.addresses is None or observed.balancer is None:
        return
    ip, ip_range, zone = spec.private_ipv4, spec.ip_range, observed.balancer.location.network_zone
    subnets = [one.ip_range for one in observed.addresses.subnets if zone in ("", one.network_zone)]
    known = enumerated(subnets) or "it has none"
    if ip_range and ip_range not in subnets:
        key = "private-subnet-ip-range"
        yield PREFIX + key, f"{_source(spec, key)}: {ip_range!r} is none of the network's subnets ({known})"
    name = PREFIX + "private-ipv4"
    if ip and not any(_contains(one, ip) for one in subnets):
        yield name, f"{name}: {ip!r} is in none of the network's subnets ({known})"
    elif ip and ip_range and not _contains(ip_range, ip):
        yield name, f"{name}: {ip!r} is not in {ip_range}, where it is to be"
    elif ip in observed.addresses.taken:
        yield name, f"{name}: {ip!r} belongs to {observed.addresses.taken[ip]}"


def _not_moved(
    spec: LoadBalancerSpec, observed: ObservedState, balancer: LoadBalancer, *, held: bool
) -> Iterator[Notice]:
    """What the owner should know about where the load balancer is."""
    service, network = spec.service, observed.network
    now = {
        "location": (spec.location, balancer.location.name),
        "network-zone": (spec.network_zone, balancer.location.network_zone),
    }
    parts = [
        f"{PREFIX}{key}: {wanted!r}, it is in {there}"
        for key, (wanted, there) in now.items()
        if wanted and there and wanted != there and PREFIX + key in service.annotations
    ]
    key = PREFIX + "private-subnet-ip-range"
    ip = next((net.ip for net in balancer.private_net if net.network == network), "")
    asked = key in service.annotations and spec.ip_range and not spec.private_ipv4
    if ip and asked and not _contains(spec.ip_range, ip):
        parts.append(f"{key}: {spec.ip_range!r}, its address is {ip}")
    if parts:
        text = (
            f"a load balancer stays where it was made: {'; '.join(parts)}; to have it elsewhere, delete it "
        )
        yield Notice("LoadBalancerNotMoved", text + "or its Service, and it is made anew")
    if held:
        there = ", ".join(str(net.network) for net in balancer.private_net)
        text = f"it is in network {there} and stays there for the sake of others ({PREFIX}preserve-foreign)"
        yield Notice("LoadBalancerNotMoved", text)


def _is_held_elsewhere(spec: LoadBalancerSpec, observed: ObservedState) -> bool:
    """Whether the load balancer is in another network, where others may need it."""
    nets = [net.network for net in observed.balancer.private_net] if observed.balancer else []
    return (
        spec.preserve_foreign and bool(nets) and observed.network is not None and observed.network not in nets
    )


def _contains(cidr: str, ip: str) -> bool:
    try:
        return ip_address(ip) in ip_network(cidr)
    except ValueError:
        return True  # an odd answer of the API is nothing to trouble the owner with


@dataclass(frozen=True, slots=True)
class TypeChoice:
    """Which type.

    Attributes:
        limits: The one whose limits hold until it has the wanted one.
        type: The wanted one; None = it keeps its own.
        kept: What can't go back to its default yet.
        problems: What is wrong with annotations, by annotation.
    """

    limits: LoadBalancerType
    type: LoadBalancerType | None = None
    kept: frozenset[str] = frozenset()
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    notices: tuple[Notice, ...] = ()


def choose_type(spec: LoadBalancerSpec, observed: ObservedState) -> TypeChoice:
    """Choose the type."""
    present = observed.balancer.load_balancer_type if observed.balancer else None
    name = spec.type or DEFAULT_TYPE
    wanted = observed.types.get(name)
    if present is not None and not observed.types:
        return TypeChoice(present, notices=_deprecated(present, spec))
    if wanted is None:
        annotated = PREFIX + "type" in spec.service.annotations
        source = PREFIX + "type" if annotated else "HCLOUD_LOAD_BALANCERS_TYPE"
        problem = f"{source}: {name!r} is not one of {', '.join(sorted(observed.types))}"
        return TypeChoice(present or LoadBalancerType(), problems={PREFIX + "type": problem})
    if present is not None and not spec.type and observed.balancer and not observed.balancer.fits(wanted):
        text = f"no type is configured any more, but {name} is too small for its ports or nodes: "
        notice = Notice("LoadBalancerTypeKept", f"{text}{present.name} stays")
        return TypeChoice(present, kept=frozenset({"type"}), notices=(notice,))
    return TypeChoice(wanted, wanted if observed.is_owner else None, notices=_deprecated(wanted, spec))


def _deprecated(kind: LoadBalancerType, spec: LoadBalancerSpec) -> tuple[Notice, ...]:
    end = kind.deprecation.unavailable_after if kind.deprecation else ""
    text = f"type {kind.name} of {spec.service.key} is deprecated"
    text += f", and unavailable after {end}" if end else ""
    found = kind.deprecated or kind.deprecation
    return (Notice("LoadBalancerTypeDeprecated", text),) if found else ()
