"""Chooses the location, the Primary IPs, the network and the type of a load balancer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

from ccm.cloud import Notice
from ccm.hetzner.api.models import LoadBalancer, LoadBalancerType, PrimaryIp
from ccm.hetzner.load_balancers.desired.desired_state import Placement
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.ownership_labels import DEFAULT_TYPE, NAMESPACE
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.spec import PRIMARY_IP_KEY, LoadBalancerSpec
from ccm.hetzner.load_balancers.truncation import enumerated, shown


def _primary_ips(
    spec: LoadBalancerSpec, observed: ObservedState
) -> tuple[dict[str, PrimaryIp], dict[str, str]]:
    """The Primary IPs of a new load balancer by family, and the problems by annotation."""
    problems = dict(spec.primary_ip_problems())
    chosen: dict[str, PrimaryIp] = {}
    location = ""
    for family in spec.primary_ips:
        key, ip = PRIMARY_IP_KEY.format(family), observed.primary_ips.get(family)
        why = _unusable_ip(ip, family, spec, observed) or _elsewhere(ip, location, spec)
        if why:
            problems.setdefault(key, f"{key}: {shown(spec.primary_ips[family])} {why}")
        elif ip is not None:
            chosen[family], location = ip, ip.location.name
    return chosen, problems


def _unusable_ip(ip: PrimaryIp | None, family: str, spec: LoadBalancerSpec, observed: ObservedState) -> str:
    """Why a load balancer can't use a Primary IP; empty = no reason."""
    namespace = spec.service.namespace
    if ip is None or not observed.tenants.may_use_ip(namespace, observed.cluster, ip.labels):
        # One text for both cases, so that tenants can't find out the Primary IPs of others.
        return (
            f"isn't the ID or name of a Primary IP that namespace {namespace!r} may use. To allow a Primary "
            f"IP, add the label {NAMESPACE}={namespace} to it at Hetzner, or add the namespace to "
            "CCM_UNLABELLED_PRIMARY_IP_NAMESPACES"
        )
    if ip.type != family:
        return (
            f"is an {ip.type} address. Use the annotation {PRIMARY_IP_KEY.format(ip.type)} for this address"
        )
    if ip.assignee_id:
        return "is already assigned. Unassign this Primary IP, or choose another Primary IP"
    return "is blocked by Hetzner" if ip.blocked else ""


def _elsewhere(ip: PrimaryIp | None, location: str, spec: LoadBalancerSpec) -> str:
    """Why a Primary IP is in the wrong place; empty = no reason."""
    annotations, there = spec.service.annotations, ip.location if ip else None
    if there is None:
        return ""
    if location and there.name != location:
        return f"is in {there.name}, but the other Primary IP is in {location}"
    for key, wanted, found in (
        ("location", spec.location, there.name),
        ("network-zone", spec.network_zone, there.network_zone),
    ):
        # Only annotations conflict: the location of the Primary IP takes precedence over variables.
        if wanted and found and wanted != found and annotations.get(PREFIX + key, "").strip():
            return f"is in {found}, but {PREFIX}{key} is {shown(wanted)}"
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
            f"{key}: load balancer {name} keeps {address.ip}, because Hetzner assigns a Primary IP only "
            f"to a new load balancer. To get a load balancer with {shown(reference)}, delete {name}, or "
            "delete and recreate the Service",
        )


@dataclass(frozen=True, slots=True)
class PlacementChoice:
    """The location, Primary IPs and private network of :class:`DesiredState`."""

    site: Placement = field(default_factory=Placement)
    network: int | None = None
    private_ip: str = ""
    ip_range: str = ""
    primary_ips: Mapping[str, PrimaryIp] = field(default_factory=dict[str, PrimaryIp])
    # what is wrong with annotations, by annotation
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    notices: tuple[Notice, ...] = ()


def choose_placement(spec: LoadBalancerSpec, observed: ObservedState) -> PlacementChoice:
    """Choose the place and the network, or report why the existing load balancer stays."""
    balancer = observed.balancer
    kept = () if balancer is None else tuple(_not_assigned(spec, observed, balancer))
    if not observed.is_owner:
        return PlacementChoice(notices=kept)
    held = _is_held_elsewhere(spec, observed)
    inside = (None if held else observed.network, spec.private_ipv4, spec.ip_range)
    if balancer is not None:
        problems = {} if held else dict(_refused(spec, observed))
        notices = (*_not_moved(spec, observed, balancer, held=held), *kept)
        return PlacementChoice(Placement(), *inside, problems=problems, notices=notices)
    chosen, problems = _primary_ips(spec, observed)
    location = max((ip.location.name for ip in chosen.values()), default="")  # all have the same location
    site = Placement(location) if location else Placement(network_zone=observed.zone)
    if spec.has_placement and not location:
        site, wanted = Placement(spec.location, spec.network_zone), spec.location or spec.network_zone
        names = {known.name if spec.location else known.network_zone for known in observed.locations}
        if wanted not in names:
            key = "location" if spec.location else "network-zone"
            text = f"{wanted!r} is not one of {', '.join(sorted(names))}"
            problems[PREFIX + key] = f"{_source(spec, key)}: {text}"
    return PlacementChoice(site, *inside, chosen, problems)


def _source(spec: LoadBalancerSpec, key: str) -> str:
    """The source of a value: the annotation, or else the variable."""
    if spec.service.annotations.get(PREFIX + key, "").strip():
        return PREFIX + key
    return f"HCLOUD_LOAD_BALANCERS_{key.upper().replace('-', '_')}"


def _refused(spec: LoadBalancerSpec, observed: ObservedState) -> Iterator[tuple[str, str]]:
    """Why the load balancer can't get the requested private address, by annotation."""
    if observed.addresses is None or observed.balancer is None:
        return
    ip, ip_range, zone = spec.private_ipv4, spec.ip_range, observed.balancer.location.network_zone
    subnets = [subnet.ip_range for subnet in observed.addresses.subnets if zone in ("", subnet.network_zone)]
    known = enumerated(subnets) or "it has none"
    if ip_range and ip_range not in subnets:
        key = "private-subnet-ip-range"
        yield PREFIX + key, f"{_source(spec, key)}: {ip_range!r} isn't a subnet of the network ({known})"
    name = PREFIX + "private-ipv4"
    if ip and not any(_contains(subnet, ip) for subnet in subnets):
        yield name, f"{name}: {ip!r} isn't in a subnet of the network ({known})"
    elif ip and ip_range and not _contains(ip_range, ip):
        yield name, f"{name}: {ip!r} is not in the requested subnet {ip_range}"
    elif ip in observed.addresses.taken:
        yield name, f"{name}: {ip!r} belongs to {observed.addresses.taken[ip]}"


def _not_moved(
    spec: LoadBalancerSpec, observed: ObservedState, balancer: LoadBalancer, *, held: bool
) -> Iterator[Notice]:
    """Report differences between the requested and the actual place of the load balancer."""
    service, network = spec.service, observed.network
    now = {
        "location": (spec.location, balancer.location.name),
        "network-zone": (spec.network_zone, balancer.location.network_zone),
    }
    parts = [
        f"{PREFIX}{key} is {wanted!r}, but the load balancer is in {there}"
        for key, (wanted, there) in now.items()
        if wanted and there and wanted != there and PREFIX + key in service.annotations
    ]
    key = PREFIX + "private-subnet-ip-range"
    ip = next((net.ip for net in balancer.private_net if net.network == network), "")
    asked = key in service.annotations and spec.ip_range and not spec.private_ipv4
    if ip and asked and not _contains(spec.ip_range, ip):
        parts.append(f"{key} is {spec.ip_range!r}, but the load balancer has the address {ip}")
    if parts:
        text = f"a load balancer can't be moved: {'; '.join(parts)}. Delete the load balancer, "
        yield Notice("LoadBalancerNotMoved", text + "and the CCM creates a new one in the requested place")
    if held:
        there = ", ".join(str(net.network) for net in balancer.private_net)
        text = (
            f"the load balancer stays in network {there}, because {PREFIX}preserve-foreign is set. "
            "Ports or targets of other clients may need that network"
        )
        yield Notice("LoadBalancerNotMoved", text)


def _is_held_elsewhere(spec: LoadBalancerSpec, observed: ObservedState) -> bool:
    """Whether the load balancer is in another network that other clients may need."""
    nets = [net.network for net in observed.balancer.private_net] if observed.balancer else []
    return (
        spec.preserve_foreign and bool(nets) and observed.network is not None and observed.network not in nets
    )


def _contains(cidr: str, ip: str) -> bool:
    try:
        return ip_address(ip) in ip_network(cidr)
    except ValueError:
        return True  # don't report a malformed address from the API


@dataclass(frozen=True, slots=True)
class TypeChoice:
    """The type of the load balancer."""

    limits: LoadBalancerType  # the limits for this plan
    type: LoadBalancerType | None = None  # the desired type; None = keep the type
    kept: frozenset[str] = frozenset()  # settings that can't be reset to their defaults yet
    # what is wrong with annotations, by annotation
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
        text = f"no type is configured, and the default type {name} is too small for the ports or nodes of "
        text += f"this Service. The load balancer keeps the type {present.name}"
        return TypeChoice(present, kept=frozenset({"type"}), notices=(Notice("LoadBalancerTypeKept", text),))
    return TypeChoice(wanted, wanted if observed.is_owner else None, notices=_deprecated(wanted, spec))


def _deprecated(kind: LoadBalancerType, spec: LoadBalancerSpec) -> tuple[Notice, ...]:
    end = kind.deprecation.unavailable_after if kind.deprecation else ""
    text = f"type {kind.name} of {spec.service.key} is deprecated"
    text += f", and unavailable after {end}" if end else ""
    found = kind.deprecated or kind.deprecation
    return (Notice("LoadBalancerTypeDeprecated", text),) if found else ()
