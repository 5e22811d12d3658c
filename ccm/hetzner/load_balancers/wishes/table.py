"""The table of annotations: they are read by it, and the reference and ``lint`` follow from it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ccm.hetzner.load_balancers.wishes.readings import Reading
from ccm.hetzner.load_balancers.wishes.values import (
    BOOLEAN,
    DOMAIN,
    DOMAINS,
    IPV4,
    LABEL,
    LABELS,
    LIST,
    NETWORK,
    SELECTOR,
    STATUS_CODES,
    Kind,
    choice,
    number,
    seconds,
    text,
)

PREFIX = "load-balancer.hetzner.cloud/"


@dataclass(frozen=True, slots=True)
class Key:
    """One annotation, without its prefix.

    Attributes:
        name: The key.
        kind: What its value may be.
        default: What counts without it, as it could be written in it; empty = nothing, see the meaning.
        example: A value other than the default.
        meaning: One sentence.
        variable: The environment variable that stands in for it in all Services, without its prefix; in lower
            case a field of :class:`~ccm.hetzner.settings.LoadBalancerSettings`.
        port: Whether it can be given for one port alone, as ``port.<n>.<key>``.
        inert: Whether it has no effect.
        ours: Whether the official CCM lacks it.
        reads: How the official CCM reads its value, where not as it reads most of that kind.
    """

    name: str
    kind: Kind
    default: str
    example: str
    meaning: str
    variable: str = ""
    port: bool = False
    inert: bool = False
    ours: bool = False
    reads: Reading | None = None

    @property
    def allowed(self) -> str:
        """What its value may be, in the words of the message about a wrong one."""
        return self.kind.allowed

    @property
    def official(self) -> Reading:
        """How the official CCM reads its value."""
        if self.ours:
            return Reading.UNKNOWN
        return Reading.UNUSED if self.inert else self.reads or self.kind.official


ANY = text()
NAME = text(128)
PLACE = text(63)
PROTOCOL = choice("tcp", "http", "https")

_WHOLE = (
    Key(
        "name",
        NAME,
        "",
        "shop",
        "Its name; a new one without it is called `a` and the Service's UID. A change renames it.",
    ),
    Key(
        "location",
        PLACE,
        "",
        "nbg1",
        "Where it is made. Without location and zone: in the network zone of most of its servers. Annotated "
        "empty, that of the environment does not count. A later change gets an Event, nothing moves.",
        "LOCATION",
    ),
    Key(
        "network-zone",
        PLACE,
        "",
        "us-east",
        "Made anywhere in this zone; loses against `location`, also against that of the environment. A later "
        "change gets an Event.",
        "NETWORK_ZONE",
    ),
    Key(
        "type",
        PLACE,
        "",
        "lb21",
        "Its type. Never annotated: a new one is `lb11`, others keep theirs; taken away: `lb11` again, "
        "unless that is too small for its ports or nodes.",
        "TYPE",
        reads=Reading.LOWER,
    ),
    Key(
        "algorithm-type",
        choice("round_robin", "least_connections"),
        "round_robin",
        "least_connections",
        "How a target is chosen.",
        "ALGORITHM_TYPE",
    ),
    Key(
        "disable-public-network",
        BOOLEAN,
        "",
        "true",
        "Reachable in the private network only. Never annotated: left as it is; taken away: public again.",
        "DISABLE_PUBLIC_NETWORK",
    ),
    Key(
        "use-private-ip",
        BOOLEAN,
        "false",
        "true",
        "Send traffic to the private addresses of servers; needs HCLOUD_NETWORK. Servers change over one by "
        "one.",
        "USE_PRIVATE_IP",
    ),
    Key(
        "private-ipv4",
        IPV4,
        "",
        "10.0.0.9",
        "Its own address in the private network; without it, any. A change attaches it anew.",
        reads=Reading.TEXT,
    ),
    Key(
        "private-subnet-ip-range",
        NETWORK,
        "",
        "10.0.1.0/24",
        "The subnet in which it gets its address; counts when it is attached. A later change gets an Event.",
        "PRIVATE_SUBNET_IP_RANGE",
    ),
    Key(
        "disable-private-ingress",
        BOOLEAN,
        "false",
        "true",
        "Leave its private address out of the Service's status.",
        "DISABLE_PRIVATE_INGRESS",
    ),
    Key(
        "ipv6-disabled",
        BOOLEAN,
        "false",
        "true",
        "Leave its IPv6 address out of the Service's status; Hetzner has no switch for the address itself.",
        "DISABLE_IPV6",
    ),
    Key("hostname", DOMAIN, "", "shop.example.com", "The Service's status has this name and no addresses."),
    Key(
        "ipv4-rdns",
        DOMAIN,
        "",
        "four.example.com",
        "Reverse DNS name of its IPv4 address; taken away, the default comes back.",
    ),
    Key(
        "ipv6-rdns",
        DOMAIN,
        "",
        "six.example.com",
        "Reverse DNS name of its IPv6 address; taken away, the default comes back.",
    ),
    Key(
        "node-selector",
        SELECTOR,
        "",
        "pool=edge",
        "Which nodes get traffic; without it, all. Follows the nodes' labels. No effect with `share`.",
    ),
    Key("ipv4", ANY, "", "203.0.113.9", "Accepted for the official CCM's sake; no effect.", inert=True),
    Key("ipv6", ANY, "", "2001:db8::9", "Accepted for the official CCM's sake; no effect.", inert=True),
    Key("id", ANY, "", "7", "Accepted for the official CCM's sake; no effect.", inert=True),
    Key(
        "adopt",
        NAME,
        "",
        "4711",
        "Id or name of a load balancer that becomes the Service's, if `CCM_ADOPT_NAMESPACES` or its label "
        "`ccm-from-scratch/namespace` allows it. When the Service goes, it stays.",
        ours=True,
    ),
    Key(
        "share",
        LABEL,
        "",
        "edge",
        "Services of a namespace with the same word share one load balancer; those of several where "
        "`CCM_SHARE_NAMESPACES` allows it. The first decides about all but ports. A port that is taken gets "
        "an Event.",
        ours=True,
    ),
    Key(
        "preserve-foreign",
        BOOLEAN,
        "false",
        "true",
        "Leave ports and targets alone that somebody else added.",
        ours=True,
    ),
    Key(
        "labels",
        LABELS,
        "",
        "team=shop",
        "Labels of the load balancer at Hetzner; they go with the annotation.",
        ours=True,
    ),
    Key(
        "delete-protection",
        BOOLEAN,
        "",
        "true",
        "Protect it against deletion. Never annotated: left as it is; taken away: lifted. A protected one "
        "stays when its Service goes, with an Event.",
        ours=True,
    ),
)

_PORT = (
    Key("protocol", PROTOCOL, "tcp", "http", "What it speaks."),
    Key(
        "uses-proxyprotocol",
        BOOLEAN,
        "false",
        "true",
        "Send the PROXY protocol's header; the Service's status then says `ipMode: Proxy`.",
        "USES_PROXYPROTOCOL",
    ),
    Key("http-cookie-name", text(100), "HCLBSTICKY", "MINE", "Name of the sticky session's cookie."),
    Key("http-cookie-lifetime", seconds(30, 86400), "300", "10m", "Its lifetime."),
    Key("http-timeout-idle", seconds(30, 300), "50", "60", "When an idle connection is closed."),
    Key("http-sticky-sessions", BOOLEAN, "false", "true", "A client gets the same target each time."),
    Key(
        "http-redirect-http",
        BOOLEAN,
        "false",
        "true",
        "Redirect from port 80; needs protocol `https`, and port 80 to be free.",
    ),
    Key(
        "http-certificates",
        LIST,
        "",
        "shop,4711",
        "Ids or names of uploaded certificates; for protocol `https`.",
    ),
    Key(
        "certificate-type",
        choice("uploaded", "managed"),
        "uploaded",
        "managed",
        "Whether certificates are uploaded or issued by Hetzner.",
        reads=Reading.LOWER,
    ),
    Key(
        "http-managed-certificate-name",
        NAME,
        "",
        "shop",
        "Name of a managed certificate when it is requested; or `ccm-managed-certificate-` and the UID.",
    ),
    Key(
        "http-managed-certificate-domains",
        DOMAINS,
        "",
        "shop.example.com",
        "Its domains, needed. When they change, a new one takes the old one's place.",
    ),
    Key(
        "http-managed-certificate-acme-staging",
        BOOLEAN,
        "false",
        "true",
        "Have it issued by the authority's test system.",
        reads=Reading.STAGING,
    ),
    Key(
        "health-check-protocol",
        PROTOCOL,
        "",
        "https",
        "How targets are checked; without it, as the port's protocol, `http` for https, if any of port, "
        "interval, timeout and retries is given, and otherwise by `tcp`.",
    ),
    Key("health-check-port", number(1, 65535), "", "8080", "Where; without it, the node port."),
    Key(
        "health-check-interval",
        seconds(3, 60),
        "15",
        "5s",
        "Time from check to check.",
        "HEALTH_CHECK_INTERVAL",
    ),
    Key(
        "health-check-timeout",
        seconds(1, 60),
        "10",
        "5s",
        "How long an answer may take; not longer than the interval.",
        "HEALTH_CHECK_TIMEOUT",
    ),
    Key(
        "health-check-retries",
        number(1, 5),
        "3",
        "5",
        "Failures until a target is unhealthy.",
        "HEALTH_CHECK_RETRIES",
    ),
    Key("health-check-http-domain", NAME, "", "shop.example.com", "Host that a check by HTTP asks for."),
    Key("health-check-http-path", ANY, "/", "/up", "Path that a check by HTTP asks for."),
    Key(
        "health-check-http-validate-certificate",
        BOOLEAN,
        "false",
        "true",
        "Check by TLS; `https` as health-check-protocol means the same.",
    ),
    Key("http-status-codes", STATUS_CODES, "2??,3??", "204", "Answers that count as healthy."),
)

TABLE = (*_WHOLE, *(replace(key, port=True) for key in _PORT))
PORT_KEYS = frozenset(key.name for key in TABLE if key.port)
KEYS = frozenset(key.name for key in TABLE)
BY_NAME = {key.name: key for key in TABLE}
