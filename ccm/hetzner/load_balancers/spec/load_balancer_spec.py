"""What a Service asks for.

Keys are the official CCM's, with its meanings; ours are ``adopt``, ``share``, ``preserve-foreign``,
``labels`` and ``delete-protection``, and every key of a port may be given for one port alone as
``port.<n>.<key>``. What is not annotated comes from the environment (HCLOUD_LOAD_BALANCERS_…), and otherwise
has the API's default in a new load balancer. Settings of others stay as they are
(:mod:`ccm.hetzner.load_balancers.desired.annotated_settings`), so the spec also says which values are
defaults.
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
MAX_PORTS = 250  # no type of load balancer has a fifth as many
# Which field comes from which annotation, for those that others may have set as well.
_FIELDS = {key.field.rpartition(".")[2]: key for key in TABLE if key.field}
_CHECK_KEYS = {name: key.name for name, key in _FIELDS.items() if key.field.startswith("health_check.")}
_KEYS = {name: key.name for name, key in _FIELDS.items() if name not in _CHECK_KEYS}


class Values:
    """The effective values for the Service, or for its port ``port``, by key.

    The value is that of the annotation, or of the environment (``defaults``), or the table's default. For a
    port, its own annotations take precedence; None = only those for the Service count.
    """

    def __init__(
        self, annotations: Annotations, defaults: LoadBalancerSettings, port: int | None = None
    ) -> None:
        self._annotations = annotations
        self._defaults = defaults
        self._port = port
        self._own = annotations.ports.get(port, _NOTHING) if port is not None else _NOTHING

    def __contains__(self, key: str) -> bool:
        """Whether the key is annotated with something, right or wrong."""
        return key in self._own or key in self._annotations.whole

    def __getitem__(self, key: str) -> Any:
        """The value that counts."""
        for value in (self.annotated(key), self._of_environment(key)):
            if value is not None:
                return value
        return _DEFAULTS[key]

    def annotated(self, key: str) -> Any:
        """The annotation's value; None = there is none, or a wrong one, which is noted as a problem."""
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
        """Whether an annotation or the environment sets it, so that it isn't the table's default."""
        return key in self or self._of_environment(key) is not None

    def refuse(self, key: str, why: str) -> None:
        """Note a problem that only shows when several keys are looked at."""
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
    """The ports that a load balancer can have; those without annotations of their own share one answer."""
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
    """The health check; None = nothing was said about it."""
    asked = {name for name, key in _CHECK_KEYS.items() if values.is_asked(key)}
    named = {key for key in ("protocol", "port") if "health-check-" + key in values}
    chosen = bool(named or asked & {"interval", "timeout", "retries"})
    # Without any of these keys the official CCM has targets checked by TCP, whatever the others say.
    usual = "http" if protocol != "tcp" and chosen else "tcp"
    # The load balancer ends TLS itself: behind an https port it speaks plain HTTP, so does its check.
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
    """All that a Service and the environment ask for. Empty texts and None mean "any"."""

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
    # by the Service's port; only TCP, and no more than any load balancer can have
    ports: Mapping[int, PortSpec]
    problems: Mapping[str, str]  # by annotation, what is wrong; it counts as not set
    warnings: Mapping[str, str]  # by annotation, what has no effect
    # what else the Service asks for that no load balancer of Hetzner supports
    unsupported: tuple[Notice, ...] = ()
    # IDs or names of the Primary IPs of a new one, by `ipv4` and `ipv6`
    primary_ips: Mapping[str, str] = field(default_factory=dict[str, str])
    # names of `settings` that an annotation or the environment sets
    asked: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def type(self) -> str:
        """The type's name; empty = it does not matter."""
        return self.settings.get("type", "")

    @property
    def public(self) -> bool | None:
        """Whether it answers on public addresses; None = it does not matter."""
        return self.settings.get("public")

    @property
    def has_placement(self) -> bool:
        """Whether it says where a load balancer is made."""
        return bool(self.location or self.network_zone)

    @property
    def tolerates_others(self) -> bool:
        """Whether listeners of others are to be left alone."""
        return bool(self.share or self.preserve_foreign)

    @property
    def annotated(self) -> tuple[frozenset[str], frozenset[str]]:
        """Names of settings of the load balancer, and of fields of its ports, that are asked for."""
        parts = [part for port in self.ports.values() for part in (port, port.check) if part is not None]
        fields = frozenset(name for part in parts for name in part.asked)
        return self.asked, fields

    def primary_ip_problems(self) -> Mapping[str, str]:
        """Why no load balancer can be made on the Primary IPs, as far as the Service shows; by annotation."""
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
        """Whether the Service has ports, and none that a load balancer could serve."""
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
            "HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS omits the private address. Set one of these "
            f"settings to false, or annotate {PREFIX}hostname"
        )


def read(service: ServiceView, defaults: LoadBalancerSettings, *, network: bool) -> LoadBalancerSpec:
    """Read what a Service asks for. Never raises; what is wrong is in the result."""
    annotations, forbidden = _allowed(sort(service.annotations), service.namespace, defaults.tenants)
    ports = read_ports(service, annotations, defaults)
    values = Values(annotations, defaults)
    if values["use-private-ip"] and not network:
        values.refuse("use-private-ip", "requires a private network. Set HCLOUD_NETWORK")
    # A default location beats an annotated zone, unless it is emptied.
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
    """Values of settings by name, and the names of those that are no mere default of the table."""
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
    """The annotations that the operator allows a namespace, and what to say about the others."""
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
    """The name of a load balancer that has none in an annotation; upstream's rule."""
    return ("a" + service.uid.replace("-", ""))[:32]
