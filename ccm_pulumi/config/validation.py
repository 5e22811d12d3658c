"""Reads the settings and validates them against each other; setting_types.py validates single ones."""

import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ..lib.errors import Problem
from ..lib.files import ROOT
from .config_values import nearest
from .pools import MAX_SERVERS, pool_problems
from .setting_types import NAMESPACE, key_of, types_of
from .settings import PUBLIC_BALANCER, SERVER_ENDPOINT, Settings

RFC_1918 = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
PUBLIC_GATEWAY = ipaddress.IPv4Address("172.31.1.1")
"""The gateway of Hetzner's public interfaces. The destination of a route must not contain this address
(https://docs.hetzner.cloud/reference/cloud#network-actions-add-a-route-to-a-network)."""
_WORKERS = ("worker_count", "pools")


def parse_settings(raw: Mapping[str, Any]) -> tuple[Settings, list[Problem]]:
    """The settings, with defaults for values that could not be read, and all problems.

    Values are strings, structured ones JSON, as Pulumi passes them. Keys of other namespaces are ignored.
    """
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, type_ in types_of(Settings).items():
        values[name], found = type_.read(raw.get(key_of(name)), key_of(name))
        problems += found
    settings = Settings(**values)
    unread = {problem.key.partition("[")[0] for problem in problems}
    return settings, [*problems, *_unknown_keys(raw), *problems_between(settings, unread)]


def _unknown_keys(raw: Mapping[str, Any]) -> list[Problem]:
    known = {key_of(name).partition(":")[2] for name in types_of(Settings)}
    problems = []
    for key in sorted(raw):
        namespace, _, name = key.partition(":")
        if namespace != NAMESPACE or name in known:
            continue
        hint = nearest(name, known, f"{NAMESPACE}:") or f"allowed: {', '.join(sorted(known))}"
        problems.append(Problem(key, raw[key], f"there is no such key; {hint}"))
    return problems


def problems_between(settings: Settings, unread: Collection[str] = ()) -> list[Problem]:
    """All problems between settings, except those that follow from the defaults of ``unread`` keys."""
    return [
        *rules_between(settings),
        *pool_problems(settings.pools, settings.cluster_name, key_of("pools")),
        *existing_cluster_problems(settings),
        *address_problems(settings, unread),
    ]


def rules_between(settings: Settings) -> list[Problem]:
    """Problems of single settings with others.

    The cluster-autoscaler only finds the servers of Nodes whose provider ID begins with hcloud://:
    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/hetzner/hetzner_manager.go
    """
    own = not settings.kubeconfig_path
    snapshot, in_bucket = settings.restore_from, bool(settings.etcd_snapshots.s3)
    no_snapshot = bool(snapshot) and not in_bucket and not (ROOT / snapshot).is_file()
    scaled = settings.autoscaled_pools
    images, ways = sorted({pool.image for pool in scaled}), {pool.public_ipv4 for pool in scaled}
    takes_pods = any(pool.count or pool.max for pool in settings.worker_pools)
    problems: list[Problem] = []

    def rule(key: str, value: object, broken: object, allowed: str) -> None:
        problems.extend([Problem(key, value, allowed)] if broken else [])

    allowed = (
        f"{key_of('k3s_version')} {settings.k3s_version} is an exact version. To follow a channel: "
        "pulumi config set k3sVersion ''"
    )
    both = settings.k3s_channel and settings.k3s_version
    rule(key_of("k3s_channel"), settings.k3s_channel, both, allowed)
    allowed = "set the path of an existing file, or remove the setting"
    rule(key_of("restore_from"), snapshot, no_snapshot, allowed)
    allowed = f"also set {key_of('etcd_snapshots')}. Otherwise, a single control server doesn't use etcd"
    without_etcd = snapshot and not no_snapshot and not settings.outlives_servers
    rule(key_of("restore_from"), snapshot, without_etcd, allowed)
    allowed = "set the same image in all pools with 'max': the cluster-autoscaler supports only one image"
    rule(key_of("pools"), ", ".join(images), len(images) > 1, allowed)
    allowed = "set the same value in all pools with 'max': the cluster-autoscaler supports only one value"
    rule(key_of("pools"), "publicIpv4 true and false", len(ways) > 1, allowed)
    allowed = f"also set {key_of('import_network')}, because a gateway must be in an existing network"
    elsewhere = settings.gateway and not settings.import_network
    rule(key_of("gateway"), settings.gateway.address, elsewhere, allowed)
    allowed = (
        f"use {PUBLIC_BALANCER}, because the control servers have no public addresses if "
        f"{key_of('private_nodes')} is true"
    )
    unreachable = settings.private_nodes and settings.api_endpoint != PUBLIC_BALANCER and own
    rule(key_of("api_endpoint"), settings.api_endpoint, unreachable, allowed)
    allowed = f"set at least 1: with the value 0, kured's drains ({key_of('os_upgrades')}) have no time limit"
    rule(key_of("drain_seconds"), 0, settings.os_upgrades and not settings.drain_seconds, allowed)
    allowed = "no server would run Pods, because there are no workers: remove this setting, or add workers"
    takes_none = settings.taint_control_servers and own and not takes_pods
    rule(key_of("taint_control_servers"), "true", takes_none, allowed)
    for index, pool in enumerate(settings.pools):
        key = f"{key_of('pools')}[{index}]"
        allowed = (
            f"set {key_of('cloud_provider_name')} to hcloud when you create the cluster, because the "
            "cluster-autoscaler requires provider IDs that begin with hcloud://"
        )
        other_name = pool.max is not None and settings.cloud_provider_name != "hcloud"
        rule(f"{key}.max", pool.max, other_name, allowed)
        allowed = "remove this key, because servers without public addresses have no firewall"
        is_private = pool.firewall and not settings.worker_pools[index].public_ipv4
        rule(f"{key}.firewall", pool.name, is_private, allowed)
    return problems


def existing_cluster_problems(settings: Settings) -> list[Problem]:
    """Settings that an existing cluster, named by its kubeconfig, can't have."""
    if not settings.kubeconfig_path:
        return []
    keys = [
        key_of(name)
        for name, type_ in types_of(Settings).items()
        if type_.created_only and getattr(settings, name) != type_.neutral
    ]
    for index, pool in enumerate(settings.pools):
        for key, is_wanted in (("publicIpv4", pool.public_ipv4 is False), ("max", pool.max is not None)):
            keys += [f"{key_of('pools')}[{index}].{key}"] * is_wanted
    if not keys:
        return []
    allowed = (
        f"this key selects an existing cluster, but these keys are only for a new one: {', '.join(keys)}. To "
        f"use the existing cluster, remove these keys. For a new cluster, remove {key_of('kubeconfig_path')}"
    )
    return [Problem(key_of("kubeconfig_path"), settings.kubeconfig_path, allowed)]


def address_problems(settings: Settings, unread: Collection[str] = ()) -> list[Problem]:
    """Problems with the four address ranges and their capacity; no rule about an ``unread`` key."""
    network, subnet = settings.network_cidr, settings.subnet_cidr
    pods, services = settings.cluster_cidr, settings.service_cidr
    nodes, capacity = settings.workers + settings.control_count, _capacity(settings)
    # Python's is_private includes link-local addresses, and those for documentation and benchmarks
    private = any(network.subnet_of(allowed) for allowed in RFC_1918)
    inside = f"the range must be inside {key_of('network_cidr')} {network}"
    on_subnet = f"the range overlaps {key_of('subnet_cidr')} {subnet}"
    on_pods = f"the range overlaps {key_of('cluster_cidr')} {pods}"
    on_gateway = f"the range contains {PUBLIC_GATEWAY}, Hetzner's gateway. Hetzner rejects routes to it"
    nat, balancer = " and the NAT server" * settings.has_nat, " and a load balancer" * _has_balancer(settings)
    too_many = (
        f"the cluster would have {capacity['control_count'].used} servers, including {settings.workers} "
        f"workers{nat}, but a Hetzner network can have at most {MAX_SERVERS}"
    )
    small = f"the range is too small for {nodes} servers{balancer}{nat}"
    each = f"the range is too small: it must contain a /24 for each of the {nodes} servers"
    # the settings of each rule, first the one to change
    rules = [
        (("network_cidr",), private, "use a range in 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16"),
        (("network_cidr",), network.prefixlen <= 24, "a Hetzner network must be a /24 or larger"),
        (("control_count", *_WORKERS), capacity["control_count"].fits(), too_many),
        (("subnet_cidr", "network_cidr"), subnet.subnet_of(network), inside),
        (("subnet_cidr", "control_count", *_WORKERS), capacity["subnet_cidr"].fits(), small),
        (("cluster_cidr", "network_cidr"), pods.subnet_of(network), inside),
        (("cluster_cidr", "control_count", *_WORKERS), capacity["cluster_cidr"].fits(), each),
        (("cluster_cidr", "subnet_cidr"), not pods.overlaps(subnet), on_subnet),
        (("cluster_cidr",), PUBLIC_GATEWAY not in pods, on_gateway),
        (("service_cidr", "subnet_cidr"), not services.overlaps(subnet), on_subnet),
        (("service_cidr", "cluster_cidr"), not services.overlaps(pods), on_pods),
        (("service_cidr",), 12 <= services.prefixlen <= 24, "the prefix length must be from /12 to /24"),
    ]
    return [
        Problem(key_of(asked[0]), str(getattr(settings, asked[0])), allowed)
        for asked, holds, allowed in rules
        if not holds and not any(key_of(field) in unread for field in asked)
    ]


def rollout_capacity_problems(settings: Settings, existing: Collection[str]) -> list[Problem]:
    """The problem if the new servers, together with the servers to be deleted, exceed a limit.

    Pulumi deletes removed resources after it has created new ones: a renamed pool has its servers twice until
    then.
    """
    wanted = {server.role for server in settings.servers}
    leaving = set(existing) - wanted
    if not leaving or wanted <= set(existing):
        return []
    capacity = _capacity(settings)
    subnet, pods = capacity["subnet_cidr"].total, capacity["cluster_cidr"].total
    limits = {
        "control_count": f"a Hetzner network can have at most {MAX_SERVERS} servers",
        "subnet_cidr": f"{key_of('subnet_cidr')} {settings.subnet_cidr} has addresses for only {subnet} "
        "servers",
        "cluster_cidr": f"{key_of('cluster_cidr')} {settings.cluster_cidr} has Pod ranges for only {pods} "
        "servers",
    }
    # address_problems reports a limit that the wanted servers alone exceed
    broken = [
        why for key, why in limits.items() if capacity[key].fits() and not capacity[key].fits(len(leaving))
    ]
    if not broken:
        return []
    allowed = (
        f"Pulumi creates the new servers while the {len(leaving)} old servers still exist. However, "
        f"{', and '.join(broken)}. Change fewer servers, and run pulumi up after each change"
    )
    key = key_of("pools" if settings.pools else "worker_count")
    at_a_time = capacity["control_count"].used + len(leaving)
    return [Problem(key, f"{at_a_time} servers at a time", allowed)]


@dataclass(frozen=True)
class _Capacity:
    """Capacity for servers: used by the wanted ones, and total."""

    used: int
    total: int

    def fits(self, more: int = 0) -> bool:
        return self.used + more <= self.total


def _capacity(settings: Settings) -> dict[str, _Capacity]:
    """Capacity of the network, its subnet and the Pods' range, by the setting that limits it."""
    nodes = settings.workers + settings.control_count
    servers = nodes + settings.has_nat
    # network address, gateway and broadcast address are reserved
    addresses = settings.subnet_cidr.num_addresses - 3 - _has_balancer(settings)
    return {
        "control_count": _Capacity(servers, MAX_SERVERS),
        "subnet_cidr": _Capacity(servers, addresses),
        "cluster_cidr": _Capacity(nodes, settings.cluster_cidr.num_addresses // 256),
    }


def _has_balancer(settings: Settings) -> bool:
    return settings.api_endpoint != SERVER_ENDPOINT
