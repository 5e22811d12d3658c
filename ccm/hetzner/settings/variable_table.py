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
            (
                "The project's API token, read and write. Required. If its length isn't 64, the "
                "CCM logs a warning."
            ),
        ),
        ("HCLOUD_ENDPOINT", URL, "Base address of the API.", "https://api.hetzner.cloud/v1"),
        ("HCLOUD_DEBUG", BOOLEAN, "Log every request and its response, without the token.", "false"),
    ),
    *_group(
        "Private network",
        (
            "HCLOUD_NETWORK",
            TEXT,
            "Name or id. Gives nodes internal addresses, attaches load balancers to it, and enables routes.",
        ),
        (
            "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK",
            BOOLEAN,
            "Start even if this machine isn't a Hetzner server in the network.",
            "false",
        ),
        ("HCLOUD_NETWORK_ROUTES_ENABLED", BOOLEAN, "Enable routes, if there is a network.", "true"),
    ),
    *_group(
        "Metrics",
        (
            "HCLOUD_METRICS_ENABLED",
            BOOLEAN,
            "Also serve metrics on HCLOUD_METRICS_ADDRESS, to all clients; unset: if the provider is hcloud.",
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
            (
                "Keys of server labels to copy to nodes, separated by commas. A label that a "
                "node already has isn't changed."
            ),
        ),
        (
            "CCM_NODE_NAME_CHECK",
            BOOLEAN,
            (
                "A node gets routes and traffic only for the server with its name, or whose label "
                "`ccm-from-scratch/node` names it."
            ),
            "true",
        ),
        (
            "HCLOUD_SERVER_CACHE_MODE",
            one_of("all", "one", "off"),
            "off: send a request for every lookup. The other two have the same effect.",
            "all",
        ),
        (
            "HCLOUD_SERVER_CACHE_MAX_AGE",
            DURATION,
            "Maximum age of a server's data at a lookup; not set: each controller's default.",
        ),
    ),
    *_group(
        "Robot",
        (
            "ROBOT_ENABLED",
            BOOLEAN,
            "The cluster has dedicated servers. Can't be combined with routes.",
            "false",
        ),
        ("ROBOT_USER", SECRET, "User of Robot's web service. Without user and password, Robot isn't used."),
        ("ROBOT_PASSWORD", SECRET, "Its password."),
        ("ROBOT_ENDPOINT", URL, "Base address of the web service.", "https://robot-ws.your-server.de"),
        ("ROBOT_CACHE_TIMEOUT", DURATION, "How long Robot's list of servers is cached; 0: 5m.", "5m0s"),
        (
            "ROBOT_RATE_LIMIT_WAIT_TIME",
            DURATION,
            "Pause after Robot's request limit is reached; 0s: one minute.",
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
        "Load balancers (defaults for Services without the annotation)",
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
            "Disable the public interface, or enable it; not set: unchanged.",
        ),
        (_BALANCER + "PRIVATE_SUBNET_IP_RANGE", CIDR, "Subnet in which they get their private address."),
        (_BALANCER + "USES_PROXYPROTOCOL", BOOLEAN, "Send the PROXY protocol to nodes."),
        (
            _BALANCER + "HEALTH_CHECK_INTERVAL",
            seconds_within(3, 60),
            "Interval between checks, 3s to 60s; not set or 0: the API's default.",
        ),
        (
            _BALANCER + "HEALTH_CHECK_TIMEOUT",
            seconds_within(1, 60),
            "Timeout of a check, 1s to 60s; not set or 0: the API's default.",
        ),
        (
            _BALANCER + "HEALTH_CHECK_RETRIES",
            number_within(1, 5),
            "Failed checks in a row, 1 to 5; not set or 0: the API's default.",
        ),
        (
            "CCM_CLUSTER_ID",
            TEXT,
            "Identifies this cluster's load balancers if several clusters share a project. Never change it.",
        ),
    ),
    *_group(
        "Promises",
        (
            "CCM_REFUSE_SOURCE_RANGES",
            BOOLEAN,
            "Create no load balancer for Services with loadBalancerSourceRanges, which Hetzner ignores.",
            "false",
        ),
    ),
    *_group(
        "Namespaces (comma-separated names, `*` for all, `-` for none; none if there is no default)",
        (
            "CCM_ADOPT_NAMESPACES",
            NAMESPACES,
            "Namespaces whose Services may `adopt` load balancers without an owner.",
        ),
        (
            "CCM_SHARE_NAMESPACES",
            NAMESPACES,
            "Namespaces whose Services may `share` load balancers with each other.",
        ),
        (
            "CCM_CERTIFICATE_NAMESPACES",
            NAMESPACES,
            "Namespaces whose Services may use certificates with another owner's label.",
        ),
        (
            "CCM_UNLABELLED_CERTIFICATE_NAMESPACES",
            NAMESPACES,
            "Namespaces whose Services may use certificates without an owner's label.",
            "*",
        ),
        (
            "CCM_UNLABELLED_PRIMARY_IP_NAMESPACES",
            NAMESPACES,
            "Namespaces whose Services may use Primary IPs without a namespace label.",
            "*",
        ),
        (
            "CCM_PROTECTION_NAMESPACES",
            NAMESPACES,
            "Namespaces whose Services may have `delete-protection`, and so keep a load balancer.",
            "*",
        ),
        (
            "CCM_PRIVATE_IPV4_NAMESPACES",
            NAMESPACES,
            "Namespaces whose Services may choose any free address of the network with `private-ipv4`.",
            "*",
        ),
    ),
    *_group(
        "Safety",
        (
            MASS_DELETION_BREAKER,
            BOOLEAN,
            "The manager sets it from `--mass-deletion-breaker`, regardless of the environment.",
            "true",
        ),
        (
            DRY_RUN,
            BOOLEAN,
            "`python -m ccm plan` sets it: no metrics are served, and any machine can run it.",
            "false",
        ),
    ),
)
