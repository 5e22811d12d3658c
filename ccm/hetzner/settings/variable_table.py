"""The table of environment variables, for the parser, the documentation and ``/configz``."""

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
    """One variable."""

    group: str
    name: str
    kind: Kind
    meaning: str  # in a sentence or two
    default: str = ""  # as a text; empty = no default

    @property
    def ours(self) -> bool:
        """Whether the official CCM doesn't have this variable."""
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
                "The API token of the project, with read and write permission. Set either this variable "
                "or `HCLOUD_TOKEN_FILE`. If the token doesn't have 64 characters, the CCM logs a warning."
            ),
        ),
        ("HCLOUD_ENDPOINT", URL, "The base URL of the Cloud API.", "https://api.hetzner.cloud/v1"),
        ("HCLOUD_DEBUG", BOOLEAN, "Log each request and its response, without the token.", "false"),
    ),
    *_group(
        "Private network",
        (
            "HCLOUD_NETWORK",
            TEXT,
            (
                "The name or ID of the private network. If you set a network, Nodes get internal addresses, "
                "load balancers are attached to the network, and the route controller can run."
            ),
        ),
        (
            "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK",
            BOOLEAN,
            "Start even if the CCM doesn't run on a Hetzner server in the network.",
            "false",
        ),
        (
            "HCLOUD_NETWORK_ROUTES_ENABLED",
            BOOLEAN,
            "Run the route controller, if `HCLOUD_NETWORK` is set.",
            "true",
        ),
    ),
    *_group(
        "Metrics",
        (
            "HCLOUD_METRICS_ENABLED",
            BOOLEAN,
            (
                "Serve metrics without authentication on `HCLOUD_METRICS_ADDRESS`, in addition to the "
                "metrics on `--secure-port`. The default is true for the provider `hcloud`, and false for "
                "`ccm-from-scratch`."
            ),
        ),
        (
            "HCLOUD_METRICS_ADDRESS",
            ADDRESS,
            "The address on which the CCM serves metrics, without TLS and without authentication.",
            ":8233",
        ),
    ),
    *_group(
        "Nodes",
        (
            "HCLOUD_INSTANCES_ADDRESS_FAMILY",
            one_of("ipv4", "ipv6", "dualstack"),
            "The IP families of the public addresses that the CCM adds to Nodes.",
            "ipv4",
        ),
        (
            "HCLOUD_INSTANCES_ZONE_LABEL_ENABLED",
            BOOLEAN,
            "Set zone labels on Nodes. Nodes of Robot servers always have zone labels.",
            "true",
        ),
        (
            "HCLOUD_INSTANCES_COPY_LABELS",
            WORDS,
            (
                "The keys of the server labels that the CCM copies to Nodes, as a comma-separated list. "
                "The CCM doesn't overwrite a label that another client set on a Node."
            ),
        ),
        (
            "CCM_NODE_NAME_CHECK",
            BOOLEAN,
            (
                "Check that a Node belongs to its server before the Node gets routes and traffic. The "
                "name of the Node must be the server's name, or the value of the server's label "
                "`ccm-from-scratch/node`."
            ),
            "true",
        ),
        (
            "HCLOUD_SERVER_CACHE_MODE",
            one_of("all", "one", "off"),
            (
                "With `off`, the CCM requests current data for each check of Nodes. It requests single "
                "servers, or the whole list if the list needs fewer requests. `all` and `one` have the same "
                "effect: the CCM uses cached data up to the maximum age. This variable doesn't affect routes "
                "and load balancers."
            ),
            "all",
        ),
        (
            "HCLOUD_SERVER_CACHE_MAX_AGE",
            DURATION,
            "The maximum age of cached server data for checks of Nodes. The default depends on the check.",
        ),
    ),
    *_group(
        "Robot",
        (
            "ROBOT_ENABLED",
            BOOLEAN,
            "Support dedicated servers. You can't use the route controller together with dedicated servers.",
            "false",
        ),
        (
            "ROBOT_USER",
            SECRET,
            "The user of Robot's web service. The CCM uses Robot only if you set a user and a password.",
        ),
        ("ROBOT_PASSWORD", SECRET, "The password of `ROBOT_USER`."),
        ("ROBOT_ENDPOINT", URL, "The base URL of Robot's web service.", "https://robot-ws.your-server.de"),
        (
            "ROBOT_CACHE_TIMEOUT",
            DURATION,
            "The time for which the CCM caches Robot's list of servers. 0 means 5 minutes.",
            "5m0s",
        ),
        (
            "ROBOT_RATE_LIMIT_WAIT_TIME",
            DURATION,
            "The time that the CCM waits after it exceeds Robot's request limit. `0s` means one minute.",
            "0s",
        ),
        (
            "ROBOT_FORWARD_INTERNAL_IPS",
            BOOLEAN,
            "Keep the internal addresses that the kubelets of dedicated servers report.",
            "true",
        ),
    ),
    *_group(
        "Load balancers (defaults for Services without the corresponding annotation)",
        (_BALANCER + "ENABLED", BOOLEAN, "Manage load balancers for Services of type LoadBalancer.", "true"),
        (
            _BALANCER + "LOCATION",
            TEXT,
            "The location of a new load balancer. You can't set both a location and a network zone.",
        ),
        (
            _BALANCER + "NETWORK_ZONE",
            TEXT,
            "The network zone of a new load balancer. You can't set both a location and a network zone.",
        ),
        (
            _BALANCER + "TYPE",
            TEXT,
            "The type of a load balancer. If unset, the type is `lb11`, which is the smallest type.",
        ),
        (
            _BALANCER + "ALGORITHM_TYPE",
            one_of("round_robin", "least_connections", any_case=True),
            "The algorithm of a load balancer. If unset, the algorithm is `round_robin`.",
        ),
        (
            _BALANCER + "DISABLE_PRIVATE_INGRESS",
            BOOLEAN,
            "Omit private addresses from the status of Services.",
            "false",
        ),
        (_BALANCER + "USE_PRIVATE_IP", BOOLEAN, "Send traffic to the private addresses of nodes.", "false"),
        (_BALANCER + "DISABLE_IPV6", BOOLEAN, "Omit IPv6 addresses from the status of Services.", "false"),
        (
            _BALANCER + "DISABLE_PUBLIC_NETWORK",
            BOOLEAN,
            (
                "Disable (true) or enable (false) the public interface. If unset, the CCM doesn't "
                "change the interface."
            ),
        ),
        (
            _BALANCER + "PRIVATE_SUBNET_IP_RANGE",
            CIDR,
            "The subnet in which load balancers get their private address.",
        ),
        (_BALANCER + "USES_PROXYPROTOCOL", BOOLEAN, "Send the header of the PROXY protocol to nodes."),
        (
            _BALANCER + "HEALTH_CHECK_INTERVAL",
            seconds_within(3, 60),
            (
                "The time between health checks, 3s to 60s. If unset or 0, the CCM uses the default of "
                "Hetzner's API."
            ),
        ),
        (
            _BALANCER + "HEALTH_CHECK_TIMEOUT",
            seconds_within(1, 60),
            (
                "The timeout of a health check, 1s to 60s. If unset or 0, the CCM uses the default of "
                "Hetzner's API."
            ),
        ),
        (
            _BALANCER + "HEALTH_CHECK_RETRIES",
            number_within(1, 5),
            (
                "The number of failed health checks after which a target is unhealthy, 1 to 5. If unset "
                "or 0, the CCM uses the default of Hetzner's API."
            ),
        ),
        (
            "CCM_CLUSTER_ID",
            TEXT,
            (
                "The ID that identifies the load balancers of this cluster, if several clusters use the same "
                "project. Don't change the ID after you set it."
            ),
        ),
    ),
    *_group(
        "Unsupported fields of Services",
        (
            "CCM_REFUSE_SOURCE_RANGES",
            BOOLEAN,
            (
                "Don't create load balancers for Services with `loadBalancerSourceRanges`, because Hetzner "
                "doesn't support source ranges."
            ),
            "false",
        ),
    ),
    *_group(
        "Namespaces (comma-separated names, `*` for all, `-` for none; if empty, no namespace)",
        (
            "CCM_ADOPT_NAMESPACES",
            NAMESPACES,
            "The namespaces whose Services may use `adopt` to take over load balancers that have no owner.",
        ),
        (
            "CCM_SHARE_NAMESPACES",
            NAMESPACES,
            "The namespaces whose Services may share load balancers with each other (annotation `share`).",
        ),
        (
            "CCM_CERTIFICATE_NAMESPACES",
            NAMESPACES,
            "The namespaces whose Services may use certificates whose labels name another owner.",
        ),
        (
            "CCM_UNLABELLED_CERTIFICATE_NAMESPACES",
            NAMESPACES,
            "The namespaces whose Services may use certificates that have no owner label.",
            "*",
        ),
        (
            "CCM_UNLABELLED_PRIMARY_IP_NAMESPACES",
            NAMESPACES,
            "The namespaces whose Services may use Primary IPs that have no namespace label.",
            "*",
        ),
        (
            "CCM_PROTECTION_NAMESPACES",
            NAMESPACES,
            (
                "The namespaces whose Services may use `delete-protection`. A protected load balancer "
                "remains after its Service is deleted."
            ),
            "*",
        ),
        (
            "CCM_PRIVATE_IPV4_NAMESPACES",
            NAMESPACES,
            "The namespaces whose Services may use `private-ipv4` to choose any free address of the network.",
            "*",
        ),
    ),
    *_group(
        "Safety",
        (
            MASS_DELETION_BREAKER,
            BOOLEAN,
            "The CCM sets this variable to the value of `--mass-deletion-breaker`, and ignores your value.",
            "true",
        ),
        (
            DRY_RUN,
            BOOLEAN,
            (
                "Only `python -m ccm plan` sets this variable to true. This command serves no metrics, and "
                "its machine can be outside the network. If you set the variable, the value has no "
                "effect."
            ),
            "false",
        ),
    ),
)
