"""What the owner chooses of routes, and the ranges that Pods have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ccm.controllers.route_plan import Cidr
from ccm.errors import ConfigurationError
from ccm.ip import parse_network

WATCH_BASED = "CloudControllerManagerWatchBasedRoutesReconciliation"  # upstream's feature gate


@dataclass(frozen=True, slots=True)
class RouteOptions:
    """What the owner chooses.

    Attributes:
        cluster_cidrs: ``--cluster-cidr``.
        more_cidrs: ``--additional-route-cidrs``: where Pod CIDRs may lie beside these.
        reconciliation_period: ``--route-reconciliation-period``, in seconds from start to start.
        watch_based: Run when Nodes change, at most once in 10 s, and every ``resync_period`` otherwise.
        resync_period: In seconds.
        accepted_age: How old the picture of the network may be that tells that nothing is to be done.
        mass_deletion_breaker: Don't delete while the machines of most Nodes can't be seen.
    """

    cluster_cidrs: tuple[Cidr, ...]
    reconciliation_period: float = 10.0
    watch_based: bool = False
    resync_period: float = 300.0
    accepted_age: float = 300.0
    mass_deletion_breaker: bool = True
    more_cidrs: tuple[Cidr, ...] = ()


def parse_cluster_cidrs(text: str) -> tuple[Cidr, ...]:
    """Read ``--cluster-cidr``.

    Raises:
        ConfigurationError: It is empty, no CIDR, or not one of each family.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    cidrs, problems = _parse("cluster-cidr", parts)
    if not parts:
        problems.append("--cluster-cidr: needed for routes; set it, or --configure-cloud-routes=false")
    if len(parts) > 2 or (len({cidr.version for cidr in cidrs}) < len(parts) and not problems):
        problems.append("--cluster-cidr: at most one range of IPv4 and one of IPv6")
    if problems:
        raise ConfigurationError(problems)
    return cidrs


def parse_additional_cidrs(texts: Sequence[str]) -> tuple[Cidr, ...]:
    """Read ``--additional-route-cidrs``.

    Raises:
        ConfigurationError: Something in it is no CIDR.
    """
    cidrs, problems = _parse("additional-route-cidrs", texts)
    if problems:
        raise ConfigurationError(problems)
    return cidrs


def _parse(flag: str, texts: Sequence[str]) -> tuple[tuple[Cidr, ...], list[str]]:
    found = {text: parse_network(text) for text in texts}
    wrong = [f"--{flag}: {text!r} is no CIDR like 10.244.0.0/16" for text, cidr in found.items() if not cidr]
    return tuple(cidr for cidr in found.values() if cidr), wrong
