"""What each environment variable means. Rendered in docs/reference/environment.md; a test compares it with
what :func:`ccm.hetzner.settings.environment.read` really reads.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable.

    Attributes:
        name: Of the variable.
        kind: ``text``, ``boolean``, ``duration``, ``number``, ``URL``, ``address``, ``CIDR``, ``secret`` or
            the words that are allowed, with ``or`` in between.
        default: As one would write it; empty = not set.
        meaning: In a sentence or two.
        group: Heading.
        ours: Whether the official CCM does not know it.
    """

    name: str
    kind: str
    default: str
    meaning: str
    group: str
    ours: bool = False


_Row = tuple[str, str, str, str]
_OURS = frozenset(
    {
        "HCLOUD_INSTANCES_COPY_LABELS",
        "ROBOT_ENDPOINT",
        "CCM_CLUSTER_ID",
        "CCM_ADOPT_NAMESPACES",
        "CCM_SHARE_NAMESPACES",
        "CCM_CERTIFICATE_NAMESPACES",
        "CCM_MASS_DELETION_BREAKER",
        "CCM_DRY_RUN",
    }
)


def _group(group: str, *rows: _Row) -> tuple[Variable, ...]:
    return tuple(
        Variable(name, kind, default, meaning, group, name in _OURS) for name, kind, default, meaning in rows
    )


_BALANCER = "HCLOUD_LOAD_BALANCERS_"

VARIABLES: tuple[Variable, ...] = (
    *_group(
        "Access",
        (
            "HCLOUD_TOKEN",
            "secret",
            "",
            "The project's API token, read and write. Needed. A length other than 64 is warned of.",
        ),
        ("HCLOUD_ENDPOINT", "URL", "https://api.hetzner.cloud/v1", "Base address of the API."),
        (
            "HCLOUD_DEBUG",
            "boolean",
            "false",
            "Log every request and its answer, never the token.",
        ),
    ),
    *_group(
        "Private network",
        (
            "HCLOUD_NETWORK",
            "text",
            "",
            "Name or id. With it nodes get internal addresses, load balancers enter it, and routes are made.",
        ),
        (
            "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK",
            "boolean",
            "false",
            "Start although the server that we run on is not in the network, or is none of Hetzner's.",
        ),
        ("HCLOUD_NETWORK_ROUTES_ENABLED", "boolean", "true", "Offer routes, if there is a network."),
    ),
    *_group(
        "Metrics",
        (
            "HCLOUD_METRICS_ENABLED",
            "boolean",
            "",
            "Serve metrics on HCLOUD_METRICS_ADDRESS too, to everybody; not set: if the provider is hcloud.",
        ),
        ("HCLOUD_METRICS_ADDRESS", "address", ":8233", "Where; without TLS."),
    ),
    *_group(
        "Nodes",
        (
            "HCLOUD_INSTANCES_ADDRESS_FAMILY",
            "ipv4 or ipv6 or dualstack",
            "ipv4",
            "Which public addresses nodes get.",
        ),
        (
            "HCLOUD_INSTANCES_ZONE_LABEL_ENABLED",
            "boolean",
            "true",
            "Give nodes zone labels; those of Robot servers always have them.",
        ),
        (
            "HCLOUD_INSTANCES_COPY_LABELS",
            "text",
            "",
            "Keys of server labels, with commas, that nodes get too, unless a node has one of its own.",
        ),
        (
            "HCLOUD_SERVER_CACHE_MODE",
            "all or one or off",
            "all",
            "off: ask the API for every lookup. The other two make no difference here.",
        ),
        (
            "HCLOUD_SERVER_CACHE_MAX_AGE",
            "duration",
            "",
            "How old a server's data may be at a lookup; not set: as each controller sees fit.",
        ),
    ),
    *_group(
        "Robot",
        ("ROBOT_ENABLED", "boolean", "false", "There are dedicated servers in the cluster. Excludes routes."),
        (
            "ROBOT_USER",
            "secret",
            "",
            "User of Robot's web service. Without user and password nothing is asked.",
        ),
        ("ROBOT_PASSWORD", "secret", "", "Its password."),
        ("ROBOT_ENDPOINT", "URL", "https://robot-ws.your-server.de", "Base address of the web service."),
        (
            "ROBOT_CACHE_TIMEOUT",
            "duration",
            "5m0s",
            "For how long Robot's list of servers is believed; 0: 5m.",
        ),
        (
            "ROBOT_RATE_LIMIT_WAIT_TIME",
            "duration",
            "0s",
            "For how long nothing is asked after Robot said that the limit is reached; 0s: a minute.",
        ),
        (
            "ROBOT_FORWARD_INTERNAL_IPS",
            "boolean",
            "true",
            "Keep the internal addresses that kubelets of dedicated servers report.",
        ),
    ),
    *_group(
        "Load balancers (defaults for what a Service's annotations leave open)",
        (_BALANCER + "ENABLED", "boolean", "true", "Offer load balancers."),
        (_BALANCER + "LOCATION", "text", "", "Location; excludes the network zone."),
        (_BALANCER + "NETWORK_ZONE", "text", "", "Network zone; excludes the location."),
        (_BALANCER + "TYPE", "text", "", "Type; not set: the smallest, `lb11`."),
        (
            _BALANCER + "ALGORITHM_TYPE",
            "round_robin or least_connections",
            "",
            "Algorithm; not set: round_robin.",
        ),
        (
            _BALANCER + "DISABLE_PRIVATE_INGRESS",
            "boolean",
            "false",
            "Leave private addresses out of the status.",
        ),
        (_BALANCER + "USE_PRIVATE_IP", "boolean", "false", "Reach nodes by their private addresses."),
        (_BALANCER + "DISABLE_IPV6", "boolean", "false", "Leave IPv6 addresses out of the status."),
        (
            _BALANCER + "DISABLE_PUBLIC_NETWORK",
            "boolean",
            "",
            "Switch the public interface off, or on; not set: it is left as it is.",
        ),
        (
            _BALANCER + "PRIVATE_SUBNET_IP_RANGE",
            "CIDR",
            "",
            "Subnet in which they get their private address.",
        ),
        (_BALANCER + "USES_PROXYPROTOCOL", "boolean", "", "Speak the PROXY protocol to nodes."),
        (
            _BALANCER + "HEALTH_CHECK_INTERVAL",
            "duration",
            "",
            "Between two checks, 3s to 60s; not set or 0: the API's default.",
        ),
        (
            _BALANCER + "HEALTH_CHECK_TIMEOUT",
            "duration",
            "",
            "Of a check, 1s to 60s; not set or 0: the API's default.",
        ),
        (
            _BALANCER + "HEALTH_CHECK_RETRIES",
            "number",
            "",
            "Failed checks in a row, 1 to 5; not set or 0: the API's default.",
        ),
        (
            "CCM_CLUSTER_ID",
            "text",
            "",
            "Marks load balancers as this cluster's, where several share a project. Never change it.",
        ),
    ),
    *_group(
        "Namespaces (names with commas, or `*`; not set: a Service gets what is its namespace's)",
        (
            "CCM_ADOPT_NAMESPACES",
            "text",
            "",
            "Whose Services may `adopt` load balancers that are nobody's.",
        ),
        (
            "CCM_SHARE_NAMESPACES",
            "text",
            "",
            "Whose Services may `share` load balancers with each other, across namespaces.",
        ),
        (
            "CCM_CERTIFICATE_NAMESPACES",
            "text",
            "",
            "Whose Services may use certificates with the label of another owner.",
        ),
    ),
    *_group(
        "Safety",
        (
            "CCM_MASS_DELETION_BREAKER",
            "boolean",
            "true",
            "The manager sets it as `--mass-deletion-breaker` says, whatever the environment has.",
        ),
        (
            "CCM_DRY_RUN",
            "boolean",
            "false",
            "`python -m ccm plan` sets it: no metrics are served, and any machine will do.",
        ),
    ),
)
