"""Every flag of upstream's cloud-controller-manager, with its name, type and default, and few of our own.

Some flags are accepted only so that existing command lines keep working; they have nothing to do in this
manager (``NO_EFFECT``), which the log says when one is given.
"""

from __future__ import annotations

from ccm.manager.flags.parser import BOOL, DURATION, FLOAT, INT, INTS, STRING, STRINGS, SWITCHES, Flag, Kind

NO_EFFECT = "Accepted for compatibility; has no effect here."
_Row = tuple[str, Kind, object, str]


def _group(group: str, *rows: _Row) -> tuple[Flag, ...]:
    return tuple(Flag(name, kind, default, group, text) for name, kind, default, text in rows)


_GENERIC = _group(
    "Generic",
    (
        "allocate-node-cidrs",
        BOOL,
        False,
        "Whether somebody gives Pod CIDRs to nodes; then --cluster-cidr is needed.",
    ),
    ("allow-untagged-cloud", BOOL, False, "Run although the cloud has no cluster id to mark things with."),
    ("cidr-allocator-type", STRING, "RangeAllocator", NO_EFFECT),
    ("cloud-provider", STRING, "", "Name of the cloud: ccm-from-scratch, hcloud, or an installed one."),
    ("cloud-config", STRING, "", NO_EFFECT),
    ("cluster-cidr", STRING, "", "CIDR of the Pods; only routes within it, or to a node's own, are touched."),
    ("cluster-name", STRING, "kubernetes", "Shown in /configz; what is made is marked with CCM_CLUSTER_ID."),
    (
        "configure-cloud-routes",
        BOOL,
        True,
        "Whether the route controller runs, if there is a --cluster-cidr.",
    ),
    ("controller-start-interval", DURATION, 0.0, "Pause between the starts of two controllers."),
    ("controllers", STRINGS, ("*",), "What runs: '*' all, 'foo' this one, '-foo' not this one."),
    ("external-cloud-volume-plugin", STRING, "", NO_EFFECT),
    ("feature-gates", SWITCHES, {}, "Name=true|false pairs."),
    ("kube-api-burst", INT, 30, "Requests at once beyond --kube-api-qps."),
    (
        "kube-api-qps",
        FLOAT,
        20.0,
        "Requests a second; if not given, the API server's own flow control rules.",
    ),
    ("kube-api-content-type", STRING, "application/vnd.kubernetes.protobuf", NO_EFFECT),
    ("leader-elect", BOOL, True, "Of several replicas let only one work."),
    ("leader-elect-lease-duration", DURATION, 15.0, "After so long an unchanged lease may be taken over."),
    ("leader-elect-renew-deadline", DURATION, 10.0, "A leader that could not renew for so long gives up."),
    ("leader-elect-retry-period", DURATION, 2.0, "Pause between two tries to get or renew the lease."),
    ("leader-elect-resource-lock", STRING, "leases", "Only leases."),
    ("leader-elect-resource-name", STRING, "cloud-controller-manager", "Name of the lease."),
    ("leader-elect-resource-namespace", STRING, "kube-system", "Namespace of the lease."),
    ("min-resync-period", DURATION, 43200.0, "All objects are looked at again after 1 to 2 times as long."),
    ("node-monitor-period", DURATION, 5.0, "Pause between two looks at nodes that are not ready."),
    ("node-sync-period", DURATION, 0.0, NO_EFFECT),
    ("route-reconciliation-period", DURATION, 10.0, "Pause between two looks at the routes."),
    ("use-service-account-credentials", BOOL, False, NO_EFFECT),
)
_CONTROLLERS = (
    *_group(
        "Leader migration",
        ("enable-leader-migration", BOOL, False, "Not offered."),
        ("leader-migration-config", STRING, "", "Not offered."),
    ),
    *_group(
        "Debugging", ("profiling", BOOL, True, NO_EFFECT), ("contention-profiling", BOOL, False, NO_EFFECT)
    ),
    *_group(
        "Node controller",
        ("concurrent-node-syncs", INT, 1, "Nodes initialised at once; if not given, 10."),
        ("concurrent-node-status-updates", INT, 0, "Nodes refreshed at once; 0: as many as syncs."),
        (
            "node-status-update-frequency",
            DURATION,
            300.0,
            "Pause between two refreshes of all nodes; beyond 500 one list of servers serves two, or three.",
        ),
        (
            "refresh-node-labels",
            BOOL,
            False,
            "Keep type, zone and region labels true when a machine changes; false: given once, as upstream.",
        ),
    ),
    *_group(
        "Node lifecycle controller",
        ("concurrent-node-lifecycle-syncs", INT, 1, "Nodes looked at at once."),
        ("node-deletion-confirmations", INT, 2, "How often the cloud must deny a machine; 1 as upstream."),
        ("node-out-of-service-taint", BOOL, False, "Free volumes and Pods of machines that are shut down."),
        ("delete-nodes-without-provider-id", BOOL, False, "Also delete nodes that never had a machine."),
        (
            "mass-deletion-breaker",
            BOOL,
            True,
            "Keep what is ours while most or all of it seems to have vanished at once; false believes it.",
        ),
    ),
    *_group(
        "Service controller",
        ("concurrent-service-syncs", INT, 1, "Services reconciled at once."),
        ("service-resync-period", DURATION, 300.0, "Pause between two looks for drift; 0: never."),
        ("services-without-class", BOOL, True, "Whether Services without a loadBalancerClass are ours."),
        ("load-balancer-classes", STRINGS, (), "Values of loadBalancerClass that are ours."),
    ),
    *_group(
        "Webhook",
        ("webhooks", STRINGS, (), "Not offered."),
        ("webhook-bind-address", STRING, "0.0.0.0", NO_EFFECT),  # noqa: S104 - upstream's default
        ("webhook-secure-port", INT, 10260, NO_EFFECT),
        ("webhook-cert-dir", STRING, "", NO_EFFECT),
        ("webhook-tls-cert-file", STRING, "", NO_EFFECT),
        ("webhook-tls-private-key-file", STRING, "", NO_EFFECT),
        ("webhook-tls-cipher-suites", STRINGS, (), NO_EFFECT),
        ("webhook-tls-curve-preferences", INTS, (), NO_EFFECT),
        ("webhook-tls-min-version", STRING, "", NO_EFFECT),
        ("webhook-tls-sni-cert-key", STRINGS, (), NO_EFFECT),
        ("webhook-disable-http2-serving", BOOL, False, NO_EFFECT),
    ),
)
_SERVING = (
    *_group(
        "Secure serving",
        ("bind-address", STRING, "0.0.0.0", "Address to listen on."),  # noqa: S104 - upstream's default
        ("secure-port", INT, 10258, "Port of health and metrics; 0: none."),
        ("cert-dir", STRING, "", "Where cloud-controller-manager.crt and .key are, or are written."),
        ("tls-cert-file", STRING, "", "Certificate; if not given, one for localhost is made in memory."),
        ("tls-private-key-file", STRING, "", "Private key of --tls-cert-file."),
        ("tls-cipher-suites", STRINGS, (), "Cipher suites up to TLS 1.2, by their IANA names."),
        ("tls-curve-preferences", INTS, (), NO_EFFECT),
        ("tls-min-version", STRING, "", "VersionTLS12 (default) or VersionTLS13."),
        ("tls-sni-cert-key", STRINGS, (), "Not offered."),
        ("http2-max-streams-per-connection", INT, 0, NO_EFFECT),
        ("disable-http2-serving", BOOL, False, NO_EFFECT),
        ("permit-port-sharing", BOOL, False, "Listen with SO_REUSEPORT."),
        ("permit-address-sharing", BOOL, False, "SO_REUSEADDR is always set here, as Go does."),
    ),
    *_group(
        "Authentication",
        (
            "authentication-kubeconfig",
            STRING,
            "",
            "Who asks for token reviews; if not given, as --kubeconfig.",
        ),
        ("authentication-skip-lookup", BOOL, False, "Don't read the client CA from the cluster."),
        ("authentication-token-webhook-cache-ttl", DURATION, 10.0, "How long a token review is believed."),
        ("authentication-tolerate-lookup-failure", BOOL, False, NO_EFFECT),
        ("client-ca-file", STRING, "", "CA of client certificates that are accepted."),
        ("requestheader-allowed-names", STRINGS, (), NO_EFFECT),
        ("requestheader-client-ca-file", STRING, "", NO_EFFECT),
        ("requestheader-username-headers", STRINGS, ("x-remote-user",), NO_EFFECT),
        ("requestheader-uid-headers", STRINGS, (), NO_EFFECT),
        ("requestheader-group-headers", STRINGS, ("x-remote-group",), NO_EFFECT),
        ("requestheader-extra-headers-prefix", STRINGS, ("x-remote-extra-",), NO_EFFECT),
    ),
    *_group(
        "Authorization",
        (
            "authorization-kubeconfig",
            STRING,
            "",
            "Who asks for access reviews; if not given, as --kubeconfig.",
        ),
        (
            "authorization-always-allow-paths",
            STRINGS,
            ("/healthz", "/readyz", "/livez"),
            "Paths that everybody may read.",
        ),
        ("authorization-webhook-cache-authorized-ttl", DURATION, 10.0, "How long a yes is believed."),
        ("authorization-webhook-cache-unauthorized-ttl", DURATION, 10.0, "How long a no is believed."),
    ),
)
_MISC = (
    *_group(
        "Misc",
        ("master", STRING, "", "URL of the API server; wins over the kubeconfig's."),
        ("kubeconfig", STRING, "", "If not given, the Pod's service account."),
    ),
    Flag("v", INT, 0, "Global", "Verbosity of the log; 4 and more for debugging.", short="v"),
    *_group(
        "Global",
        ("vmodule", STRING, "", NO_EFFECT),
        ("log-flush-frequency", DURATION, 5.0, NO_EFFECT),
        ("logging-format", STRING, "text", "text or json."),
        ("log-text-split-stream", BOOL, False, NO_EFFECT),
        ("log-text-info-buffer-size", STRING, "0", NO_EFFECT),
        ("log-json-split-stream", BOOL, False, NO_EFFECT),
        ("log-json-info-buffer-size", STRING, "0", NO_EFFECT),
        ("version", BOOL, False, "Print the version and end."),
    ),
    Flag("help", BOOL, False, "Global", "Print this and end.", short="h"),
)

FLAGS: tuple[Flag, ...] = (*_GENERIC, *_CONTROLLERS, *_SERVING, *_MISC)
