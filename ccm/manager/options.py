"""The options from the command line: parsed, checked and typed flags."""

import ipaddress
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from ccm.controllers.route import WATCH_BASED, parse_additional_cidrs, parse_cluster_cidrs
from ccm.errors import ConfigurationError
from ccm.kube.lease import LeaseTimes
from ccm.kube.objects import ObjectReference
from ccm.manager.flags import NO_EFFECT, Flag, ParsedFlags
from ccm.manager.flags.flag_table import ROUTE, is_enabled, unknown
from ccm.manager.serving.tls import TLS_VERSIONS, cipher_problems

_JITTER = 1.2
_DURATIONS_AT_LEAST_ZERO = (
    "controller-start-interval",
    "min-resync-period",
    "service-resync-period",
    "authentication-token-webhook-cache-ttl",
    "authorization-webhook-cache-authorized-ttl",
    "authorization-webhook-cache-unauthorized-ttl",
)
_DURATIONS_ABOVE_ZERO = (
    "node-monitor-period",
    "node-status-update-frequency",
    "route-reconciliation-period",
    "leader-elect-lease-duration",
    "leader-elect-renew-deadline",
    "leader-elect-retry-period",
)
# Upstream's feature gate of 0.36. It has no effect: a leader always releases the lease at its end.
RELEASES_LEASE = "ControllerManagerReleaseLeaderElectionLockOnExit"
_WORKERS = ("concurrent-node-syncs", "concurrent-node-lifecycle-syncs", "concurrent-service-syncs")
_NOT_OFFERED = ("webhooks", "enable-leader-migration", "leader-migration-config", "tls-sni-cert-key")
_STOP_GRACE = 8.0
_NODE_SYNCS = 10


@dataclass(frozen=True, slots=True)
class Options:
    """The checked flags."""

    flags: ParsedFlags

    @property
    def lease_times(self) -> LeaseTimes:
        """The durations for the leader election."""
        return LeaseTimes(
            duration=self.flags["leader-elect-lease-duration"],
            renew_deadline=self.flags["leader-elect-renew-deadline"],
            retry_period=self.flags["leader-elect-retry-period"],
            stop_grace=_STOP_GRACE,
        )

    @property
    def lease_reference(self) -> ObjectReference:
        """The Lease, the object of Events about the whole process."""
        return ObjectReference(
            api_version="coordination.k8s.io/v1",
            kind="Lease",
            namespace=self.flags["leader-elect-resource-namespace"],
            name=self.flags["leader-elect-resource-name"],
        )

    @property
    def node_syncs(self) -> int:
        """The number of concurrent initializations. Upstream's default suits a rate limit that we lack."""
        given = "concurrent-node-syncs" in self.flags.given
        return self.flags["concurrent-node-syncs"] if given else _NODE_SYNCS

    @property
    def routes_wanted(self) -> bool:
        """Whether the flags enable the route controller."""
        return self.flags["configure-cloud-routes"] and bool(self.cluster_cidrs)

    @property
    def routes_lack_range(self) -> bool:
        """Whether the flags enable routes without --cluster-cidr, which the official CCM ignores."""
        asked = self.flags["allocate-node-cidrs"] or "configure-cloud-routes" in self.flags.given
        return asked and self.flags["configure-cloud-routes"] and not self.cluster_cidrs and self.runs(ROUTE)

    @property
    def cluster_cidrs(self) -> tuple[str, ...]:
        """The ranges of Pod CIDRs."""
        return tuple(part.strip() for part in self.flags["cluster-cidr"].split(",") if part.strip())

    def runs(self, controller: str) -> bool:
        """Whether the flags enable a controller. The cloud may still not support the controller."""
        return is_enabled(controller, self.flags["controllers"])

    def without_effect(self, flags: tuple[Flag, ...]) -> list[str]:
        """The flags and feature gates on the command line that have no effect."""
        idle = [
            f"--{flag.name}" for flag in flags if flag.help == NO_EFFECT and flag.name in self.flags.given
        ]
        gates = self.flags["feature-gates"].items()
        known = {(WATCH_BASED, True), (WATCH_BASED, False), (RELEASES_LEASE, True)}
        return idle + [f"--feature-gates={gate}" for gate, on in gates if (gate, on) not in known]


def problems_of(flags: ParsedFlags) -> list[str]:
    """All mistakes in the flags, one message each, starting with those of the parser."""
    return [*flags.problems, *_problems(flags)]


def _problems(flags: ParsedFlags) -> Iterator[str]:
    if not flags["cloud-provider"]:
        yield "--cloud-provider cannot be empty"
    yield from unknown(flags["controllers"])
    yield from _durations(flags)
    yield from _numbers(flags)
    yield from _leader_election(flags)
    yield from _network(flags)
    yield from _serving(flags)
    for name in _NOT_OFFERED:
        if flags[name]:
            yield f"--{name}: this cloud-controller-manager doesn't support this flag. Remove the flag"
    if flags["logging-format"] not in ("text", "json"):
        yield f"--logging-format: {flags['logging-format']!r} is neither text nor json"
    for name in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig", "client-ca-file"):
        if flags[name] and not os.access(flags[name], os.R_OK):
            yield f"--{name}: the file {flags[name]} can't be read"


def _durations(flags: ParsedFlags) -> Iterator[str]:
    for name in _DURATIONS_AT_LEAST_ZERO:
        if flags[name] < 0:
            yield f"--{name}: must not be negative"
    for name in _DURATIONS_ABOVE_ZERO:
        if flags[name] <= 0:
            yield f"--{name}: must be greater than 0"


def _numbers(flags: ParsedFlags) -> Iterator[str]:
    for name in _WORKERS:
        if flags[name] < 1:
            yield f"--{name}: must be greater than 0, but is {flags[name]}"
    if flags["concurrent-node-status-updates"] < 0:
        yield "--concurrent-node-status-updates: must not be negative"
    if flags["node-deletion-confirmations"] < 1:
        yield "--node-deletion-confirmations: must be at least 1"
    if flags["kube-api-qps"] > 0 and flags["kube-api-burst"] < 1:
        yield "--kube-api-burst: must be at least 1 if --kube-api-qps is greater than 0"
    if flags["v"] < 0:
        yield "--v: must not be negative"


def _leader_election(flags: ParsedFlags) -> Iterator[str]:
    if not flags["leader-elect"]:
        return
    duration, deadline = flags["leader-elect-lease-duration"], flags["leader-elect-renew-deadline"]
    if duration <= deadline:
        yield "--leader-elect-lease-duration: must be greater than --leader-elect-renew-deadline"
    if deadline <= flags["leader-elect-retry-period"] * _JITTER:
        yield f"--leader-elect-renew-deadline: must exceed {_JITTER} times --leader-elect-retry-period"
    if 0 < duration < 1:
        yield "--leader-elect-lease-duration: must be at least 1s, because a Lease stores whole seconds"
    if flags["leader-elect-resource-lock"] != "leases":
        yield "--leader-elect-resource-lock: only leases is possible"
    for name in ("leader-elect-resource-name", "leader-elect-resource-namespace"):
        if not flags[name]:
            yield f"--{name}: must not be empty"


def _network(flags: ParsedFlags) -> Iterator[str]:
    readings = [partial(parse_additional_cidrs, flags["additional-route-cidrs"])]
    if Options(flags).cluster_cidrs:
        readings.append(partial(parse_cluster_cidrs, flags["cluster-cidr"]))
    for read in readings:
        try:
            read()
        except ConfigurationError as error:
            yield from error.problems


def _serving(flags: ParsedFlags) -> Iterator[str]:
    if not 0 <= flags["secure-port"] <= 65535:
        yield f"--secure-port: {flags['secure-port']} is not between 0 and 65535"
    try:
        ipaddress.ip_address(flags["bind-address"])
    except ValueError:
        yield f"--bind-address: {flags['bind-address']!r} isn't an IP address"
    if flags["secure-port"] and flags["secure-port"] == flags["webhook-secure-port"]:
        yield f"--webhook-secure-port: must differ from --secure-port, which is {flags['secure-port']}"
    certificate, key = flags["tls-cert-file"], flags["tls-private-key-file"]
    if bool(certificate) != bool(key):
        yield "--tls-cert-file and --tls-private-key-file: set both or neither"
    for name in ("tls-cert-file", "tls-private-key-file"):
        if flags[name] and not os.access(flags[name], os.R_OK):
            yield f"--{name}: the file {flags[name]} can't be read"
    if flags["tls-min-version"] not in TLS_VERSIONS:
        allowed = ", ".join(name for name in TLS_VERSIONS if name)
        yield f"--tls-min-version: {flags['tls-min-version']!r} is not one of {allowed}"
    yield from cipher_problems(flags["tls-cipher-suites"])
