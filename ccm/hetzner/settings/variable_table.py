"""The environment variables: the one table that reading, documentation and ``/configz`` share."""

from __future__ import annotations

from dataclasses import dataclass

from ccm.cloud.cloud import DRY_RUN, MASS_DELETION_BREAKER
from ccm.hetzner.settings.kinds import (
    ADDRESS,
    BOOLEAN,
    CIDR,
    DURATION,
    NAMESPACES,
    SECRET,
    TEXT,
    URL,
    WORDS,
    Kind,
    number_within,
    one_of,
    seconds_within,
)


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable.

    Attributes:
        meaning: In a sentence or two.
        default: As one would write it; empty = not set.
    """

    group: str
    name: str
    kind: Kind
    meaning: str
    default: str = ""

    @property
    def ours(self) -> bool:
        """Whether the official CCM does not know it."""
        return self.name.startswith("CCM_") or self.name in {"HCLOUD_INSTANCES_COPY_LABELS", "ROBOT_ENDPOINT"}


_Row = tuple[str, Kind, str] | tuple[str, Kind, str, str]


def _group(group: str, *rows: _Row) -> tuple[Variable, ...]:
    return tuple(Variable(group, name, kind, text, *default) for name, kind, text, *default in rows)


_BALANCER = "HCLOUD_LOAD_BALANCERS_"

VARIABLES: tuple[Variable, ...] = (
    *_group(
        "Access",
        (
            "HCLOUD_TOKEN",
            SECRET,
            "The project's API token, read and write. Needed. A length other than 64 is warned of.",
        ),
        ("HCLOUD_ENDPOINT", URL, "Base address of the API.", "https://api.hetzner.cloud/v1"),
        ("HCLOUD_DEBUG", BOOLEAN, "Log every request and its answer, never the token.", "false"),
    ),
    *_group(
        "Private network",
        (
            "HCLOUD_NETWORK",
            TEXT,
            "Name or id. With it nodes get internal addresses, load balancers enter it, and routes are made.",
        ),
        (
            "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK",
            BOOLEAN,
            "Start although the server that we run on is not in the network, or is none of Hetzner's.",
            "false",
        ),
        ("HCLOUD_NETWORK_ROUTES_ENABLED", BOOLEAN, "Offer routes, if there is a network.", "true"),
    ),
    *_group(
        "Metrics",
        (
            "HCLOUD_METRICS_ENABLED",
            BOOLEAN,
            "Serve metrics on HCLOUD_METRICS_ADDRESS, too, to all clients; unset: if the provider is hcloud.",
        ),
        ("HCLOUD_METRICS_ADDRESS", ADDRESS, "Where; without TLS.", ":8233"),
    ),
    *_group(
        "Nodes",
        (
            "HCLOUD_INSTANCES_ADDRESS_FAMILY",
            one_of("ipv4", "ipv6", "dualstack"),
            "Which public addresses nodes get.",
            "ipv4",
        ),
        (
            "HCLOUD_INSTANCES_ZONE_LABEL_ENABLED",
            BOOLEAN,
            "Give nodes zone labels; those of Robot servers always have them.",
            "true",
        ),
        (
            "HCLOUD_INSTANCES_COPY_LABELS",
            WORDS,
            "Keys of server labels, with commas, that nodes get too, unless a node has one of its own.",
        ),
        (
            "CCM_NODE_NAME_CHECK",
            BOOLEAN,
            (
                "A server is only the node's that has its name, or that its label `ccm-from-scratch/node` "
                "names: no other gets routes and traffic for its provider ID."
            ),
            "true",
        ),
        (
            "HCLOUD_SERVER_CACHE_MODE",
            one_of("all", "one", "off"),
            "off: ask the API for every lookup. The other two make no difference here.",
            "all",
        ),
        (
            "HCLOUD_SERVER_CACHE_MAX_AGE",
            DURATION,
            "How old a server's data may be at a lookup; not set: as each controller sees fit.",
        ),
    ),
    *_group(
        "Robot",
        ("ROBOT_ENABLED", BOOLEAN, "There are dedicated servers in the cluster. Excludes routes.", "false"),
        ("ROBOT_USER", SECRET, "User of Robot's web service. Without user and password nothing is asked."),
        ("ROBOT_PASSWORD", SECRET, "Its password."),
        ("ROBOT_ENDPOINT", URL, "Base address of the web service.", "https://robot-ws.your-server.de"),
        ("ROBOT_CACHE_TIMEOUT", DURATION, "For how long Robot's list of servers is believed; 0: 5m.", "5m0s"),
        (
            "ROBOT_RATE_LIMIT_WAIT_TIME",
            DURATION,
            "For how long nothing is asked after Robot said that the limit is reached; 0s: a minute.",
            "0s",
        ),
        (
            "ROBOT_FORWARD_INTERNAL_IPS",
            BOOLEAN,
            "Keep the internal addresses that kubelets of dedicated servers report.",
            "true",
        ),
    ),
    *_group(
        "Load balancers (defaults for what a Service's annotations leave open)",
        (_BALANCER + "ENABLED", BOOLEAN, "Offer load balancers.", "true"),
        (_BALANCER + "LOCATION", TEXT, "Location; excludes the network zone."),
        (_BALANCER + "NETWORK_ZONE", TEXT, "Network zone; excludes the location."),
        (_BALANCER + "TYPE", TEXT, "Type; not set: the smallest, `lb11`."),
        (
            _BALANCER + "ALGORITHM_TYPE",
            one_of("round_robin", "least_connections", any_case=True),
            "Algorithm; not set: round_robin.",
        ),
        (
            _BALANCER + "DISABLE_PRIVATE_INGRESS",
            BOOLEAN,
            "Leave private addresses out of the status.",
            "false",
        ),
        (_BALANCER + "USE_PRIVATE_IP", BOOLEAN, "Reach nodes by their private addresses.", "false"),
        (_BALANCER + "DISABLE_IPV6", BOOLEAN, "Leave IPv6 addresses out of the status.", "false"),
        (
            _BALANCER + "DISABLE_PUBLIC_NETWORK",
            BOOLEAN,
            "Switch the public interface off, or on; not set: it is left as it is.",
        ),
        (_BALANCER + "PRIVATE_SUBNET_IP_RANGE", CIDR, "Subnet in which they get their private address."),
        (_BALANCER + "USES_PROXYPROTOCOL", BOOLEAN, "Speak the PROXY protocol to nodes."),
        (
            _BALANCER + "HEALTH_CHECK_INTERVAL",
            seconds_within(3, 60),
            "Between two checks, 3s to 60s; not set or 0: the API's default.",
        ),
        (
            _BALANCER + "HEALTH_CHECK_TIMEOUT",
            seconds_within(1, 60),
            "Of a check, 1s to 60s; not set or 0: the API's default.",
        ),
        (
            _BALANCER + "HEALTH_CHECK_RETRIES",
            number_within(1, 5),
            "Failed checks in a row, 1 to 5; not set or 0: the API's default.",
        ),
        (
            "CCM_CLUSTER_ID",
            TEXT,
            "Marks load balancers as this cluster's, where several share a project. Never change it.",
        ),
    ),
    *_group(
        "Promises",
        (
            "CCM_REFUSE_SOURCE_RANGES",
            BOOLEAN,
            "Make no load balancer for a Service with loadBalancerSourceRanges: Hetzner's have no filter.",
            "false",
        ),
    ),
    *_group(
        "Namespaces (names with commas, `*` for all, `-` for none; without a default: only what is its own)",
        ("CCM_ADOPT_NAMESPACES", NAMESPACES, "Whose Services may `adopt` load balancers without an owner."),
        (
            "CCM_SHARE_NAMESPACES",
            NAMESPACES,
            "Whose Services may `share` load balancers with each other, across namespaces.",
        ),
        (
            "CCM_CERTIFICATE_NAMESPACES",
            NAMESPACES,
            "Whose Services may use certificates with the label of another owner.",
        ),
        (
            "CCM_UNLABELLED_CERTIFICATE_NAMESPACES",
            NAMESPACES,
            "Whose Services may use certificates without any owner's label.",
            "*",
        ),
        (
            "CCM_UNLABELLED_PRIMARY_IP_NAMESPACES",
            NAMESPACES,
            "Whose Services may use Primary IPs without the label of a namespace.",
            "*",
        ),
        (
            "CCM_PROTECTION_NAMESPACES",
            NAMESPACES,
            "Whose Services may have `delete-protection`, which lets a load balancer outlive its Service.",
            "*",
        ),
        (
            "CCM_PRIVATE_IPV4_NAMESPACES",
            NAMESPACES,
            "Whose Services may choose any free address of the network by `private-ipv4`.",
            "*",
        ),
    ),
    *_group(
        "Safety",
        (
            MASS_DELETION_BREAKER,
            BOOLEAN,
            "The manager sets it as `--mass-deletion-breaker` says, whatever the environment has.",
            "true",
        ),
        (
            DRY_RUN,
            BOOLEAN,
            "`python -m ccm plan` sets it: no metrics are served, and any machine will do.",
            "false",
        ),
    ),
)
