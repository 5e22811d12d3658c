"""The table of annotations: they are read by it, and the reference and ``lint`` follow from it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ccm.hetzner.load_balancers.wishes.readings import Reading
from ccm.hetzner.load_balancers.wishes.values import (
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


@dataclass(frozen=True, slots=True)
class Key:
    """One annotation, without its prefix.

    Attributes:
        meaning: One sentence.
        default: What counts without it, as it could be written in it; empty = nothing, see the meaning.
        variable: The environment variable that stands in for it in all Services, without its prefix; in lower
            case a field of :class:`~ccm.hetzner.settings.LoadBalancerSettings`.
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
    port: bool = False
    inert: bool = False
    ours: bool = False
    reads: Reading | None = None

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
        "Its name; a new one without it is called `a` and the Service's UID. A change renames it.",
    ),
    Key(
        "location",
        PLACE,
        "Where it is made. Without location and zone: in the network zone of most of its servers. Annotated "
        "empty, that of the environment does not count. A later change gets an Event, nothing moves.",
        variable="LOCATION",
    ),
    Key(
        "network-zone",
        PLACE,
        "Made anywhere in this zone; loses against `location`, also against that of the environment. A later "
        "change gets an Event.",
        variable="NETWORK_ZONE",
    ),
    Key(
        "type",
        PLACE,
        "Its type. Never annotated: a new one is `lb11`, others keep theirs; taken away: `lb11` again, "
        "unless that is too small for its ports or nodes.",
        variable="TYPE",
        reads=Reading.LOWER,
    ),
    Key(
        "algorithm-type",
        choice("round_robin", "least_connections"),
        "How a target is chosen.",
        default="round_robin",
        variable="ALGORITHM_TYPE",
    ),
    Key(
        "disable-public-network",
        BOOLEAN,
        "Reachable in the private network only. Never annotated: left as it is; taken away: public again.",
        variable="DISABLE_PUBLIC_NETWORK",
    ),
    Key(
        "public-net-ipv4",
        PRIMARY_IP,
        "An unassigned Primary IP that becomes its IPv4 address. Counts when it is made, in the location of "
        "that IP; it is never made on another address. A later change gets an Event.",
    ),
    Key("public-net-ipv6", PRIMARY_IP, "The same for IPv6."),
    Key(
        "use-private-ip",
        BOOLEAN,
        "Send traffic to the private addresses of servers; needs HCLOUD_NETWORK. Servers change over one by "
        "one.",
        default="false",
        variable="USE_PRIVATE_IP",
    ),
    Key(
        "private-ipv4",
        IPV4,
        "Its own address in the private network; without it, any. A change attaches it anew; one to an "
        "address that is not free gets an Event.",
        reads=Reading.TEXT,
    ),
    Key(
        "private-subnet-ip-range",
        NETWORK,
        "The subnet in which it gets its address; counts when it is attached. A later change gets an Event.",
        variable="PRIVATE_SUBNET_IP_RANGE",
    ),
    Key(
        "disable-private-ingress",
        BOOLEAN,
        "Leave its private address out of the Service's status.",
        default="false",
        variable="DISABLE_PRIVATE_INGRESS",
    ),
    Key(
        "ipv6-disabled",
        BOOLEAN,
        "Leave its IPv6 address out of the Service's status; Hetzner has no switch for the address itself.",
        default="false",
        variable="DISABLE_IPV6",
    ),
    Key("hostname", HOSTNAME, "The Service's status has this name and no addresses."),
    Key("ipv4-rdns", DOMAIN, "Reverse DNS name of its IPv4 address; taken away, the default comes back."),
    Key("ipv6-rdns", DOMAIN, "Reverse DNS name of its IPv6 address; taken away, the default comes back."),
    Key(
        "node-selector",
        SELECTOR,
        "Which nodes get traffic; without it, all. Follows the nodes' labels; a kubelet may give its own any "
        "but those below `node-restriction.kubernetes.io/`. No effect with `share`.",
    ),
    Key("ipv4", ANY, "Accepted for the official CCM's sake; no effect.", inert=True),
    Key("ipv6", ANY, "Accepted for the official CCM's sake; no effect.", inert=True),
    Key("id", ANY, "Accepted for the official CCM's sake; no effect.", inert=True),
    Key(
        "adopt",
        NAME,
        "Id or name of a load balancer that becomes the Service's, if `CCM_ADOPT_NAMESPACES` or its label "
        "`ccm-from-scratch/namespace` allows it. When the Service goes, it stays.",
        ours=True,
    ),
    Key(
        "share",
        LABEL,
        "Services of a namespace with the same word share one load balancer; those of several where "
        "`CCM_SHARE_NAMESPACES` allows it. The first decides about all but ports, and takes the load "
        "balancer along when it changes its word; the others get a new one. A port that is taken gets an "
        "Event.",
        ours=True,
    ),
    Key(
        "preserve-foreign",
        BOOLEAN,
        "Leave ports and targets alone that somebody else added. A node that is excluded while no CCM runs "
        "stays a target, too.",
        default="false",
        ours=True,
    ),
    Key("labels", LABELS, "Labels of the load balancer at Hetzner; they go with the annotation.", ours=True),
    Key(
        "delete-protection",
        BOOLEAN,
        "Protect it against deletion. Never annotated: left as it is; taken away: lifted. A protected one "
        "stays when its Service goes, with an Event.",
        ours=True,
    ),
)

_PORT = (
    Key("protocol", PROTOCOL, "What it speaks.", default="tcp"),
    Key(
        "uses-proxyprotocol",
        BOOLEAN,
        "Send the PROXY protocol's header; the Service's status then says `ipMode: Proxy`.",
        default="false",
        variable="USES_PROXYPROTOCOL",
    ),
    Key("http-cookie-name", text(100), "Name of the sticky session's cookie.", default="HCLBSTICKY"),
    Key("http-cookie-lifetime", seconds(30, 86400), "Its lifetime.", default="300"),
    Key("http-timeout-idle", seconds(30, 300), "When an idle connection is closed.", default="50"),
    Key("http-sticky-sessions", BOOLEAN, "A client gets the same target each time.", default="false"),
    Key(
        "http-redirect-http",
        BOOLEAN,
        "Redirect from port 80; needs protocol `https`, and port 80 to be free.",
        default="false",
    ),
    Key("http-certificates", LIST, "Ids or names of uploaded certificates; for protocol `https`."),
    Key(
        "certificate-type",
        choice("uploaded", "managed"),
        "Whether certificates are uploaded or issued by Hetzner.",
        default="uploaded",
        reads=Reading.LOWER,
    ),
    Key(
        "http-managed-certificate-name",
        NAME,
        "Name of a managed certificate when it is requested; or `ccm-managed-certificate-` and the UID.",
    ),
    Key(
        "http-managed-certificate-domains",
        DOMAINS,
        "Its domains, needed. When they change, a new one takes the old one's place.",
    ),
    Key(
        "http-managed-certificate-acme-staging",
        BOOLEAN,
        "Have it issued by the authority's test system.",
        default="false",
        reads=Reading.STAGING,
    ),
    Key(
        "health-check-protocol",
        PROTOCOL,
        "How targets are checked; without it, as the port's protocol, `http` for https, if any of port, "
        "interval, timeout and retries is given, and otherwise by `tcp`.",
    ),
    Key("health-check-port", number(1, 65535), "Where; without it, the node port."),
    Key(
        "health-check-interval",
        seconds(3, 60),
        "Time from check to check.",
        default="15",
        variable="HEALTH_CHECK_INTERVAL",
    ),
    Key(
        "health-check-timeout",
        seconds(1, 60),
        "How long an answer may take; not longer than the interval.",
        default="10",
        variable="HEALTH_CHECK_TIMEOUT",
    ),
    Key(
        "health-check-retries",
        number(1, 5),
        "Failures until a target is unhealthy.",
        default="3",
        variable="HEALTH_CHECK_RETRIES",
    ),
    Key("health-check-http-domain", NAME, "Host that a check by HTTP asks for."),
    Key("health-check-http-path", ANY, "Path that a check by HTTP asks for.", default="/"),
    Key(
        "health-check-http-validate-certificate",
        BOOLEAN,
        "Check by TLS; `https` as health-check-protocol means the same.",
        default="false",
    ),
    Key("http-status-codes", STATUS_CODES, "Answers that count as healthy.", default="2??,3??"),
)

TABLE = (*_WHOLE, *(replace(key, port=True) for key in _PORT))
PORT_KEYS = frozenset(key.name for key in TABLE if key.port)
KEYS = frozenset(key.name for key in TABLE)
BY_NAME = {key.name: key for key in TABLE}
