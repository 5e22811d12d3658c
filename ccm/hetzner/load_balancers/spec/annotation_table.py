"""The table of annotations: they are read by it, and the reference and ``lint`` follow from it.

A setting that is one field of the API needs its row here, the field in ``hetzner/api/models.py``, and in the
emulator the field and a row of ``SETTINGS`` in ``models/load_balancers.py``.
"""

from __future__ import annotations

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
    """A field of the load balancer that goes back to its default when its annotation is removed.

    Attributes:
        name: Its name in the label ``ccm-from-scratch/annotated``; without ``-``.
        path: Where the API's load balancer has it, with dots.
        default: The API's value for a new load balancer; None = the API chooses one.
        value: Makes the API's value of the annotation's.
        action: The action whose body is this field alone; empty = the code in ``plan`` changes it.
        created: Whether the request for a new load balancer takes it.
        texts: What a step that sets a value does, where ``change <name> to <value>`` does not say it.
    """

    name: str
    path: str
    default: object = None
    value: Callable[[Any], object] = _same
    action: str = ""
    created: bool = False
    texts: Mapping[object, str] = field(default_factory=dict[object, str], hash=False)

    def value_of(self, balancer: LoadBalancer) -> object:
        """The value now."""
        return attrgetter(self.path)(balancer)

    def applied(self, balancer: LoadBalancer, value: object) -> LoadBalancer:
        """The load balancer with another value."""
        *path, last = self.path.split(".")
        for end in range(len(path), 0, -1):
            part = attrgetter(".".join(path[:end]))(balancer)
            value, last = msgspec.structs.replace(part, **{last: value}), path[end - 1]
        return msgspec.structs.replace(balancer, **{last: value})

    def action_body(self, value: object) -> dict[str, Any]:
        """The body of the action that sets the value."""
        return {self.path.split(".")[-1]: value}

    def creation_body(self, value: object) -> dict[str, Any]:
        """What the request for a new load balancer says of it."""
        body: Any = value
        for name in reversed(self.path.split(".")):
            body = {name: body}
        return body

    def text(self, value: object) -> str:
        """What a step that sets the value does."""
        return self.texts.get(value, f"change {self.name} to {value}")


@dataclass(frozen=True, slots=True)
class Key:
    """One annotation, without its prefix.

    Attributes:
        meaning: One sentence.
        default: What counts without it, as it could be written in it; empty = nothing, see the meaning.
        variable: The environment variable that replaces it in all Services, without its prefix; in lower
            case a field of :class:`~ccm.hetzner.settings.LoadBalancerSettings`.
        setting: What it sets of the load balancer itself, if that goes back to a default.
        field: What it sets of a listener, where the API's has it; empty = not one field alone.
        port: Whether it can be given for one port alone, as ``port.<n>.<key>``.
        inert: Whether it has no effect.
        ours: Whether the official CCM lacks it.
        reads: How the official CCM reads its value, where not as it reads most of that kind.
    """

    name: str
    kind: Kind
    meaning: str
    default: str = ""
    variable: str = ""
    setting: Setting | None = None
    field: str = ""
    port: bool = False
    inert: bool = False
    ours: bool = False
    reads: OfficialFormat | None = None

    @property
    def official(self) -> OfficialFormat:
        """How the official CCM reads its value."""
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
        "Name of the load balancer; default: `a` and the Service's UID. A change renames it.",
        setting=Setting("name", "name"),
    ),
    Key(
        "location",
        PLACE,
        "Location. Default: the network zone of most of its servers. An empty value overrides the "
        "environment. A later change gets an Event, and moves nothing.",
        variable="LOCATION",
    ),
    Key(
        "network-zone",
        PLACE,
        "Network zone; `location` takes precedence, also from the environment. A later change gets an Event.",
        variable="NETWORK_ZONE",
    ),
    Key(
        "type",
        PLACE,
        "Type. Without it, a new load balancer is `lb11`, and an existing one keeps its type. If "
        "removed: `lb11` again, unless that is too small for its ports or nodes.",
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
        "Whether it is reachable only in the private network. Without it: unchanged. If removed: public "
        "again.",
        variable="DISABLE_PUBLIC_NETWORK",
        setting=Setting("public", "public_net.enabled", default=True, value=not_),
    ),
    Key(
        "public-net-ipv4",
        PRIMARY_IP,
        "An unassigned Primary IP for the IPv4 address of a new load balancer, which is created in the "
        "location of that IP, and never with another address. A later change gets an Event.",
    ),
    Key("public-net-ipv6", PRIMARY_IP, "The same for IPv6."),
    Key(
        "use-private-ip",
        BOOLEAN,
        "Send traffic to the private addresses of servers; requires HCLOUD_NETWORK. A change updates one "
        "target at a time.",
        default="false",
        variable="USE_PRIVATE_IP",
    ),
    Key(
        "private-ipv4",
        IPV4,
        "Address in the private network; default: any. A change attaches the load balancer again. A "
        "change to an address that isn't free gets an Event.",
        reads=OfficialFormat.TEXT,
    ),
    Key(
        "private-subnet-ip-range",
        NETWORK,
        "Subnet of its address; applies when it is attached. A later change gets an Event.",
        variable="PRIVATE_SUBNET_IP_RANGE",
    ),
    Key(
        "disable-private-ingress",
        BOOLEAN,
        "Omit the private address from the Service's status.",
        default="false",
        variable="DISABLE_PRIVATE_INGRESS",
    ),
    Key(
        "ipv6-disabled",
        BOOLEAN,
        "Omit the IPv6 address from the Service's status; Hetzner can't disable the address itself.",
        default="false",
        variable="DISABLE_IPV6",
    ),
    Key("hostname", HOSTNAME, "The Service's status has this name and no addresses."),
    Key(
        "ipv4-rdns",
        DOMAIN,
        "Reverse DNS name of the IPv4 address; if removed, Hetzner's default.",
        setting=Setting("ipv4", "public_net.ipv4.dns_ptr"),
    ),
    Key(
        "ipv6-rdns",
        DOMAIN,
        "Reverse DNS name of the IPv6 address; if removed, Hetzner's default.",
        setting=Setting("ipv6", "public_net.ipv6.dns_ptr"),
    ),
    Key(
        "node-selector",
        SELECTOR,
        "Nodes that get traffic; default: all. Updated when the nodes' labels change. A "
        "kubelet can set any label on its "
        "Node, except those with the prefix `node-restriction.kubernetes.io/`. No effect with `share`.",
    ),
    Key("ipv4", ANY, "Accepted for compatibility with the official CCM; no effect.", inert=True),
    Key("ipv6", ANY, "Accepted for compatibility with the official CCM; no effect.", inert=True),
    Key("id", ANY, "Accepted for compatibility with the official CCM; no effect.", inert=True),
    Key(
        "adopt",
        NAME,
        "ID or name of a load balancer that the Service takes over, if `CCM_ADOPT_NAMESPACES` or its label "
        "`ccm-from-scratch/namespace` allows it. It stays when the Service is deleted.",
        ours=True,
    ),
    Key(
        "share",
        LABEL,
        "Services of a namespace with the same word share one load balancer. Across namespaces, "
        "`CCM_SHARE_NAMESPACES` must allow it. The first Service sets everything except ports. If it changes "
        "its word, it keeps the load balancer, and the others get a new one. A port in use gets an Event.",
        ours=True,
    ),
    Key(
        "preserve-foreign",
        BOOLEAN,
        "Keep ports and targets that others added. A node that is excluded while no CCM runs also stays a "
        "target.",
        default="false",
        ours=True,
    ),
    Key("labels", LABELS, "Labels of the load balancer at Hetzner; removed with the annotation.", ours=True),
    Key(
        "delete-protection",
        BOOLEAN,
        "Protect it against deletion. Without it: unchanged. If removed: unprotected. A protected load "
        "balancer stays when its Service is deleted, with an Event.",
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
        "Send the PROXY protocol's header; the Service's status then says `ipMode: Proxy`.",
        default="false",
        variable="USES_PROXYPROTOCOL",
        field="proxyprotocol",
    ),
    Key(
        "http-cookie-name",
        text(100),
        "Name of the sticky session's cookie.",
        default="HCLBSTICKY",
        field="http.cookie_name",
    ),
    Key(
        "http-cookie-lifetime",
        seconds(30, 86400),
        "Lifetime of the cookie.",
        default="300",
        field="http.cookie_lifetime",
    ),
    Key(
        "http-timeout-idle",
        seconds(30, 300),
        "Timeout of an idle connection.",
        default="50",
        field="http.timeout_idle",
    ),
    Key(
        "http-sticky-sessions",
        BOOLEAN,
        "A client gets the same target each time.",
        default="false",
        field="http.sticky_sessions",
    ),
    Key(
        "http-redirect-http",
        BOOLEAN,
        "Redirect from port 80; requires protocol `https` and a free port 80.",
        default="false",
        field="http.redirect_http",
    ),
    Key("http-certificates", LIST, "IDs or names of uploaded certificates; for protocol `https`."),
    Key(
        "certificate-type",
        choice("uploaded", "managed"),
        "Whether certificates are uploaded or issued by Hetzner.",
        default="uploaded",
        reads=OfficialFormat.LOWER,
    ),
    Key(
        "http-managed-certificate-name",
        NAME,
        "Name of a managed certificate; default: `ccm-managed-certificate-` and the UID.",
    ),
    Key(
        "http-managed-certificate-domains",
        DOMAINS,
        "Domains of a managed certificate; required. A change replaces the certificate.",
    ),
    Key(
        "http-managed-certificate-acme-staging",
        BOOLEAN,
        "Request the certificate from the authority's test system.",
        default="false",
        reads=OfficialFormat.STAGING,
    ),
    Key(
        "health-check-protocol",
        PROTOCOL,
        "Protocol of the health check. Default: the port's protocol (`http` for https) if port, interval, "
        "timeout or retries is set, otherwise `tcp`.",
    ),
    Key("health-check-port", number(1, 65535), "Port of the health check; default: the node port."),
    Key(
        "health-check-interval",
        seconds(3, 60),
        "Interval between checks.",
        default="15",
        variable="HEALTH_CHECK_INTERVAL",
        field="health_check.interval",
    ),
    Key(
        "health-check-timeout",
        seconds(1, 60),
        "Timeout of a check; at most the interval.",
        default="10",
        variable="HEALTH_CHECK_TIMEOUT",
        field="health_check.timeout",
    ),
    Key(
        "health-check-retries",
        number(1, 5),
        "Failed checks until a target is unhealthy.",
        default="3",
        variable="HEALTH_CHECK_RETRIES",
        field="health_check.retries",
    ),
    Key("health-check-http-domain", NAME, "Host header of an HTTP check.", field="health_check.http.domain"),
    Key("health-check-http-path", ANY, "Path of an HTTP check.", default="/", field="health_check.http.path"),
    Key(
        "health-check-http-validate-certificate",
        BOOLEAN,
        "Check with TLS; the same as `https` as health-check-protocol.",
        default="false",
        field="health_check.http.tls",
    ),
    Key(
        "http-status-codes",
        STATUS_CODES,
        "Answers that count as healthy.",
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
    """A health check; times in seconds.

    Attributes:
        port: None = the port that traffic goes to.
        chosen: Whether the owner said what to ask, and not only when.
        asked: Names of the fields that are not defaults; says nothing about what is wanted.
    """

    protocol: str = "tcp"
    port: int | None = None
    interval: int = 15
    timeout: int = 10
    retries: int = 3
    domain: str = ""
    path: str = "/"
    status_codes: tuple[str, ...] = ("2??", "3??")
    tls: bool = False
    chosen: bool = True
    asked: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class CertificateSpec:
    """Which certificates a port gets: uploaded ones by id or name, or one that is managed for domains.

    Attributes:
        kept: Ids of those that others gave a port that no annotation is about.
    """

    uploaded: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    name: str = ""
    staging: bool = False
    kept: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PortSpec:
    """One port; times in seconds.

    Attributes:
        check: None = nothing was said about it.
        asked: Names of the fields that are not defaults; says nothing about what is wanted.
    """

    protocol: str = "tcp"
    proxyprotocol: bool = False
    cookie_name: str = "HCLBSTICKY"
    cookie_lifetime: int = 300
    timeout_idle: int = 50
    sticky_sessions: bool = False
    redirect_http: bool = False
    certificates: CertificateSpec = field(default_factory=CertificateSpec)
    check: HealthCheckSpec | None = None
    asked: frozenset[str] = field(default=frozenset(), compare=False)
