"""All flags of upstream's cloud-controller-manager with name, type and default, and our own flags.

Flags in ``NO_EFFECT`` are accepted only for compatibility with existing command lines. If one is set, the log
contains a warning.
"""

from collections.abc import Iterable, Sequence

from ccm.manager.flags.parser import BOOL, DURATION, FLOAT, INT, INTS, STRING, STRINGS, SWITCHES, Flag, Kind

NO_EFFECT = "Accepted for compatibility, but ignored."
# Name, kind, text, and the default if it isn't the kind's empty value.
_Row = tuple[str, Kind, str] | tuple[str, Kind, str, object]


def _group(group: str, *rows: _Row) -> tuple[Flag, ...]:
    return tuple(
        Flag(name, kind, default[0] if default else kind.empty, group, text)
        for name, kind, text, *default in rows
    )


_GENERIC = _group(
    "Generic",
    (
        "allocate-node-cidrs",
        BOOL,
        "If true and --cluster-cidr isn't set, the CCM logs a warning that it creates no routes.",
    ),
    ("allow-untagged-cloud", BOOL, "Run even if the cloud provider has no cluster ID."),
    ("cidr-allocator-type", STRING, NO_EFFECT, "RangeAllocator"),
    (
        "cloud-provider",
        STRING,
        "The cloud provider: ccm-from-scratch, hcloud, or the name of an installed provider.",
    ),
    ("cloud-config", STRING, NO_EFFECT),
    (
        "cluster-cidr",
        STRING,
        "The Pod CIDR of the cluster. The CCM creates, replaces and deletes only routes within this CIDR.",
    ),
    (
        "cluster-name",
        STRING,
        "The cluster name in /configz. Labels of cloud objects contain CCM_CLUSTER_ID, but not this name.",
        "kubernetes",
    ),
    (
        "configure-cloud-routes",
        BOOL,
        "Run the route controller. The route controller requires --cluster-cidr.",
        True,
    ),
    ("controller-start-interval", DURATION, "The delay between the starts of consecutive controllers."),
    (
        "controllers",
        STRINGS,
        "The controllers to run. '*' enables all, 'foo' enables foo, and '-foo' disables foo.",
        ("*",),
    ),
    ("external-cloud-volume-plugin", STRING, NO_EFFECT),
    (
        "feature-gates",
        SWITCHES,
        (
            "Feature gates, as Name=true or Name=false. You can change only "
            "CloudControllerManagerWatchBasedRoutesReconciliation. "
            "ControllerManagerReleaseLeaderElectionLockOnExit is always true. "
            "All other feature gates have no effect."
        ),
    ),
    ("kube-api-burst", INT, "The maximum size of a burst of requests that exceeds --kube-api-qps.", 30),
    (
        "kube-api-qps",
        FLOAT,
        (
            "The maximum number of requests per second that the controllers send to the API server. If "
            "neither this flag nor --kube-api-burst is set, the CCM doesn't limit its requests."
        ),
        20.0,
    ),
    ("kube-api-content-type", STRING, NO_EFFECT, "application/vnd.kubernetes.protobuf"),
    ("leader-elect", BOOL, "Elect a leader, so that only one of several replicas is active.", True),
    (
        "leader-elect-lease-duration",
        DURATION,
        "The time after which another replica may take over a lease that wasn't renewed.",
        15.0,
    ),
    (
        "leader-elect-renew-deadline",
        DURATION,
        "If the leader can't renew the lease within this time, the leader exits.",
        10.0,
    ),
    ("leader-elect-retry-period", DURATION, "The time between attempts to get or renew the lease.", 2.0),
    ("leader-elect-resource-lock", STRING, "The type of the lock object: always leases.", "leases"),
    ("leader-elect-resource-name", STRING, "The name of the lease.", "cloud-controller-manager"),
    ("leader-elect-resource-namespace", STRING, "The namespace of the lease.", "kube-system"),
    (
        "min-resync-period",
        DURATION,
        (
            "The minimum time between two reconciliations of all objects. The CCM chooses a random time "
            "between this value and twice this value."
        ),
        43200.0,
    ),
    ("node-monitor-period", DURATION, "The time between checks of nodes that aren't Ready.", 5.0),
    ("node-sync-period", DURATION, NO_EFFECT),
    ("route-reconciliation-period", DURATION, "The time between checks of the routes.", 10.0),
    ("use-service-account-credentials", BOOL, NO_EFFECT),
)
_CONTROLLERS = (
    *_group(
        "Leader migration",
        ("enable-leader-migration", BOOL, "Not supported."),
        ("leader-migration-config", STRING, "Not supported."),
    ),
    *_group("Debugging", ("profiling", BOOL, NO_EFFECT, True), ("contention-profiling", BOOL, NO_EFFECT)),
    *_group(
        "Node controller",
        (
            "concurrent-node-syncs",
            INT,
            (
                "The maximum number of nodes that the CCM initializes at the same time. If you don't set the "
                "flag, the CCM uses 10."
            ),
            1,
        ),
        (
            "concurrent-node-status-updates",
            INT,
            (
                "The maximum number of nodes that the CCM refreshes at the same time. With 0, the CCM "
                "uses the value of --concurrent-node-syncs."
            ),
        ),
        (
            "node-status-update-frequency",
            DURATION,
            (
                "The time between refreshes of all nodes. In a cluster with more than 500 nodes, the CCM "
                "requests the list of servers only for every second or third refresh."
            ),
            300.0,
        ),
        (
            "refresh-node-labels",
            BOOL,
            (
                "Update the labels for type, zone and region when a server changes. By default, the labels "
                "are set once, as in upstream."
            ),
        ),
    ),
    *_group(
        "Route controller",
        (
            "additional-route-cidrs",
            STRINGS,
            "Additional Pod CIDRs. The CCM also creates, replaces and deletes routes within these CIDRs.",
        ),
    ),
    *_group(
        "Node lifecycle controller",
        (
            "concurrent-node-lifecycle-syncs",
            INT,
            "The maximum number of nodes that the CCM checks at the same time.",
            1,
        ),
        (
            "node-deletion-confirmations",
            INT,
            (
                "The number of consecutive API requests that must report a server as missing before the "
                "CCM deletes its Node. In upstream, the number is 1."
            ),
            2,
        ),
        (
            "node-out-of-service-taint",
            BOOL,
            (
                "Add the out-of-service taint to Nodes of servers that are off, so that their Pods and "
                "volumes move to other Nodes."
            ),
        ),
        (
            "delete-nodes-without-provider-id",
            BOOL,
            "Also delete a Node that has no provider ID, if the Node's server doesn't exist.",
        ),
        (
            "mass-deletion-breaker",
            BOOL,
            "Don't delete anything while most objects seem to be missing in the cloud.",
            True,
        ),
    ),
    *_group(
        "Service controller",
        (
            "concurrent-service-syncs",
            INT,
            (
                "The maximum number of Services that the CCM reconciles at the same time. Deleted Services "
                "count separately, with the same limit."
            ),
            1,
        ),
        (
            "service-resync-period",
            DURATION,
            "The time between checks for drift. With 0, the CCM never checks.",
            300.0,
        ),
        ("services-without-class", BOOL, "Process Services without a loadBalancerClass.", True),
        ("load-balancer-classes", STRINGS, "The values of loadBalancerClass that the CCM processes."),
    ),
    *_group(
        "Webhook",
        ("webhooks", STRINGS, "Not supported."),
        ("webhook-bind-address", STRING, NO_EFFECT, "0.0.0.0"),  # noqa: S104 - upstream's default
        ("webhook-secure-port", INT, NO_EFFECT, 10260),
        ("webhook-cert-dir", STRING, NO_EFFECT),
        ("webhook-tls-cert-file", STRING, NO_EFFECT),
        ("webhook-tls-private-key-file", STRING, NO_EFFECT),
        ("webhook-tls-cipher-suites", STRINGS, NO_EFFECT),
        ("webhook-tls-curve-preferences", INTS, NO_EFFECT),
        ("webhook-tls-min-version", STRING, NO_EFFECT),
        ("webhook-tls-sni-cert-key", STRINGS, NO_EFFECT),
        ("webhook-disable-http2-serving", BOOL, NO_EFFECT),
    ),
)
_SERVING = (
    *_group(
        "Secure serving",
        ("bind-address", STRING, "The address on which the CCM listens.", "0.0.0.0"),  # noqa: S104 - upstream's default
        ("secure-port", INT, "The port for health checks and metrics. With 0, the CCM opens no port.", 10258),
        (
            "cert-dir",
            STRING,
            "The folder with cloud-controller-manager.crt and cloud-controller-manager.key.",
        ),
        (
            "tls-cert-file",
            STRING,
            "The certificate file. By default, the CCM creates a certificate for localhost in memory.",
        ),
        ("tls-private-key-file", STRING, "The file with the key of the certificate in --tls-cert-file."),
        (
            "tls-cipher-suites",
            STRINGS,
            "The IANA names of the allowed cipher suites. TLS 1.3 ignores this flag.",
        ),
        ("tls-curve-preferences", INTS, NO_EFFECT),
        ("tls-min-version", STRING, "The minimum TLS version: VersionTLS12 (default) or VersionTLS13."),
        ("tls-sni-cert-key", STRINGS, "Not supported."),
        ("http2-max-streams-per-connection", INT, NO_EFFECT),
        ("disable-http2-serving", BOOL, NO_EFFECT),
        (
            "permit-port-sharing",
            BOOL,
            "Listen with SO_REUSEPORT, so that several processes can share the port.",
        ),
        ("permit-address-sharing", BOOL, "The CCM accepts this flag, but always sets SO_REUSEADDR."),
    ),
    *_group(
        "Authentication",
        (
            "authentication-kubeconfig",
            STRING,
            "The kubeconfig file for token reviews. The default is the value of --kubeconfig.",
        ),
        ("authentication-skip-lookup", BOOL, "Don't read the CA for client certificates from a ConfigMap."),
        (
            "authentication-token-webhook-cache-ttl",
            DURATION,
            "The time for which the CCM caches a token review.",
            10.0,
        ),
        ("authentication-tolerate-lookup-failure", BOOL, NO_EFFECT),
        ("client-ca-file", STRING, "The file with the CA certificates for client certificates."),
        ("requestheader-allowed-names", STRINGS, NO_EFFECT),
        ("requestheader-client-ca-file", STRING, NO_EFFECT),
        ("requestheader-username-headers", STRINGS, NO_EFFECT, ("x-remote-user",)),
        ("requestheader-uid-headers", STRINGS, NO_EFFECT),
        ("requestheader-group-headers", STRINGS, NO_EFFECT, ("x-remote-group",)),
        ("requestheader-extra-headers-prefix", STRINGS, NO_EFFECT, ("x-remote-extra-",)),
    ),
    *_group(
        "Authorization",
        (
            "authorization-kubeconfig",
            STRING,
            "The kubeconfig file for access reviews. The default is the value of --kubeconfig.",
        ),
        (
            "authorization-always-allow-paths",
            STRINGS,
            "The HTTP paths that the CCM serves to all clients without authentication or authorization.",
            ("/healthz", "/readyz", "/livez"),
        ),
        (
            "authorization-webhook-cache-authorized-ttl",
            DURATION,
            "The time for which the CCM caches the decision to allow a request.",
            10.0,
        ),
        (
            "authorization-webhook-cache-unauthorized-ttl",
            DURATION,
            "The time for which the CCM caches the decision to deny a request.",
            10.0,
        ),
    ),
)
_MISC = (
    *_group(
        "Misc",
        ("master", STRING, "The URL of the API server. This flag takes precedence over the kubeconfig."),
        (
            "kubeconfig",
            STRING,
            "The kubeconfig file. By default, the CCM uses the Pod's service account.",
        ),
    ),
    Flag("v", INT, 0, "Global", "The verbosity of the log. Use 4 or more for debugging.", short="v"),
    *_group(
        "Global",
        ("vmodule", STRING, NO_EFFECT),
        ("log-flush-frequency", DURATION, NO_EFFECT, 5.0),
        ("logging-format", STRING, "The format of the log: text or json.", "text"),
        ("log-text-split-stream", BOOL, NO_EFFECT),
        ("log-text-info-buffer-size", STRING, NO_EFFECT, "0"),
        ("log-json-split-stream", BOOL, NO_EFFECT),
        ("log-json-info-buffer-size", STRING, NO_EFFECT, "0"),
        ("version", BOOL, "Print the version and exit."),
    ),
    Flag("help", BOOL, False, "Global", "Print this help and exit.", short="h"),
)

FLAGS: tuple[Flag, ...] = (*_GENERIC, *_CONTROLLERS, *_SERVING, *_MISC)


NODE = "cloud-node-controller"
NODE_LIFECYCLE = "cloud-node-lifecycle-controller"
SERVICE = "service-lb-controller"
ROUTE = "node-route-controller"

# In the order of the start: Nodes first, because load balancers and routes need them.
CONTROLLERS = (NODE, NODE_LIFECYCLE, SERVICE, ROUTE)
ALIASES = {"cloud-node": NODE, "cloud-node-lifecycle": NODE_LIFECYCLE, "service": SERVICE, "route": ROUTE}


def canonical(entry: str) -> str:
    """Replace an old name in an entry of ``--controllers``; a leading ``-`` stays."""
    minus, name = ("-", entry[1:]) if entry.startswith("-") else ("", entry)
    return minus + ALIASES.get(name, name)


def unknown(entries: Iterable[str], known: Sequence[str] = CONTROLLERS) -> list[str]:
    """An error message for each entry that isn't the name of a controller."""
    names = (entry.removeprefix("-") for entry in map(canonical, entries))
    return [
        f'--controllers: "{name}" is not in the list of known controllers: {", ".join(known)}'
        for name in names
        if name != "*" and name not in known
    ]


def is_enabled(name: str, entries: Sequence[str]) -> bool:
    """Whether ``--controllers`` enables a controller: the first entry with its name counts, or else ``*``."""
    for entry in map(canonical, entries):
        if entry == name:
            return True
        if entry == f"-{name}":
            return False
    return "*" in entries
