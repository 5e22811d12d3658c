"""Every flag of upstream's cloud-controller-manager, with its name, type and default, and few of our own.

Some flags are accepted only so that existing command lines keep working; they have nothing to do in this
manager (``NO_EFFECT``), which the log says when one is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ccm.manager.flags.parser import BOOL, DURATION, FLOAT, INT, INTS, STRING, STRINGS, SWITCHES, Flag, Kind

NO_EFFECT = "Accepted for compatibility; has no effect here."
# Name, kind, text, and the default where it is not the kind's empty one.
_Row = tuple[str, Kind, str] | tuple[str, Kind, str, object]


def _group(group: str, *rows: _Row) -> tuple[Flag, ...]:
    return tuple(
        Flag(name, kind, default[0] if default else kind.empty, group, text)
        for name, kind, text, *default in rows
    )


_GENERIC = _group(
    "Generic",
    ("allocate-node-cidrs", BOOL, "Whether nodes get Pod CIDRs; requires --cluster-cidr."),
    ("allow-untagged-cloud", BOOL, "Run even if the cloud has no cluster ID."),
    ("cidr-allocator-type", STRING, NO_EFFECT, "RangeAllocator"),
    ("cloud-provider", STRING, "Name of the cloud: ccm-from-scratch, hcloud, or an installed one."),
    ("cloud-config", STRING, NO_EFFECT),
    ("cluster-cidr", STRING, "CIDR of the Pods; only routes within it are created, replaced or deleted."),
    (
        "cluster-name",
        STRING,
        "Shown in /configz; objects in the cloud are labeled with CCM_CLUSTER_ID.",
        "kubernetes",
    ),
    (
        "configure-cloud-routes",
        BOOL,
        "Whether the route controller runs, if there is a --cluster-cidr.",
        True,
    ),
    ("controller-start-interval", DURATION, "Pause between the starts of two controllers."),
    ("controllers", STRINGS, "Controllers to run: '*' all, 'foo' this one, '-foo' not this one.", ("*",)),
    ("external-cloud-volume-plugin", STRING, NO_EFFECT),
    (
        "feature-gates",
        SWITCHES,
        (
            "Name=true|false pairs. CloudControllerManagerWatchBasedRoutesReconciliation counts; "
            "ControllerManagerReleaseLeaderElectionLockOnExit is always on; others have no effect."
        ),
    ),
    ("kube-api-burst", INT, "Requests at once beyond --kube-api-qps.", 30),
    (
        "kube-api-qps",
        FLOAT,
        "Requests a second of the controllers; if not given, only the API server's flow control applies.",
        20.0,
    ),
    ("kube-api-content-type", STRING, NO_EFFECT, "application/vnd.kubernetes.protobuf"),
    ("leader-elect", BOOL, "Only one of several replicas is active.", True),
    (
        "leader-elect-lease-duration",
        DURATION,
        "Time after which another replica may take an unchanged lease.",
        15.0,
    ),
    (
        "leader-elect-renew-deadline",
        DURATION,
        "Time after which a leader that can't renew its lease exits.",
        10.0,
    ),
    ("leader-elect-retry-period", DURATION, "Pause between attempts to get or renew the lease.", 2.0),
    ("leader-elect-resource-lock", STRING, "Only leases.", "leases"),
    ("leader-elect-resource-name", STRING, "Name of the lease.", "cloud-controller-manager"),
    ("leader-elect-resource-namespace", STRING, "Namespace of the lease.", "kube-system"),
    (
        "min-resync-period",
        DURATION,
        "Minimum period in which all objects are reconciled again; the actual one is 1 to 2 times as long.",
        43200.0,
    ),
    ("node-monitor-period", DURATION, "Pause between checks of nodes that aren't Ready.", 5.0),
    ("node-sync-period", DURATION, NO_EFFECT),
    ("route-reconciliation-period", DURATION, "Pause between checks of the routes.", 10.0),
    ("use-service-account-credentials", BOOL, NO_EFFECT),
)
_CONTROLLERS = (
    *_group(
        "Leader migration",
        ("enable-leader-migration", BOOL, "Not offered."),
        ("leader-migration-config", STRING, "Not offered."),
    ),
    *_group("Debugging", ("profiling", BOOL, NO_EFFECT, True), ("contention-profiling", BOOL, NO_EFFECT)),
    *_group(
        "Node controller",
        ("concurrent-node-syncs", INT, "Nodes that are initialized at the same time; if not given, 10.", 1),
        (
            "concurrent-node-status-updates",
            INT,
            "Nodes that are refreshed at the same time; 0: as many as syncs.",
        ),
        (
            "node-status-update-frequency",
            DURATION,
            "Pause between refreshes of all nodes; above 500 nodes, two or three use one list of servers.",
            300.0,
        ),
        (
            "refresh-node-labels",
            BOOL,
            "Update type, zone and region labels when a machine changes; false: set once, as upstream.",
        ),
    ),
    *_group(
        "Route controller",
        ("additional-route-cidrs", STRINGS, "More ranges for Pods, in addition to --cluster-cidr."),
    ),
    *_group(
        "Node lifecycle controller",
        ("concurrent-node-lifecycle-syncs", INT, "Nodes looked at at once.", 1),
        (
            "node-deletion-confirmations",
            INT,
            "How often the cloud must report a machine as missing; 1 as upstream.",
            2,
        ),
        ("node-out-of-service-taint", BOOL, "Free volumes and Pods of machines that are shut down."),
        ("delete-nodes-without-provider-id", BOOL, "Also delete nodes that never had a machine."),
        (
            "mass-deletion-breaker",
            BOOL,
            "Delete nothing while most or all objects are missing at the same time; false deletes.",
            True,
        ),
    ),
    *_group(
        "Service controller",
        (
            "concurrent-service-syncs",
            INT,
            "Services that are reconciled at the same time, and as many that are deleted.",
            1,
        ),
        ("service-resync-period", DURATION, "Pause between checks for drift; 0: never.", 300.0),
        ("services-without-class", BOOL, "Whether to process Services without a loadBalancerClass.", True),
        ("load-balancer-classes", STRINGS, "Values of loadBalancerClass to process."),
    ),
    *_group(
        "Webhook",
        ("webhooks", STRINGS, "Not offered."),
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
        ("bind-address", STRING, "Address to listen on.", "0.0.0.0"),  # noqa: S104 - upstream's default
        ("secure-port", INT, "Port of health and metrics; 0: none.", 10258),
        ("cert-dir", STRING, "Folder of cloud-controller-manager.crt and .key."),
        ("tls-cert-file", STRING, "Certificate; if not given, one for localhost is created in memory."),
        ("tls-private-key-file", STRING, "Private key of --tls-cert-file."),
        ("tls-cipher-suites", STRINGS, "Cipher suites up to TLS 1.2, by their IANA names."),
        ("tls-curve-preferences", INTS, NO_EFFECT),
        ("tls-min-version", STRING, "VersionTLS12 (default) or VersionTLS13."),
        ("tls-sni-cert-key", STRINGS, "Not offered."),
        ("http2-max-streams-per-connection", INT, NO_EFFECT),
        ("disable-http2-serving", BOOL, NO_EFFECT),
        ("permit-port-sharing", BOOL, "Listen with SO_REUSEPORT."),
        ("permit-address-sharing", BOOL, "SO_REUSEADDR is always set here, as Go does."),
    ),
    *_group(
        "Authentication",
        ("authentication-kubeconfig", STRING, "Kubeconfig for token reviews; default: --kubeconfig."),
        ("authentication-skip-lookup", BOOL, "Don't read the client CA from the cluster."),
        ("authentication-token-webhook-cache-ttl", DURATION, "How long a token review is cached.", 10.0),
        ("authentication-tolerate-lookup-failure", BOOL, NO_EFFECT),
        ("client-ca-file", STRING, "CA of accepted client certificates."),
        ("requestheader-allowed-names", STRINGS, NO_EFFECT),
        ("requestheader-client-ca-file", STRING, NO_EFFECT),
        ("requestheader-username-headers", STRINGS, NO_EFFECT, ("x-remote-user",)),
        ("requestheader-uid-headers", STRINGS, NO_EFFECT),
        ("requestheader-group-headers", STRINGS, NO_EFFECT, ("x-remote-group",)),
        ("requestheader-extra-headers-prefix", STRINGS, NO_EFFECT, ("x-remote-extra-",)),
    ),
    *_group(
        "Authorization",
        ("authorization-kubeconfig", STRING, "Kubeconfig for access reviews; default: --kubeconfig."),
        (
            "authorization-always-allow-paths",
            STRINGS,
            "Paths that all clients may read.",
            ("/healthz", "/readyz", "/livez"),
        ),
        (
            "authorization-webhook-cache-authorized-ttl",
            DURATION,
            "How long an allowed access is cached.",
            10.0,
        ),
        (
            "authorization-webhook-cache-unauthorized-ttl",
            DURATION,
            "How long a denied access is cached.",
            10.0,
        ),
    ),
)
_MISC = (
    *_group(
        "Misc",
        ("master", STRING, "URL of the API server; takes precedence over the kubeconfig."),
        ("kubeconfig", STRING, "If not given, the Pod's service account."),
    ),
    Flag("v", INT, 0, "Global", "Verbosity of the log; 4 and more for debugging.", short="v"),
    *_group(
        "Global",
        ("vmodule", STRING, NO_EFFECT),
        ("log-flush-frequency", DURATION, NO_EFFECT, 5.0),
        ("logging-format", STRING, "text or json.", "text"),
        ("log-text-split-stream", BOOL, NO_EFFECT),
        ("log-text-info-buffer-size", STRING, NO_EFFECT, "0"),
        ("log-json-split-stream", BOOL, NO_EFFECT),
        ("log-json-info-buffer-size", STRING, NO_EFFECT, "0"),
        ("version", BOOL, "Print the version and end."),
    ),
    Flag("help", BOOL, False, "Global", "Print this and end.", short="h"),
)

FLAGS: tuple[Flag, ...] = (*_GENERIC, *_CONTROLLERS, *_SERVING, *_MISC)


NODE = "cloud-node-controller"
NODE_LIFECYCLE = "cloud-node-lifecycle-controller"
SERVICE = "service-lb-controller"
ROUTE = "node-route-controller"

# In the order in which they start: nodes first, since load balancers and routes need them.
CONTROLLERS = (NODE, NODE_LIFECYCLE, SERVICE, ROUTE)
ALIASES = {"cloud-node": NODE, "cloud-node-lifecycle": NODE_LIFECYCLE, "service": SERVICE, "route": ROUTE}


def canonical(entry: str) -> str:
    """An entry of ``--controllers`` with an old name replaced; a leading ``-`` stays."""
    minus, name = ("-", entry[1:]) if entry.startswith("-") else ("", entry)
    return minus + ALIASES.get(name, name)


def unknown(entries: Iterable[str], known: Sequence[str] = CONTROLLERS) -> list[str]:
    """A sentence for each entry that names no controller."""
    names = (entry.removeprefix("-") for entry in map(canonical, entries))
    return [
        f'--controllers: "{name}" is not in the list of known controllers: {", ".join(known)}'
        for name in names
        if name != "*" and name not in known
    ]


def is_enabled(name: str, entries: Sequence[str]) -> bool:
    """Whether a controller runs: the first entry that names it decides, else ``*`` does.

    ``entries`` are those of ``--controllers``.
    """
    for entry in map(canonical, entries):
        if entry == name:
            return True
        if entry == f"-{name}":
            return False
    return "*" in entries
