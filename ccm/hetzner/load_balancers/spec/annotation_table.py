"""The table of annotations, for the parser, the reference documentation and ``lint``.

To add a setting for one field of the API, add a row here, and the field in ``hetzner/api/models.py``. In the
emulator, add the field and a row of ``SETTINGS`` in ``models/load_balancers.py``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter, not_
from typing import Any

import msgspec

from ccm.hetzner.api.models import LoadBalancer
from ccm.hetzner.load_balancers.ownership_labels import DEFAULT_TYPE
from ccm.hetzner.load_balancers.spec.official_format import OfficialFormat
from ccm.hetzner.load_balancers.spec.values import (
    BOOLEAN,
    DOMAIN,
    DOMAINS,
    HOSTNAME,
    IPV4,
    LABEL,
    LABELS,
    LIST,
    NETWORK,
    PRIMARY_IP,
    SELECTOR,
    STATUS_CODES,
    Kind,
    choice,
    number,
    seconds,
    text,
)


def _same(value: object) -> object:
    return value


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of the load balancer that is reset to its default when its annotation is removed."""

    name: str  # its name in the label `ccm-from-scratch/annotated`; without `-`
    path: str  # the field in the API's load balancer, with dots
    default: Any = None  # the API's value for a new load balancer; None = the API chooses one
    value: Callable[[Any], object] = _same  # converts the annotation's value to the API's value
    action: str = ""  # the action with only this field in its body; empty = code in `plan` changes it
    created: bool = False  # whether the request for a new load balancer can contain it
    # descriptions of the step by value, if `change <name> to <value>` isn't clear
    texts: Mapping[object, str] = field(default_factory=dict[object, str], hash=False)

    def value_of(self, balancer: LoadBalancer) -> object:
        """The current value."""
        return attrgetter(self.path)(balancer)

    def applied(self, balancer: LoadBalancer, value: object) -> LoadBalancer:
        """Return the load balancer with a new value."""
        *path, last = self.path.split(".")
        for end in range(len(path), 0, -1):
            part = attrgetter(".".join(path[:end]))(balancer)
            value, last = msgspec.structs.replace(part, **{last: value}), path[end - 1]
        return msgspec.structs.replace(balancer, **{last: value})

    def action_body(self, value: object) -> dict[str, Any]:
        """The body of the action that sets the value."""
        return {self.path.split(".")[-1]: value}

    def creation_body(self, value: object) -> dict[str, Any]:
        """The part of the request for a new load balancer."""
        *path, last = self.path.split(".")
        body: dict[str, Any] = {last: value}
        for name in reversed(path):
            body = {name: body}
        return body

    def text(self, value: object) -> str:
        """The description of the step that sets the value."""
        return self.texts.get(value, f"change {self.name} to {value}")


@dataclass(frozen=True, slots=True)
class Key:
    """One annotation, without its prefix."""

    name: str
    kind: Kind
    meaning: str  # one sentence
    # the default in the annotation's format; empty = none, see the meaning
    default: str = ""
    # the environment variable with the default for all Services, without prefix; in lower case, the field of
    # `LoadBalancerSettings`
    variable: str = ""
    setting: Setting | None = None  # the setting of the load balancer, if it can be reset to a default
    field: str = ""  # the field of the API's listener; empty = not exactly one field
    port: bool = False  # whether `port.<n>.<key>` can set it for one port
    inert: bool = False  # whether it has no effect
    ours: bool = False  # whether the official CCM lacks it
    # how the official CCM parses its value, if not like other values of this kind
    reads: OfficialFormat | None = None

    @property
    def official(self) -> OfficialFormat:
        """How the official CCM parses the value."""
        if self.ours:
            return OfficialFormat.UNKNOWN
        return OfficialFormat.UNUSED if self.inert else self.reads or self.kind.official


ANY = text()
NAME = text(128)
PLACE = text(63)
PROTOCOL = choice("tcp", "http", "https")

_WHOLE = (
    Key(
        "name",
        NAME,
        "The name of the load balancer. The default is `a`, followed by the Service's UID. If you change the "
        "annotation, the CCM renames the load balancer.",
        setting=Setting("name", "name"),
    ),
    Key(
        "location",
        PLACE,
        "The location of a new load balancer. By default, Hetzner chooses a location in the network zone "
        "that contains most of the load balancer's target servers. An empty value disables the default from "
        "the environment. If you change the annotation later, the CCM doesn't move the load balancer.",
        variable="LOCATION",
    ),
    Key(
        "network-zone",
        PLACE,
        "The network zone of a new load balancer. If a location is set by the annotation `location` or by "
        "its variable, `network-zone` has no effect. If you change the annotation later, the CCM only sends "
        "an Event.",
        variable="NETWORK_ZONE",
    ),
    Key(
        "type",
        PLACE,
        "The type of the load balancer. Without the annotation, a new load balancer has the type `lb11`, and "
        "an existing load balancer keeps its type. If you remove the annotation, the type becomes `lb11` "
        "again, unless `lb11` is too small for the ports or nodes.",
        variable="TYPE",
        setting=Setting("type", "load_balancer_type.name", DEFAULT_TYPE, value=str.lower),
        reads=OfficialFormat.LOWER,
    ),
    Key(
        "algorithm-type",
        choice("round_robin", "least_connections"),
        "How the load balancer selects a target.",
        default="round_robin",
        variable="ALGORITHM_TYPE",
        setting=Setting(
            "algorithm", "algorithm.type", "round_robin", action="change_algorithm", created=True
        ),
    ),
    Key(
        "disable-public-network",
        BOOLEAN,
        "With `true`, the load balancer is reachable only in the private network. If you never set the "
        "annotation, the CCM doesn't change the public interface. If you remove the annotation, the CCM "
        "enables the public interface again.",
        variable="DISABLE_PUBLIC_NETWORK",
        setting=Setting("public", "public_net.enabled", default=True, value=not_),
    ),
    Key(
        "public-net-ipv4",
        PRIMARY_IP,
        "An unassigned Primary IP that a new load balancer uses as its IPv4 address. The CCM creates the "
        "load balancer in the location of this Primary IP. If the Primary IP isn't available, the CCM "
        "creates no load balancer. If you change the annotation later, the CCM only sends an Event.",
    ),
    Key(
        "public-net-ipv6",
        PRIMARY_IP,
        "An unassigned Primary IP that a new load balancer uses as its IPv6 address. The rules are the same "
        "as for `public-net-ipv4`.",
    ),
    Key(
        "use-private-ip",
        BOOLEAN,
        "With `true`, the load balancer sends traffic to the private addresses of servers. The annotation "
        "requires `HCLOUD_NETWORK`. If you change the value, the CCM updates one target at a time.",
        default="false",
        variable="USE_PRIVATE_IP",
    ),
    Key(
        "private-ipv4",
        IPV4,
        "The load balancer's address in the private network. By default, Hetzner chooses the address. If you "
        "change the annotation, the CCM detaches the load balancer from the network and attaches it again. "
        "If the new address isn't free, the CCM sends an Event.",
        reads=OfficialFormat.TEXT,
    ),
    Key(
        "private-subnet-ip-range",
        NETWORK,
        "The subnet of the load balancer's private address. The CCM uses the value only when it attaches the "
        "load balancer to the network. If you change the annotation later, the CCM doesn't change the "
        "address, but sends an Event.",
        variable="PRIVATE_SUBNET_IP_RANGE",
    ),
    Key(
        "disable-private-ingress",
        BOOLEAN,
        "With `true`, the Service's status doesn't contain the private address.",
        default="false",
        variable="DISABLE_PRIVATE_INGRESS",
    ),
    Key(
        "ipv6-disabled",
        BOOLEAN,
        "With `true`, the Service's status doesn't contain the IPv6 address. The load balancer keeps the "
        "address, because Hetzner can't disable it.",
        default="false",
        variable="DISABLE_IPV6",
    ),
    Key("hostname", HOSTNAME, "The Service's status contains this name instead of addresses."),
    Key(
        "ipv4-rdns",
        DOMAIN,
        "The reverse DNS name of the IPv4 address. If you remove the annotation, the CCM restores "
        "Hetzner's default name.",
        setting=Setting("ipv4", "public_net.ipv4.dns_ptr"),
    ),
    Key(
        "ipv6-rdns",
        DOMAIN,
        "The reverse DNS name of the IPv6 address. If you remove the annotation, the CCM restores "
        "Hetzner's default name.",
        setting=Setting("ipv6", "public_net.ipv6.dns_ptr"),
    ),
    Key(
        "node-selector",
        SELECTOR,
        "A label selector for the nodes that get traffic. By default, all nodes get traffic. The CCM updates "
        "the targets when labels of nodes change. Kubelets can set any label on their Nodes, except labels "
        "with the prefix `node-restriction.kubernetes.io/`. With `share`, this annotation has no effect.",
    ),
    Key("ipv4", ANY, "Accepted for compatibility with the official CCM, but ignored.", inert=True),
    Key("ipv6", ANY, "Accepted for compatibility with the official CCM, but ignored.", inert=True),
    Key("id", ANY, "Accepted for compatibility with the official CCM, but ignored.", inert=True),
    Key(
        "adopt",
        NAME,
        "The ID or name of an existing load balancer that the Service takes over. `CCM_ADOPT_NAMESPACES` or "
        "the load balancer's label `ccm-from-scratch/namespace` must allow the adoption. If you delete the "
        "Service, the load balancer remains.",
        ours=True,
    ),
    Key(
        "share",
        LABEL,
        "Services in the same namespace share one load balancer if this annotation has the same value. If "
        "the Services are in different namespaces, `CCM_SHARE_NAMESPACES` must contain these namespaces. The "
        "annotations of the first Service configure the load balancer. The annotations of each other Service "
        "configure only the ports of this Service. If you change `share` in the first Service, the first "
        "Service keeps the load balancer, and the other Services get a new one. If two Services use the same "
        "port, the CCM sends an Event.",
        ours=True,
    ),
    Key(
        "preserve-foreign",
        BOOLEAN,
        "With `true`, the CCM keeps ports and targets that other clients added. If you exclude a node from "
        "load balancers while the CCM is stopped, the restarted CCM treats the node's target as foreign, and "
        "keeps it.",
        default="false",
        ours=True,
    ),
    Key(
        "labels",
        LABELS,
        "Labels of the load balancer at Hetzner. If you remove the annotation, the CCM removes the labels.",
        ours=True,
    ),
    Key(
        "delete-protection",
        BOOLEAN,
        "With `true`, the load balancer is protected against deletion. If the Service never had this "
        "annotation, the CCM doesn't change the protection. If you remove the annotation, the CCM removes "
        "the protection. If you delete the Service of a protected load balancer, the load balancer remains, "
        "and the CCM sends an Event.",
        setting=Setting(
            "protection",
            "protection.delete",
            default=False,
            action="change_protection",
            texts={True: "protect against deletion", False: "lift the protection against deletion"},
        ),
        ours=True,
    ),
)

_PORT = (
    Key("protocol", PROTOCOL, "The protocol of the port.", default="tcp", field="protocol"),
    Key(
        "uses-proxyprotocol",
        BOOLEAN,
        "With `true`, the load balancer sends the header of the PROXY protocol, and the Service's status "
        "contains `ipMode: Proxy`.",
        default="false",
        variable="USES_PROXYPROTOCOL",
        field="proxyprotocol",
    ),
    Key(
        "http-cookie-name",
        text(100),
        "The name of the cookie for sticky sessions.",
        default="HCLBSTICKY",
        field="http.cookie_name",
    ),
    Key(
        "http-cookie-lifetime",
        seconds(30, 86400),
        "The lifetime of the cookie for sticky sessions.",
        default="300",
        field="http.cookie_lifetime",
    ),
    Key(
        "http-timeout-idle",
        seconds(30, 300),
        "The time after which the load balancer closes an idle connection.",
        default="50",
        field="http.timeout_idle",
    ),
    Key(
        "http-sticky-sessions",
        BOOLEAN,
        "With `true`, all requests of a client go to the same target.",
        default="false",
        field="http.sticky_sessions",
    ),
    Key(
        "http-redirect-http",
        BOOLEAN,
        "With `true`, port 80 redirects to this port. The port must have the protocol `https`, and the "
        "Service must not have a port 80. Only one port of the Service can get the redirects.",
        default="false",
        field="http.redirect_http",
    ),
    Key("http-certificates", LIST, "IDs or names of uploaded certificates for the protocol `https`."),
    Key(
        "certificate-type",
        choice("uploaded", "managed"),
        "Whether you upload the certificates (`uploaded`) or Hetzner issues them (`managed`).",
        default="uploaded",
        reads=OfficialFormat.LOWER,
    ),
    Key(
        "http-managed-certificate-name",
        NAME,
        "The name of the managed certificate. The default is `ccm-managed-certificate-`, followed by the "
        "Service's UID.",
    ),
    Key(
        "http-managed-certificate-domains",
        DOMAINS,
        "The domains of the managed certificate. A managed certificate requires this annotation. If you "
        "change the domains, the CCM replaces the certificate.",
    ),
    Key(
        "http-managed-certificate-acme-staging",
        BOOLEAN,
        "With `true`, Hetzner requests the certificate from the staging system of the certificate authority.",
        default="false",
        reads=OfficialFormat.STAGING,
    ),
    Key(
        "health-check-protocol",
        PROTOCOL,
        "The protocol of the health check. The default is `tcp`, with one exception. If you set the health "
        "check's port, interval, timeout or retries, `http` and `https` ports have the default `http`.",
    ),
    Key("health-check-port", number(1, 65535), "The port of the health check. The default is the node port."),
    Key(
        "health-check-interval",
        seconds(3, 60),
        "The time between two health checks.",
        default="15",
        variable="HEALTH_CHECK_INTERVAL",
        field="health_check.interval",
    ),
    Key(
        "health-check-timeout",
        seconds(1, 60),
        "The timeout of a health check. The timeout can't be longer than the interval.",
        default="10",
        variable="HEALTH_CHECK_TIMEOUT",
        field="health_check.timeout",
    ),
    Key(
        "health-check-retries",
        number(1, 5),
        "The number of failed health checks after which a target is unhealthy.",
        default="3",
        variable="HEALTH_CHECK_RETRIES",
        field="health_check.retries",
    ),
    Key(
        "health-check-http-domain",
        NAME,
        "The Host header of an HTTP health check.",
        field="health_check.http.domain",
    ),
    Key(
        "health-check-http-path",
        ANY,
        "The path of an HTTP health check.",
        default="/",
        field="health_check.http.path",
    ),
    Key(
        "health-check-http-validate-certificate",
        BOOLEAN,
        "With `true`, the health check uses TLS. `https` in `health-check-protocol` has the same effect.",
        default="false",
        field="health_check.http.tls",
    ),
    Key(
        "http-status-codes",
        STATUS_CODES,
        "The HTTP status codes with which a target passes the health check.",
        default="2??,3??",
        field="health_check.http.status_codes",
    ),
)

TABLE = (*_WHOLE, *(replace(key, port=True) for key in _PORT))
PORT_KEYS = frozenset(key.name for key in TABLE if key.port)
KEYS = frozenset(key.name for key in TABLE)
BY_NAME = {key.name: key for key in TABLE}
SETTINGS = {key.setting.name: key.setting for key in TABLE if key.setting is not None}


@dataclass(frozen=True, slots=True)
class HealthCheckSpec:
    """A health check; times in seconds."""

    protocol: str = "tcp"
    port: int | None = None  # None = the node port
    interval: int = 15
    timeout: int = 10
    retries: int = 3
    domain: str = ""
    path: str = "/"
    status_codes: tuple[str, ...] = ("2??", "3??")
    tls: bool = False
    chosen: bool = True  # whether annotations set the protocol or the port of the check
    # names of the fields that are not defaults; not a part of the spec
    asked: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class CertificateSpec:
    """The certificates for a port: uploaded by ID or name, or one managed certificate for domains."""

    uploaded: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    name: str = ""
    staging: bool = False
    kept: tuple[int, ...] = ()  # IDs that others set on a port without annotations about certificates


@dataclass(frozen=True, slots=True)
class PortSpec:
    """One port; times in seconds."""

    protocol: str = "tcp"
    proxyprotocol: bool = False
    cookie_name: str = "HCLBSTICKY"
    cookie_lifetime: int = 300
    timeout_idle: int = 50
    sticky_sessions: bool = False
    redirect_http: bool = False
    certificates: CertificateSpec = field(default_factory=CertificateSpec)
    check: HealthCheckSpec | None = None  # None = not specified
    # names of the fields that are not defaults; not a part of the spec
    asked: frozenset[str] = field(default=frozenset(), compare=False)
