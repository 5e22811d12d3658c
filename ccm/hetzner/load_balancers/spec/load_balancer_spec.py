"""Parses the spec of a Service's load balancer.

The keys have the same meaning as in the official CCM. Our own keys are ``adopt``, ``share``,
``preserve-foreign``, ``labels``, ``delete-protection``, and ``port.<n>.<key>`` for one port. Without an
annotation, the environment (HCLOUD_LOAD_BALANCERS_…) sets a value; otherwise, a new load balancer has the
API's default. Settings by other clients stay (:mod:`ccm.hetzner.load_balancers.desired.annotated_settings`),
so the spec also contains which values are defaults.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ccm.cloud import Notice, ServiceView
from ccm.hetzner.load_balancers.service_annotations import PREFIX, Annotations, sort
from ccm.hetzner.load_balancers.spec.annotation_table import (
    BY_NAME,
    TABLE,
    CertificateSpec,
    HealthCheckSpec,
    PortSpec,
)
from ccm.hetzner.load_balancers.spec.selector import Selector
from ccm.hetzner.load_balancers.spec.validation import refused_ranges, unsupported, without_effect
from ccm.hetzner.load_balancers.truncation import shown
from ccm.hetzner.settings import LoadBalancerSettings, Tenants, among

_NOTHING: Mapping[str, str] = {}
_DEFAULTS = {
    name: key.kind.parse(key.default) if key.default else key.kind.empty for name, key in BY_NAME.items()
}
MAX_PORTS = 250  # more than five times the limit of any type
# The annotation of each field that other clients may also set.
_FIELDS = {key.field.rpartition(".")[2]: key for key in TABLE if key.field}
_CHECK_KEYS = {name: key.name for name, key in _FIELDS.items() if key.field.startswith("health_check.")}
_KEYS = {name: key.name for name, key in _FIELDS.items() if name not in _CHECK_KEYS}


class Values:
    """The effective values for the Service, or for its port ``port``, by key.

    A value comes from the annotation, the environment (``defaults``), or the table's default, in this order.
    The annotations of a port take precedence; ``port`` None = only annotations for the whole Service.
    """

    def __init__(
        self, annotations: Annotations, defaults: LoadBalancerSettings, port: int | None = None
    ) -> None:
        self._annotations = annotations
        self._defaults = defaults
        self._port = port
        self._own = annotations.ports.get(port, _NOTHING) if port is not None else _NOTHING

    def __contains__(self, key: str) -> bool:
        """Whether the key has an annotation with a valid or invalid value."""
        return key in self._own or key in self._annotations.whole

    def __getitem__(self, key: str) -> Any:
        """The effective value."""
        for value in (self.annotated(key), self._of_environment(key)):
            if value is not None:
                return value
        return _DEFAULTS[key]

    def annotated(self, key: str) -> Any:
        """The annotation's value; None = no annotation, or an invalid value, which adds a problem."""
        found = self._find(key)
        if found is None:
            return None
        name, text = found
        parsed, kind = self._annotations.parsed, BY_NAME[key].kind
        if name not in parsed:
            parsed[name] = kind.parse(text)
            if parsed[name] is None:
                self._annotations.problems[name] = f"{name}: {shown(text)} is not {kind.allowed}"
        return parsed[name]

    def is_asked(self, key: str) -> bool:
        """Whether an annotation or the environment sets the value."""
        return key in self or self._of_environment(key) is not None

    def refuse(self, key: str, why: str) -> None:
        """Add a problem that depends on several keys."""
        name, value = self._find(key) or (PREFIX + key, "")
        self._annotations.problems[name] = f"{name}: {shown(value)} {why}"

    def _of_environment(self, key: str) -> object:
        variable = BY_NAME[key].variable
        value = getattr(self._defaults, variable.lower()) if variable else None
        return None if value == "" else round(value) if isinstance(value, float) else value

    def _find(self, key: str) -> tuple[str, str] | None:
        if key in self._own:
            return f"{PREFIX}port.{self._port}.{key}", self._own[key]
        text = self._annotations.whole.get(key)
        return None if text is None else (PREFIX + key, text)


def read_ports(
    service: ServiceView, annotations: Annotations, defaults: LoadBalancerSettings
) -> Mapping[int, PortSpec]:
    """The specs of the ports that a load balancer can have. Ports without own annotations share one spec."""
    numbers = heapq.nsmallest(MAX_PORTS, {port.port for port in service.ports if port.protocol == "TCP"})
    same = _port(Values(annotations, defaults), service.uid)
    return {
        number: _port(Values(annotations, defaults, number), service.uid)
        if number in annotations.ports
        else same
        for number in numbers
    }


def _port(values: Values, uid: str) -> PortSpec:
    fields = {name: values[key] for name, key in _KEYS.items()}
    protocol = fields["protocol"]
    fields["redirect_http"] = fields["redirect_http"] and protocol == "https"
    return PortSpec(
        **fields,
        certificates=_certificates(values, uid) if protocol == "https" else CertificateSpec(),
        check=_check(values, protocol),
        asked=frozenset(name for name, key in _KEYS.items() if values.is_asked(key)),
    )


def _certificates(values: Values, uid: str) -> CertificateSpec:
    if values["certificate-type"] == "uploaded":
        return CertificateSpec(uploaded=values["http-certificates"])
    domains = values["http-managed-certificate-domains"]
    if "http-managed-certificate-domains" not in values:
        values.refuse(
            "http-managed-certificate-domains", "is missing, but a managed certificate requires domains"
        )
    return CertificateSpec(
        domains=domains,
        name=values["http-managed-certificate-name"] or f"ccm-managed-certificate-{uid}",
        staging=values["http-managed-certificate-acme-staging"],
    )


def _check(values: Values, protocol: str) -> HealthCheckSpec | None:
    """The health check; None = no annotation or variable sets it."""
    asked = {name for name, key in _CHECK_KEYS.items() if values.is_asked(key)}
    named = {key for key in ("protocol", "port") if "health-check-" + key in values}
    chosen = bool(named or asked & {"interval", "timeout", "retries"})
    # Without any of these keys, the official CCM uses TCP checks, even with other keys.
    usual = "http" if protocol != "tcp" and chosen else "tcp"
    # The load balancer terminates TLS, so behind an https port, it uses HTTP, also for the check.
    protocol = values["health-check-protocol"] or usual
    fields = {name: values[key] for name, key in _CHECK_KEYS.items()}
    interval, timeout = fields["interval"], fields["timeout"]
    if timeout > interval:
        if values.annotated("health-check-timeout") is not None:
            values.refuse("health-check-timeout", f"is longer than the interval of {interval} seconds")
        fields["timeout"] = interval
    fields["tls"] = fields["tls"] or protocol == "https"
    check = HealthCheckSpec(
        protocol="tcp" if protocol == "tcp" else "http",
        port=values["health-check-port"],
        **fields,
        chosen=bool(named),
        asked=frozenset(asked | ({"tls"} if protocol == "https" else set())),
    )
    return check if chosen else None


PRIMARY_IP_KEY = PREFIX + "public-net-{}"


@dataclass(frozen=True, slots=True)
class LoadBalancerSpec:
    """The spec from a Service and the environment. Empty texts and None mean "any"."""

    service: ServiceView = field(compare=False)
    name: str
    location: str
    network_zone: str
    use_private_ip: bool
    private_ipv4: str
    ip_range: str
    private_ingress: bool
    ipv6: bool
    hostname: str
    nodes: Selector
    adopt: str
    share: str
    preserve_foreign: bool
    labels: Mapping[str, str]
    # by name, values of `SETTINGS` that an annotation, the environment or the table (a default) sets
    settings: Mapping[str, Any]
    # by the Service's port; only TCP ports, with a maximum number
    ports: Mapping[int, PortSpec]
    problems: Mapping[str, str]  # problems by annotation; a wrong annotation counts as not set
    warnings: Mapping[str, str]  # warnings about annotations without effect, by annotation
    # notices about fields that Hetzner's load balancers don't support
    unsupported: tuple[Notice, ...] = ()
    # IDs or names of Primary IPs for a new load balancer, by `ipv4` and `ipv6`
    primary_ips: Mapping[str, str] = field(default_factory=dict[str, str])
    # names of `settings` that an annotation or the environment sets
    asked: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def type(self) -> str:
        """The name of the type; empty = any."""
        return self.settings.get("type", "")

    @property
    def public(self) -> bool | None:
        """Whether the public interface is enabled; None = any."""
        return self.settings.get("public")

    @property
    def has_placement(self) -> bool:
        """Whether the spec has a location or a network zone."""
        return bool(self.location or self.network_zone)

    @property
    def tolerates_others(self) -> bool:
        """Whether listeners of other owners must stay."""
        return bool(self.share or self.preserve_foreign)

    @property
    def annotated(self) -> tuple[frozenset[str], frozenset[str]]:
        """Names of the requested settings of the load balancer, and of the requested fields of ports."""
        parts = [part for port in self.ports.values() for part in (port, port.check) if part is not None]
        fields = frozenset(name for part in parts for name in part.asked)
        return self.asked, fields

    def primary_ip_problems(self) -> Mapping[str, str]:
        """Contradictions between the Primary IPs and other parts of the spec, by annotation."""
        found: dict[str, str] = {}
        for family, reference in self.primary_ips.items():
            key = PRIMARY_IP_KEY.format(family)
            if self.public is False:
                off = f"{PREFIX}disable-public-network or HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK"
                found[key] = f"{key}: {shown(reference)} needs the public network, which {off} disables"
            elif list(self.primary_ips.values()).count(reference) > 1:
                found[key] = f"{key}: {shown(reference)} can't be both an IPv4 address and an IPv6 address"
        return found

    @property
    def is_unservable(self) -> bool:
        """Whether the Service has ports, but none that a load balancer can serve."""
        ports = self.service.ports
        served = any(port.protocol == "TCP" and port.node_port for port in ports)
        return bool(ports) and not (served and self.service.has_ipv4)

    def why_no_address(self, *, network: bool) -> str:
        """Why the status with a new load balancer would have no address (empty = it has one); ``network``: a
        private network exists.
        """
        if self.hostname or self.public is not False or (network and self.private_ingress):
            return ""
        keys = (f"{PREFIX}disable-public-network", "HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK")
        text = (
            f"the Service's status would have no address, because {' or '.join(keys)} disables the "
            "public address"
        )
        if not network:
            return f"{text}. The load balancer has no private address, because HCLOUD_NETWORK isn't set"
        return (
            f"{text}, and {PREFIX}disable-private-ingress or "
            "HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS removes the private address from the status. Set "
            f"one of these settings to false, or set the annotation {PREFIX}hostname"
        )


def read(service: ServiceView, defaults: LoadBalancerSettings, *, network: bool) -> LoadBalancerSpec:
    """Parse the spec of a Service. Never raises; the result contains the problems."""
    annotations, forbidden = _allowed(sort(service.annotations), service.namespace, defaults.tenants)
    ports = read_ports(service, annotations, defaults)
    values = Values(annotations, defaults)
    if values["use-private-ip"] and not network:
        values.refuse("use-private-ip", "requires a private network. Set HCLOUD_NETWORK")
    # A default location takes precedence over an annotated zone, unless an annotation empties it.
    location = "" if "location" in annotations.emptied else values["location"]
    zone = (values.annotated("network-zone") or "") if "location" in values else values["network-zone"]
    primary_ips = {family: values[f"public-net-{family}"] for family in ("ipv4", "ipv6")}
    settings, asked = _settings(values)
    return LoadBalancerSpec(
        service=service,
        name=settings.get("name") or default_name(service),
        location=location,
        network_zone="" if location else zone,
        use_private_ip=values["use-private-ip"] and network,
        private_ipv4=values["private-ipv4"] if network else "",
        ip_range=values["private-subnet-ip-range"],
        private_ingress=not values["disable-private-ingress"],
        ipv6=not values["ipv6-disabled"],
        hostname=values["hostname"],
        nodes=values["node-selector"],
        adopt=values["adopt"],
        share=values["share"],
        preserve_foreign=values["preserve-foreign"],
        labels=values["labels"],
        settings=settings,
        ports=ports,
        problems=annotations.problems | (refused_ranges(service) if defaults.refuse_source_ranges else {}),
        warnings=without_effect(annotations, service.ports, ports, defaults, network=network) | forbidden,
        unsupported=unsupported(service, ports),
        primary_ips={family: reference for family, reference in primary_ips.items() if reference},
        asked=asked,
    )


def _settings(values: Values) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Values of settings by name, and the names of settings that aren't only the table's default."""
    found: dict[str, Any] = {}
    asked: set[str] = set()
    for key in TABLE:
        if key.setting is None or (value := values[key.name]) in (None, ""):
            continue
        found[key.setting.name] = key.setting.value(value)
        if values.is_asked(key.name):
            asked.add(key.setting.name)
    return found, frozenset(asked)


def _allowed(
    annotations: Annotations, namespace: str, tenants: Tenants
) -> tuple[Annotations, dict[str, str]]:
    """The annotations that the operator allows in a namespace, and warnings about the others."""
    rules = {
        "delete-protection": ("CCM_PROTECTION_NAMESPACES", tenants.protection),
        "private-ipv4": ("CCM_PRIVATE_IPV4_NAMESPACES", tenants.private_ipv4),
    }
    forbidden = {
        key: variable
        for key, (variable, allowed) in rules.items()
        if key in annotations.whole and not among(allowed, namespace)
    }
    whole = {key: text for key, text in annotations.whole.items() if key not in forbidden}
    return replace(annotations, whole=whole), {
        PREFIX + key: f"{PREFIX}{key}: {variable} doesn't allow this annotation in namespace {namespace!r}"
        for key, variable in forbidden.items()
    }


def default_name(service: ServiceView) -> str:
    """The default name of a load balancer, by upstream's rule."""
    return ("a" + service.uid.replace("-", ""))[:32]
