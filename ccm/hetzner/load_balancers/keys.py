"""The table of annotations: the reference is made from it, and tests hold it against what is really read."""

from __future__ import annotations

from dataclasses import dataclass

from ccm.hetzner.load_balancers.readings import Reading


@dataclass(frozen=True, slots=True)
class Key:
    """One annotation, without its prefix.

    Attributes:
        name: The key.
        allowed: What its value may be, in the words of the message about a wrong one.
        default: What counts without it, as it could be written in it; empty = nothing, see the meaning.
        example: A value other than the default.
        meaning: One sentence.
        variable: The environment variable that stands in for it in all Services, without its prefix.
        port: Whether it can be given for one port alone, as ``port.<n>.<key>``.
        inert: Whether it has no effect.
        official: How the official CCM reads its value; not at all, if the key is ours.
    """

    name: str
    allowed: str
    default: str
    example: str
    meaning: str
    variable: str = ""
    port: bool = False
    inert: bool = False
    official: Reading = Reading.UNKNOWN

    @property
    def ours(self) -> bool:
        """Whether the official CCM lacks it."""
        return self.official is Reading.UNKNOWN


BOOLEAN = "true or false"
DOMAIN = "a domain name"
ANY = "at most 256 characters"
NAME = "at most 128 characters"
PLACE = "at most 63 characters"


def _seconds(lowest: int, highest: int) -> str:
    return f"{lowest} to {highest} seconds, as a number or as a duration like {lowest}s"


def _number(lowest: int, highest: int) -> str:
    return f"a whole number from {lowest} to {highest}"


_WHOLE = (
    Key(
        "name",
        NAME,
        "",
        "shop",
        "Its name; a new one without it is called `a` and the Service's UID. A change renames it.",
        official=Reading.TEXT,
    ),
    Key(
        "location",
        PLACE,
        "",
        "nbg1",
        "Where it is made. Without location and zone: in the network zone of most of its servers. Annotated "
        "empty, that of the environment does not count. A later change gets an Event, nothing moves.",
        "LOCATION",
        official=Reading.TEXT,
    ),
    Key(
        "network-zone",
        PLACE,
        "",
        "us-east",
        "Made anywhere in this zone; loses against `location`, also against that of the environment. A later "
        "change gets an Event.",
        "NETWORK_ZONE",
        official=Reading.TEXT,
    ),
    Key(
        "type",
        PLACE,
        "",
        "lb21",
        "Its type. Never annotated: a new one is `lb11`, others keep theirs; taken away: `lb11` again, "
        "unless that is too small for its ports or nodes.",
        "TYPE",
        official=Reading.LOWER,
    ),
    Key(
        "algorithm-type",
        "round_robin or least_connections",
        "round_robin",
        "least_connections",
        "How a target is chosen.",
        "ALGORITHM_TYPE",
        official=Reading.WORD,
    ),
    Key(
        "disable-public-network",
        BOOLEAN,
        "",
        "true",
        "Reachable in the private network only. Never annotated: left as it is; taken away: public again.",
        "DISABLE_PUBLIC_NETWORK",
        official=Reading.BOOLEAN,
    ),
    Key(
        "use-private-ip",
        BOOLEAN,
        "false",
        "true",
        "Send traffic to the private addresses of servers; needs HCLOUD_NETWORK. Servers change over one by "
        "one.",
        "USE_PRIVATE_IP",
        official=Reading.BOOLEAN,
    ),
    Key(
        "private-ipv4",
        "an IPv4 address",
        "",
        "10.0.0.9",
        "Its own address in the private network; without it, any. A change attaches it anew.",
        official=Reading.TEXT,
    ),
    Key(
        "private-subnet-ip-range",
        "an IPv4 network like 10.0.0.0/24",
        "",
        "10.0.1.0/24",
        "The subnet in which it gets its address; counts when it is attached. A later change gets an Event.",
        "PRIVATE_SUBNET_IP_RANGE",
        official=Reading.NETWORK,
    ),
    Key(
        "disable-private-ingress",
        BOOLEAN,
        "false",
        "true",
        "Leave its private address out of the Service's status.",
        "DISABLE_PRIVATE_INGRESS",
        official=Reading.BOOLEAN,
    ),
    Key(
        "ipv6-disabled",
        BOOLEAN,
        "false",
        "true",
        "Leave its IPv6 address out of the Service's status; Hetzner has no switch for the address itself.",
        "DISABLE_IPV6",
        official=Reading.BOOLEAN,
    ),
    Key(
        "hostname",
        DOMAIN,
        "",
        "shop.example.com",
        "The Service's status has this name and no addresses.",
        official=Reading.DOMAIN,
    ),
    Key(
        "ipv4-rdns",
        DOMAIN,
        "",
        "four.example.com",
        "Reverse DNS name of its IPv4 address; taken away, the default comes back.",
        official=Reading.DOMAIN,
    ),
    Key(
        "ipv6-rdns",
        DOMAIN,
        "",
        "six.example.com",
        "Reverse DNS name of its IPv6 address; taken away, the default comes back.",
        official=Reading.DOMAIN,
    ),
    Key(
        "node-selector",
        "a label selector like pool=edge or 'pool in (edge, web)', with at most 32 conditions and 4096 "
        "characters",
        "",
        "pool=edge",
        "Which nodes get traffic; without it, all. Follows the nodes' labels. No effect with `share`.",
        official=Reading.SELECTOR,
    ),
    Key(
        "ipv4",
        ANY,
        "",
        "203.0.113.9",
        "Accepted for the official CCM's sake; no effect.",
        inert=True,
        official=Reading.UNUSED,
    ),
    Key(
        "ipv6",
        ANY,
        "",
        "2001:db8::9",
        "Accepted for the official CCM's sake; no effect.",
        inert=True,
        official=Reading.UNUSED,
    ),
    Key(
        "id",
        ANY,
        "",
        "7",
        "Accepted for the official CCM's sake; no effect.",
        inert=True,
        official=Reading.UNUSED,
    ),
    Key(
        "adopt",
        NAME,
        "",
        "4711",
        "Id or name of a load balancer that becomes the Service's, if `CCM_ADOPT_NAMESPACES` or its label "
        "`ccm-from-scratch/namespace` allows it. When the Service goes, it stays.",
    ),
    Key(
        "share",
        "up to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",
        "",
        "edge",
        "Services of a namespace with the same word share one load balancer; those of several where "
        "`CCM_SHARE_NAMESPACES` allows it. The first decides about all but ports. A port that is taken gets "
        "an Event.",
    ),
    Key(
        "preserve-foreign",
        BOOLEAN,
        "false",
        "true",
        "Leave ports and targets alone that somebody else added.",
    ),
    Key(
        "labels",
        "a list of at most 100 like team=shop,stage=live, with no key below hetzner.cloud, hcloud-ccm, "
        "ccm-from-scratch",
        "",
        "team=shop",
        "Labels of the load balancer at Hetzner; they go with the annotation.",
    ),
    Key(
        "delete-protection",
        BOOLEAN,
        "",
        "true",
        "Protect it against deletion. Never annotated: left as it is; taken away: lifted. A protected one "
        "stays when its Service goes, with an Event.",
    ),
)

_PORT = (
    Key(
        "protocol", "tcp or http or https", "tcp", "http", "What it speaks.", port=True, official=Reading.WORD
    ),
    Key(
        "uses-proxyprotocol",
        BOOLEAN,
        "false",
        "true",
        "Send the PROXY protocol's header; the Service's status then says `ipMode: Proxy`.",
        "USES_PROXYPROTOCOL",
        port=True,
        official=Reading.BOOLEAN,
    ),
    Key(
        "http-cookie-name",
        "at most 100 characters",
        "HCLBSTICKY",
        "MINE",
        "Name of the sticky session's cookie.",
        port=True,
        official=Reading.TEXT,
    ),
    Key(
        "http-cookie-lifetime",
        _seconds(30, 86400),
        "300",
        "10m",
        "Its lifetime.",
        port=True,
        official=Reading.DURATION,
    ),
    Key(
        "http-timeout-idle",
        _seconds(30, 300),
        "50",
        "60",
        "When an idle connection is closed.",
        port=True,
        official=Reading.DURATION,
    ),
    Key(
        "http-sticky-sessions",
        BOOLEAN,
        "false",
        "true",
        "A client gets the same target each time.",
        port=True,
        official=Reading.BOOLEAN,
    ),
    Key(
        "http-redirect-http",
        BOOLEAN,
        "false",
        "true",
        "Redirect from port 80; needs protocol `https`, and port 80 to be free.",
        port=True,
        official=Reading.BOOLEAN,
    ),
    Key(
        "http-certificates",
        "a list of at most 100 with commas",
        "",
        "shop,4711",
        "Ids or names of uploaded certificates; for protocol `https`.",
        port=True,
        official=Reading.LIST,
    ),
    Key(
        "certificate-type",
        "uploaded or managed",
        "uploaded",
        "managed",
        "Whether certificates are uploaded or issued by Hetzner.",
        port=True,
        official=Reading.LOWER,
    ),
    Key(
        "http-managed-certificate-name",
        NAME,
        "",
        "shop",
        "Name of a managed certificate when it is requested; or `ccm-managed-certificate-` and the UID.",
        port=True,
        official=Reading.TEXT,
    ),
    Key(
        "http-managed-certificate-domains",
        "at most 100 domain names with commas",
        "",
        "shop.example.com",
        "Its domains, needed. When they change, a new one takes the old one's place.",
        port=True,
        official=Reading.LIST,
    ),
    Key(
        "http-managed-certificate-acme-staging",
        BOOLEAN,
        "false",
        "true",
        "Have it issued by the authority's test system.",
        port=True,
        official=Reading.STAGING,
    ),
    Key(
        "health-check-protocol",
        "tcp or http or https",
        "",
        "https",
        "How targets are checked; without it, as the port's protocol, `http` for https, if any of port, "
        "interval, timeout and retries is given, and otherwise by `tcp`.",
        port=True,
        official=Reading.WORD,
    ),
    Key(
        "health-check-port",
        _number(1, 65535),
        "",
        "8080",
        "Where; without it, the node port.",
        port=True,
        official=Reading.INTEGER,
    ),
    Key(
        "health-check-interval",
        _seconds(3, 60),
        "15",
        "5s",
        "Time from check to check.",
        "HEALTH_CHECK_INTERVAL",
        port=True,
        official=Reading.DURATION,
    ),
    Key(
        "health-check-timeout",
        _seconds(1, 60),
        "10",
        "5s",
        "How long an answer may take; not longer than the interval.",
        "HEALTH_CHECK_TIMEOUT",
        port=True,
        official=Reading.DURATION,
    ),
    Key(
        "health-check-retries",
        _number(1, 5),
        "3",
        "5",
        "Failures until a target is unhealthy.",
        "HEALTH_CHECK_RETRIES",
        port=True,
        official=Reading.INTEGER,
    ),
    Key(
        "health-check-http-domain",
        NAME,
        "",
        "shop.example.com",
        "Host that a check by HTTP asks for.",
        port=True,
        official=Reading.TEXT,
    ),
    Key(
        "health-check-http-path",
        ANY,
        "/",
        "/up",
        "Path that a check by HTTP asks for.",
        port=True,
        official=Reading.TEXT,
    ),
    Key(
        "health-check-http-validate-certificate",
        BOOLEAN,
        "false",
        "true",
        "Check by TLS; `https` as health-check-protocol means the same.",
        port=True,
        official=Reading.BOOLEAN,
    ),
    Key(
        "http-status-codes",
        "up to 20 status codes like 200, 2?? or 2*, with commas",
        "2??,3??",
        "204",
        "Answers that count as healthy.",
        port=True,
        official=Reading.LIST,
    ),
)

TABLE = (*_WHOLE, *_PORT)
PORT_KEYS = frozenset(key.name for key in TABLE if key.port)
KEYS = frozenset(key.name for key in TABLE)
