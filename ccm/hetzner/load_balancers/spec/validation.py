"""Finds annotations and fields of a Service that have no effect."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from ipaddress import IPv4Network

from ccm.cloud import Notice, ServicePort, ServiceView
from ccm.hetzner.load_balancers.service_annotations import PREFIX, SOURCE_RANGES, Annotations
from ccm.hetzner.load_balancers.spec.annotation_table import KEYS, PORT_KEYS, TABLE, PortSpec
from ccm.hetzner.load_balancers.truncation import MAX_SHOWN_LENGTH, enumerated
from ccm.hetzner.settings import LoadBalancerSettings
from ccm.ip import parse_network

_PORT_KEY = re.compile(r"port\.([^.]*)\.(.+)")
_HTTP = frozenset(key.name for key in TABLE if key.field.startswith("http."))
_NO_SUCH = "there is no such annotation"
MAX_RANGES = 5
_EVERYBODY = IPv4Network("0.0.0.0/0")
_MAX_GUESSES = 5  # each guess is as expensive as parsing dozens of annotations
_CHECKS = frozenset(key.name for key in TABLE if key.field.startswith("health_check.http."))


def without_effect(
    annotations: Annotations,
    ports: Iterable[ServicePort],
    read: Mapping[int, PortSpec],
    defaults: LoadBalancerSettings,
    *,
    network: bool,
) -> dict[str, str]:
    """Warnings about annotations without effect, by annotation.

    ``ports`` contains all ports of the Service, ``read`` the specs of ports that a load balancer can have.
    """
    spoken = {
        number: (one.protocol, one.check.protocol if one.check else "tcp") for number, one in read.items()
    }
    numbers = sorted({port.port for port in ports})
    has = enumerated([*map(str, numbers)]) or "none"
    protocols, checks = ({pair[place] for pair in spoken.values()} for place in (0, 1))
    found: dict[str, str] = {}
    emptied = (one for one in annotations.emptied - KEYS if not _PORT_KEY.fullmatch(one))
    for key in (*annotations.whole, *emptied):
        misplaced = _misplaced(key, annotations, defaults, network=network)
        why = _why(key, has) or _unspoken(key, protocols, checks) or misplaced
        if why:
            found[PREFIX + key] = f"{PREFIX}{key}: {why}"
    known = frozenset(numbers)
    for number, keys in annotations.ports.items():
        protocol, check = spoken.get(number, ("tcp", "tcp"))
        absent = "" if number in known else f"the Service has no port {number} (its ports: {has})"
        for key in keys:
            why = _not_of_a_port(key) or absent or _unspoken(key, {protocol}, {check})
            if why:
                name = f"{PREFIX}port.{number}.{key}"
                found[name] = f"{name}: {why}"
    wrong = [name for name, why in found.items() if why.endswith(_NO_SUCH)]
    for name in wrong[:_MAX_GUESSES]:
        found[name] += _similar(name.removeprefix(PREFIX))
    return found


def _why(key: str, has: str) -> str:
    """Why an unknown key has no effect; empty = the key is known."""
    if key in KEYS:
        return ""
    match = _PORT_KEY.fullmatch(key)
    absent = f"the Service has no port {match[1]:.20} (its ports: {has})" if match else _NO_SUCH
    return absent if match is None else _not_of_a_port(match[2]) or absent


def _not_of_a_port(key: str) -> str:
    """Why a key can't be set for one port; empty = no reason."""
    if key in PORT_KEYS:
        return ""
    return (
        f"applies to the whole load balancer, so the key can't contain a port. Use {PREFIX}{key}"
        if key in KEYS
        else _NO_SUCH
    )


def _similar(key: str) -> str:
    """A question with the key that was probably meant; empty = none."""
    match = _PORT_KEY.fullmatch(key)
    start, name, known = (f"port.{match[1]}.", match[2], PORT_KEYS) if match else ("", key, KEYS)
    if len(name) > MAX_SHOWN_LENGTH:
        return ""
    ends = [one for one in sorted(known) if one.endswith(f"-{name.lower()}")]
    found = ends if len(ends) == 1 else get_close_matches(name.lower(), sorted(known), n=1)
    return f"; did you mean {PREFIX}{start}{found[0]}?" if found else ""


def _unspoken(key: str, protocols: Collection[str], checks: Collection[str]) -> str:
    """Why a setting has no effect with these protocols; empty = no reason."""
    if key in _CHECKS:
        return "" if "http" in checks else "has no effect, because this key requires an HTTP health check"
    if key == "http-redirect-http" or "certificate" in key:
        return "" if "https" in protocols else "has no effect, because this key requires the protocol https"
    if key in _HTTP and not {"http", "https"} & {*protocols}:
        return "has no effect, because this key requires the protocol http or https"
    return ""


def _misplaced(key: str, annotations: Annotations, defaults: LoadBalancerSettings, *, network: bool) -> str:
    if key == "node-selector" and "share" in annotations.whole:
        return "has no effect on a shared load balancer, because all its Services have the same targets"
    if key.startswith("public-net-") and "adopt" in annotations.whole:
        return f"has no effect together with {PREFIX}adopt, because the load balancer keeps its addresses"
    if key in {"private-ipv4", "private-subnet-ip-range"} and not network:
        return "has no effect without a private network. Set HCLOUD_NETWORK"
    located = "location" in annotations.whole or "location" in annotations.emptied
    if key == "network-zone" and defaults.location and not located:
        return (
            f"has no effect, because HCLOUD_LOAD_BALANCERS_LOCATION is {defaults.location}, and a location "
            f'takes precedence. To use the network zone, set the annotation {PREFIX}location to ""'
        )
    return ""


def unsupported(service: ServiceView, read: Mapping[int, PortSpec]) -> tuple[Notice, ...]:
    """Fields of the Service that Hetzner load balancers can't implement; ``read`` has the valid ports."""
    notices: list[Notice] = []
    others = [port for port in service.ports if port.protocol != "TCP"]
    if others:
        out = enumerated([f"{port.port}/{port.protocol}" for port in others])
        why = (
            "the load balancer doesn't forward these ports"
            if len(others) < len(service.ports)
            else "the CCM creates no load balancer for these ports"
        )
        text = f"Hetzner load balancers support only TCP, so {why}: {out}"
        notices.append(Notice("UnsupportedProtocolConfigured", text))
    unreachable = [port for port in service.ports if port.protocol == "TCP" and not port.node_port]
    if unreachable:
        out = enumerated([str(port.port) for port in unreachable])
        text = f"a load balancer can't reach ports without a node port: {out}. "
        notices.append(Notice("NodePortMissing", text + "Don't set allocateLoadBalancerNodePorts to false"))
    ignored = [
        f"{name} ({value})"
        for name, value in (
            *_ranges(service),
            ("loadBalancerIP", service.load_balancer_ip[:MAX_SHOWN_LENGTH]),
            ("sessionAffinity", service.session_affinity.replace("None", "")),
        )
        if value
    ]
    if not service.has_ipv4:
        text = (
            "ipFamilies (only IPv6): Hetzner load balancers connect to node ports with IPv4, so the CCM "
            "creates no load balancer. Add IPv4 (ipFamilyPolicy: PreferDualStack)"
        )
        notices.append(Notice("IPFamilyUnsupported", text))
    if ignored:
        text = (
            "these fields have no effect, because Hetzner load balancers don't support them: "
            f"{'; '.join(ignored)}"
        )
        notices.append(Notice("UnsupportedFieldConfigured", text))
    hidden = [number for number, one in read.items() if one.protocol == "tcp" and not one.proxyprotocol]
    if service.external_traffic_policy == "Local" and hidden:
        numbers = enumerated([*map(str, sorted(hidden))])
        text = (
            f"For connections to port {numbers}, Pods see the load balancer's address instead of the "
            "client's address, although externalTrafficPolicy is Local. To pass on the client's address, use "
            f"the PROXY protocol ({PREFIX}uses-proxyprotocol) if the Pods support this protocol. Otherwise, "
            f"use the header X-Forwarded-For ({PREFIX}protocol: http)"
        )
        # What Local does besides, fewer hops and health by node, works: many want just that.
        notices.append(Notice("ClientAddressHidden", text, warning=False))
    return tuple(notices)


def refused_ranges(service: ServiceView) -> dict[str, str]:
    """Problems of a Service with source ranges if the operator refuses such Services, by field."""
    why = (
        "the CCM creates no load balancer, because CCM_REFUSE_SOURCE_RANGES is set. Hetzner load balancers "
        "can't filter by client address"
    )
    return {name: f"{name} ({value}): {why}" for name, value in _ranges(service) if value}


def _ranges(service: ServiceView) -> tuple[tuple[str, str], ...]:
    """The allowed source ranges in the field and in the annotation; empty = all addresses."""
    in_annotation = service.annotations.get(SOURCE_RANGES, "")[:MAX_SHOWN_LENGTH]
    return (
        ("loadBalancerSourceRanges", enumerated(_limits(service.source_ranges), limit=MAX_RANGES)),
        (SOURCE_RANGES, ",".join(_limits(in_annotation.split(","))).strip()),
    )


def _limits(ranges: Sequence[str]) -> Sequence[str]:
    """The source ranges; empty if one range is 0.0.0.0/0, which means all addresses, as in upstream."""
    return () if any(parse_network(text.strip()) == _EVERYBODY for text in ranges) else ranges
