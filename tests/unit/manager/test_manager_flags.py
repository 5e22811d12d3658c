from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manager_flags import options

from ccm.controllers.route import WATCH_BASED, parse_cluster_cidrs
from ccm.manager.controllers import lifecycle_options, node_options, route_options
from ccm.manager.flags import FLAGS, parse_flags
from ccm.manager.flags.flag_table import ALIASES, CONTROLLERS, is_enabled, unknown
from ccm.manager.options import Options, problems_of

# Upstream's table: name, default.
UPSTREAM = {
    "allocate-node-cidrs": False, "allow-untagged-cloud": False, "cidr-allocator-type": "RangeAllocator",
    "cloud-provider": "", "cloud-config": "", "cluster-cidr": "", "cluster-name": "kubernetes",
    "configure-cloud-routes": True, "controller-start-interval": 0, "controllers": ("*",),
    "external-cloud-volume-plugin": "", "feature-gates": {}, "kube-api-burst": 30, "kube-api-qps": 20,
    "kube-api-content-type": "application/vnd.kubernetes.protobuf", "leader-elect": True,
    "leader-elect-lease-duration": 15, "leader-elect-renew-deadline": 10, "leader-elect-retry-period": 2,
    "leader-elect-resource-lock": "leases", "leader-elect-resource-name": "cloud-controller-manager",
    "leader-elect-resource-namespace": "kube-system", "min-resync-period": 43200, "node-monitor-period": 5,
    "node-sync-period": 0, "route-reconciliation-period": 10, "use-service-account-credentials": False,
    "enable-leader-migration": False, "leader-migration-config": "", "profiling": True,
    "contention-profiling": False, "concurrent-node-syncs": 1, "concurrent-node-status-updates": 0,
    "concurrent-service-syncs": 1, "webhooks": (), "webhook-bind-address": "0.0.0.0",
    "webhook-secure-port": 10260, "webhook-cert-dir": "", "webhook-tls-cert-file": "",
    "webhook-tls-private-key-file": "", "webhook-tls-cipher-suites": (), "webhook-tls-curve-preferences": (),
    "webhook-tls-min-version": "", "webhook-tls-sni-cert-key": (), "webhook-disable-http2-serving": False,
    "bind-address": "0.0.0.0", "secure-port": 10258, "cert-dir": "", "tls-cert-file": "",
    "tls-private-key-file": "", "tls-cipher-suites": (), "tls-curve-preferences": (), "tls-min-version": "",
    "tls-sni-cert-key": (), "http2-max-streams-per-connection": 0, "disable-http2-serving": False,
    "permit-port-sharing": False, "permit-address-sharing": False, "authentication-kubeconfig": "",
    "authentication-skip-lookup": False, "authentication-token-webhook-cache-ttl": 10,
    "authentication-tolerate-lookup-failure": False, "client-ca-file": "", "requestheader-allowed-names": (),
    "requestheader-client-ca-file": "", "requestheader-username-headers": ("x-remote-user",),
    "requestheader-uid-headers": (), "requestheader-group-headers": ("x-remote-group",),
    "requestheader-extra-headers-prefix": ("x-remote-extra-",), "authorization-kubeconfig": "",
    "authorization-always-allow-paths": ("/healthz", "/readyz", "/livez"),
    "authorization-webhook-cache-authorized-ttl": 10, "authorization-webhook-cache-unauthorized-ttl": 10,
    "master": "", "kubeconfig": "", "node-status-update-frequency": 300, "v": 0, "vmodule": "",
    "log-flush-frequency": 5, "logging-format": "text", "log-text-split-stream": False, "version": False,
    "help": False,
}  # fmt: skip

# What the tutorial's and the official CCM's manifests pass.
REAL = ["--cloud-provider=hcloud", "--leader-elect=false", "--allow-untagged-cloud",
        "--route-reconciliation-period=30s",
        "--webhook-secure-port=0", "--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16"]  # fmt: skip


def _parse(*arguments: str):
    return parse_flags(FLAGS, arguments)


def _problems(*arguments: str) -> list[str]:
    return problems_of(_parse("--cloud-provider=fake", *arguments))


@pytest.mark.parametrize("name", UPSTREAM)
def test_upstream_defaults(name):
    assert _parse()[name] == UPSTREAM[name]


def test_manifests_of_the_field_are_understood():
    flags = _parse(*REAL)
    assert problems_of(flags) == []
    assert Options(flags).cluster_cidrs == ("10.244.0.0/16",)
    assert Options(flags).routes_wanted
    assert Options(flags).without_effect(FLAGS) == ["--webhook-secure-port"]


def test_feature_gates_that_do_nothing_are_named():
    gates = "CloudControllerManagerWatchBasedRoutesReconciliation=true,ContextualLogging=true"
    idle = Options(_parse(f"--feature-gates={gates}")).without_effect(FLAGS)
    assert idle == ["--feature-gates=ContextualLogging"]
    release = "--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit"
    assert Options(_parse(f"{release}=true")).without_effect(FLAGS) == []
    assert Options(_parse(f"{release}=false")).without_effect(FLAGS) == [release], "it is always on"


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--cluster-name=a"], "cluster-name", "a"),
        (["--cluster-name", "a"], "cluster-name", "a"),
        (["--cluster_name=a"], "cluster-name", "a"),
        (["--cluster-name="], "cluster-name", ""),
        (["--cluster-name=a=b"], "cluster-name", "a=b"),
        (["--cluster-name=a", "--cluster-name=b"], "cluster-name", "b"),
        (["--leader-elect"], "leader-elect", True),
        (["--leader-elect=false"], "leader-elect", False),
        (["--leader-elect=F"], "leader-elect", False),
        (["--leader-elect=1"], "leader-elect", True),
        (["-v", "4"], "v", 4),
        (["-v=4"], "v", 4),
        (["-v4"], "v", 4),
        (["--v=4"], "v", 4),
        (["--kube-api-qps=0.5"], "kube-api-qps", 0.5),
        (["--concurrent-node-syncs=0x10"], "concurrent-node-syncs", 16),
        (["--controllers=a,b", "--controllers=c"], "controllers", ("a", "b", "c")),
        (["--authorization-always-allow-paths="], "authorization-always-allow-paths", ()),
        (["--tls-curve-preferences=1,2"], "tls-curve-preferences", (1, 2)),
        (
            ["--feature-gates=A=true,B=false", "--feature-gates=C=1"],
            "feature-gates",
            {"A": True, "B": False, "C": True},
        ),
        (["--leader-elect-lease-duration=1m"], "leader-elect-lease-duration", 60),
    ],
)
def test_values(arguments, name, value):
    flags = _parse(*arguments)
    assert flags.problems == ()
    assert flags[name] == value
    assert name in flags.given


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--nonsense=1"], "unknown flag: --nonsense"),
        (["-x"], "unknown flag: -x"),
        (["-vhigh"], "--v: 'high' isn't a whole number"),
        (["-cluster-name=a"], "unknown flag: -cluster-name"),
        (["extra"], "unexpected argument 'extra'"),
        (["--", "--leader-elect"], "unexpected argument '--leader-elect'"),
        (["--cluster-name"], "--cluster-name: needs a value"),
        (["--leader-elect=maybe"], "--leader-elect: 'maybe' is neither true nor false"),
        (["--secure-port=many"], "--secure-port: 'many' isn't a whole number"),
        (["--secure-port=4294967296"], "--secure-port: 4294967296 doesn't fit in 32 bits"),
        (["--kube-api-qps=fast"], "--kube-api-qps: 'fast' isn't a number"),
        (["--node-monitor-period=5"], "--node-monitor-period: '5' isn't a duration"),
        (["--tls-curve-preferences=a"], "--tls-curve-preferences: 'a' isn't a whole number"),
        (["--feature-gates=A"], "--feature-gates: 'A' is not of the form name=value"),
        (["--feature-gates=A=x"], "--feature-gates: A: 'x' is neither"),
        (["--cloud-provider="], "--cloud-provider cannot be empty"),
        (["--controllers=*,nonsense"], '"nonsense" is not in the list of known controllers'),
        (["--leader-elect-lease-duration=10s"], "--leader-elect-lease-duration: must be greater than"),
        (["--leader-elect-renew-deadline=2s"], "--leader-elect-renew-deadline: must exceed 1.2 times"),
        (["--leader-elect-retry-period=0s"], "--leader-elect-retry-period: must be greater than 0"),
        (["--leader-elect-resource-lock=configmaps"], "only leases"),
        (["--leader-elect-resource-name="], "--leader-elect-resource-name: must not be empty"),
        (["--node-monitor-period=-1s"], "--node-monitor-period: must be greater than 0"),
        (["--controller-start-interval=-1s"], "--controller-start-interval: must not be negative"),
        (["--concurrent-node-syncs=0"], "--concurrent-node-syncs: must be greater than 0"),
        (["--concurrent-service-syncs=-1"], "--concurrent-service-syncs: must be greater than 0"),
        (["--concurrent-node-status-updates=-1"], "--concurrent-node-status-updates: must not be negative"),
        (["--kube-api-burst=0"], "--kube-api-burst: must be at least 1"),
        (["--v=-1"], "--v: must not be negative"),
        (["--secure-port=65536"], "--secure-port: 65536 is not between"),
        (["--bind-address=everywhere"], "--bind-address: 'everywhere' isn't an IP address"),
        (["--cluster-cidr=10.0.0.0/33"], "--cluster-cidr: '10.0.0.0/33' isn't a CIDR"),
        (["--cluster-cidr=10.0.0.0/16,10.1.0.0/16"], "--cluster-cidr: at most one IPv4 range"),
        (["--cluster-cidr=10.0.0.0"], "--cluster-cidr: '10.0.0.0' isn't a CIDR"),
        (["--tls-cert-file=/dev/null"], "set both or neither"),
        (
            ["--tls-cert-file=/none", "--tls-private-key-file=/none"],
            "--tls-cert-file: the file /none can't be read",
        ),
        (["--tls-min-version=VersionTLS14"], "--tls-min-version: 'VersionTLS14' is not one of"),
        (["--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA"], "--tls-cipher-suites: 'TLS_RSA_WITH_RC4_128_SHA'"),
        (["--kubeconfig=/none"], "--kubeconfig: the file /none can't be read"),
        (["--client-ca-file=/none"], "--client-ca-file: the file /none can't be read"),
        (["--secure-port=10260"], "--webhook-secure-port: must differ from --secure-port, which is 10260"),
        (["--logging-format=xml"], "--logging-format: 'xml' is neither text nor json"),
        (["--webhooks=a"], "--webhooks: this cloud-controller-manager doesn't support"),
        (
            ["--enable-leader-migration"],
            "--enable-leader-migration: this cloud-controller-manager doesn't support",
        ),
        (["--tls-sni-cert-key=a,b"], "--tls-sni-cert-key: this cloud-controller-manager doesn't support"),
        (["--node-deletion-confirmations=0"], "--node-deletion-confirmations: must be at least 1"),
    ],
)
def test_mistakes(arguments, problem):
    assert any(problem in found for found in _problems(*arguments)), _problems(*arguments)


def test_all_mistakes_are_reported_at_once():
    assert len(_problems("--nonsense", "--v=x", "more", "--secure-port=-1", "--bind-address=x")) == 5


@pytest.mark.parametrize(
    ("arguments", "lacking"),
    [
        (["--allocate-node-cidrs"], True),
        (["--configure-cloud-routes"], True),
        ([], False),
        (["--allocate-node-cidrs", "--cluster-cidr=10.244.0.0/16"], False),
        (["--allocate-node-cidrs", "--configure-cloud-routes=false"], False),
        (["--allocate-node-cidrs", "--controllers=*,-route"], False),
    ],
)
def test_without_a_range_there_are_no_routes_as_with_the_official_one(arguments, lacking):
    assert _problems(*arguments) == []
    options = Options(_parse(*arguments))
    assert options.routes_lack_range is lacking
    assert options.routes_wanted is ("--cluster-cidr=10.244.0.0/16" in arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--cluster-cidr=10.244.0.0/16,fd00::/56", "--allocate-node-cidrs"],
        ["--leader-elect=false", "--leader-elect-lease-duration=1s"],
    ],
)
def test_what_is_no_mistake(arguments):
    assert _problems(*arguments) == []


# No operating system hands a NUL over in an argument.
words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


@given(st.lists(words | st.sampled_from([f"--{flag.name}" for flag in FLAGS])))
def test_no_command_line_breaks_the_parser(arguments):
    flags = _parse(*arguments)
    assert set(flags.values) == {flag.name for flag in FLAGS}
    assert isinstance(problems_of(flags), list)


@pytest.mark.parametrize(
    ("entries", "enabled"),
    [
        (["*"], True),
        ([], False),
        (["cloud-node-controller"], True),
        (["cloud-node"], True),
        (["-cloud-node"], False),
        (["*", "-cloud-node"], False),
        (["*", "-cloud-node-controller"], False),
        (["-cloud-node", "cloud-node"], False),
        (["cloud-node", "-cloud-node"], True),
        (["service"], False),
    ],
)
def test_selection(entries, enabled):
    assert is_enabled("cloud-node-controller", entries) is enabled


def test_names_and_aliases():
    assert set(ALIASES.values()) == set(CONTROLLERS)
    assert all(name.endswith("-controller") for name in CONTROLLERS)
    assert unknown([*ALIASES, *CONTROLLERS, "*", *(f"-{name}" for name in ALIASES)]) == []


@pytest.mark.parametrize(
    ("given", "wanted"), [([], 10), (["--concurrent-node-syncs=1"], 1), (["--concurrent-node-syncs=3"], 3)]
)
def test_ten_nodes_are_initialized_at_once_by_default(given: list[str], wanted: int) -> None:
    assert Options(parse_flags(FLAGS, given)).node_syncs == wanted


CIDR = "--cluster-cidr=10.244.0.0/16"
CASES: list[tuple[Any, str, str, object]] = [
    (node_options, "--concurrent-node-syncs=7", "concurrent_syncs", 7),
    (node_options, "--concurrent-node-status-updates=5", "concurrent_status_updates", 5),
    (node_options, "--node-status-update-frequency=1m", "status_update_frequency", 60),
    (lifecycle_options, "--node-monitor-period=3s", "monitor_period", 3),
    (lifecycle_options, "--node-deletion-confirmations=4", "confirmations", 4),
    (lifecycle_options, "--delete-nodes-without-provider-id", "delete_without_provider_id", True),
    (lifecycle_options, "--node-out-of-service-taint", "out_of_service", True),
    (lifecycle_options, "--concurrent-node-lifecycle-syncs=6", "concurrent_syncs", 6),
    (lifecycle_options, "--mass-deletion-breaker=false", "mass_deletion_breaker", False),
    (route_options, "--cluster-cidr=10.99.0.0/16", "cluster_cidrs", parse_cluster_cidrs("10.99.0.0/16")),
    (route_options, "--route-reconciliation-period=30s", "reconciliation_period", 30),
    (route_options, f"--feature-gates={WATCH_BASED}=true", "watch_based", True),
    (route_options, "--mass-deletion-breaker=false", "mass_deletion_breaker", False),
]


@pytest.mark.parametrize(("make", "flag", "name", "value"), CASES, ids=[case[1] for case in CASES])
def test_a_flag_reaches_its_controller_and_nothing_else(make, flag, name, value) -> None:
    plain, changed = make(options(CIDR)), make(options(CIDR, flag))
    assert getattr(changed, name) == value != getattr(plain, name)
    others = [field.name for field in fields(plain) if field.name != name]
    assert all(getattr(changed, other) == getattr(plain, other) for other in others)
