"""The stack's configuration: its shape, and the rules that need no network to be checked."""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .backups import Backups
from .errors import Problem
from .k3s import COMPONENTS
from .own_gateway import OwnGateway
from .placement import Fallback
from .pools import MOST_SERVERS, MOST_WORKERS, SHORT_FORM, Pool, pool_problems
from .reboot_window import RebootWindow
from .settings_reader import NAMESPACE, Reader, key_of

CNIS = ("native", "cilium")
INGRESSES = ("none", "traefik")
PROVIDERS = ("ccm-from-scratch", "hcloud")
NETWORK_ZONES = ("eu-central", "us-east", "us-west", "ap-southeast")
RFC_1918 = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_URL = r"https?://[^\s/'\"#]{1,255}[^\s'\"#]{0,2000}"
_URL_ALLOWED = "give an address that begins with https:// or http://"
_IMAGE = r"[A-Za-z0-9][\w.:/@-]{0,511}", "give an image reference such as registry.example.com/ccm:1"
_CLUSTER_NAME = (
    r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?",
    "give 1 to 40 lower-case letters, digits and hyphens; a letter first, no hyphen last",
)
_NETWORK_ID = r"([1-9][0-9]{0,18})?", "give the ID of a Hetzner network, or nothing"
_K3S_CHANNEL = r"[a-z0-9.]{0,63}", "give a k3s channel such as stable or v1.36"
_K3S_VERSION = (
    r"(v\d{1,3}\.\d{1,3}\.\d{1,3}[-+.\w]{0,40})?",
    f"give a k3s version such as v1.36.3+k3s1, or nothing; a channel is {key_of('k3s_channel')}",
)
_K3S_INSTALLER = (
    _URL + r"(#sha256=[0-9a-f]{64})?",
    f"{_URL_ALLOWED}, and after it, if the installer is to be checked, #sha256= and 64 hexadecimal digits",
)
MOST_DRAIN_SECONDS = 3600
CONTROL_COUNTS = (1, 3, 5)
SERVER_ENDPOINT, PUBLIC_BALANCER, PRIVATE_BALANCER = API_ENDPOINTS = (
    "server",
    "load-balancer",
    "private-load-balancer",
)
_ADDRESS_FIELDS = (
    "network_cidr",
    "subnet_cidr",
    "cluster_cidr",
    "service_cidr",
    "worker_count",
    "pools",
    "control_count",
)
WHO_MAY_REACH_IT = """say who may reach SSH and the Kubernetes API of the servers, which stand on the Internet
      pulumi config set sshAllowedCidrs 198.51.100.7    with your address for this one, or a range
      pulumi config set sshAllowedCidrs any             for everybody"""


@dataclass(frozen=True)
class Settings:
    """What the stack asks for. Defaults stand in Pulumi.yaml, and only there."""

    cluster_name: str
    location: str
    network_zone: str
    control_server_type: str
    private_nodes: bool
    nat_server_type: str
    gateway: OwnGateway
    control_count: int
    control_locations: tuple[str, ...]
    api_endpoint: str
    worker_server_type: str
    worker_count: int
    pools: tuple[Pool, ...]
    fallbacks: tuple[Fallback, ...]
    drain_seconds: int
    max_unavailable: int
    autoscaler_image: str
    image: str
    labels: Mapping[str, str]
    network_cidr: ipaddress.IPv4Network
    subnet_cidr: ipaddress.IPv4Network
    import_network: str
    cluster_cidr: ipaddress.IPv4Network
    service_cidr: ipaddress.IPv4Network
    k3s_channel: str
    k3s_version: str
    k3s_install_url: str
    k3s_disable: tuple[str, ...]
    cni: str
    ingress: str
    ccm_image: str
    cloud_provider_name: str
    hcloud_endpoint: str
    kubeconfig_path: str
    ssh_allowed_cidrs: tuple[str, ...]
    node_port_allowed_cidrs: tuple[str, ...]
    protect: bool
    etcd_snapshots: Backups
    restore_from: str
    os_upgrades: RebootWindow | None
    kured_image: str

    @property
    def worker_pools(self) -> tuple[Pool, ...]:
        """All pools of workers, complete. Where ``pools`` is empty, the one that ``worker_count`` means."""
        given = self.pools or (Pool(SHORT_FORM, self.worker_count),)
        return tuple(
            pool.completed(
                self.worker_server_type,
                self.location,
                self.image,
                self.max_unavailable,
                public_ipv4=not self.private_nodes,
            )
            for pool in given
        )

    @property
    def control_members(self) -> dict[str, str]:
        """Location of each control server by its role, the first one first."""
        locations = self.control_locations or (self.location,)
        roles = ["control", *(f"control-{number}" for number in range(2, self.control_count + 1))]
        return {role: locations[index % len(locations)] for index, role in enumerate(roles)}

    @property
    def outlives_servers(self) -> bool:
        """Whether the cluster can stay the same one with another control server: it has etcd."""
        return self.control_count > 1 or bool(self.etcd_snapshots)

    @property
    def has_private(self) -> bool:
        """Whether there are servers without public addresses."""
        return self.private_nodes or any(not pool.public_ipv4 for pool in self.worker_pools)

    @property
    def has_nat(self) -> bool:
        """Whether the program makes a server that leads them to the Internet."""
        return self.has_private and not self.gateway

    @property
    def makes_balancers(self) -> bool:
        """Whether load balancers are made with the cluster: of its API, or of an ingress."""
        wanted = self.api_endpoint != SERVER_ENDPOINT or self.ingress != INGRESSES[0]
        return wanted and not self.kubeconfig_path

    @property
    def autoscaled_pools(self) -> tuple[Pool, ...]:
        """Those of them whose servers the cluster-autoscaler makes and removes."""
        return tuple(pool for pool in self.worker_pools if pool.max is not None)

    @property
    def workers(self) -> int:
        """How many workers there can be in all pools."""
        return sum(pool.most for pool in self.worker_pools)


def parse_settings(raw: Mapping[str, Any]) -> tuple[Settings, list[Problem]]:
    """Reads the configuration as far as it can be read.

    Args:
        raw: Full keys (``namespace:key``) and values, as Pulumi hands them to a program: texts, structured
            ones as JSON. Keys of other namespaces are none of our business.

    Returns:
        The settings, with something harmless where a value could not be read, and every problem.
    """
    reader = Reader(raw)
    settings = _read(reader)
    problems = [
        *reader.problems,
        *_unknown_keys(raw),
        *release_problems(settings),
        *restore_problems(settings),
    ]
    problems += pool_problems(settings.pools, settings.cluster_name, key_of("pools"))
    problems += autoscaler_problems(settings)
    problems += private_problems(settings)
    problems += os_upgrade_problems(settings)
    unread = {problem.key.partition("[")[0] for problem in problems}
    if not unread & set(map(key_of, _ADDRESS_FIELDS)):
        problems += address_problems(settings)
    return settings, problems


def _read(reader: Reader) -> Settings:
    return Settings(
        cluster_name=reader.matching("cluster_name", *_CLUSTER_NAME),
        location=reader.text("location"),
        network_zone=reader.choice("network_zone", NETWORK_ZONES),
        control_server_type=reader.text("control_server_type"),
        private_nodes=reader.flag("private_nodes"),
        nat_server_type=reader.text("nat_server_type"),
        gateway=reader.gateway("gateway"),
        control_count=reader.odd("control_count", CONTROL_COUNTS),
        control_locations=reader.names("control_locations", max(CONTROL_COUNTS)),
        api_endpoint=reader.choice("api_endpoint", API_ENDPOINTS),
        worker_server_type=reader.text("worker_server_type"),
        worker_count=reader.number("worker_count", 0, MOST_WORKERS),
        pools=reader.pools("pools"),
        fallbacks=reader.fallbacks("fallbacks"),
        drain_seconds=reader.number("drain_seconds", 0, MOST_DRAIN_SECONDS),
        max_unavailable=reader.number("max_unavailable", 1, MOST_WORKERS),
        autoscaler_image=reader.matching("autoscaler_image", *_IMAGE),
        image=reader.text("image"),
        labels=reader.labels("labels"),
        network_cidr=reader.cidr("network_cidr"),
        subnet_cidr=reader.cidr("subnet_cidr"),
        import_network=reader.matching("import_network", *_NETWORK_ID),
        cluster_cidr=reader.cidr("cluster_cidr"),
        service_cidr=reader.cidr("service_cidr"),
        k3s_channel=reader.matching("k3s_channel", *_K3S_CHANNEL),
        k3s_version=reader.matching("k3s_version", *_K3S_VERSION),
        k3s_install_url=reader.matching("k3s_install_url", *_K3S_INSTALLER),
        k3s_disable=reader.several("k3s_disable", COMPONENTS),
        cni=reader.choice("cni", CNIS),
        ingress=reader.choice("ingress", INGRESSES),
        ccm_image=reader.matching("ccm_image", *_or_nothing(*_IMAGE)),
        cloud_provider_name=reader.choice("cloud_provider_name", PROVIDERS),
        hcloud_endpoint=reader.matching("hcloud_endpoint", *_or_nothing(_URL, _URL_ALLOWED)),
        kubeconfig_path=reader.file("kubeconfig_path"),
        ssh_allowed_cidrs=reader.sources("ssh_allowed_cidrs", unsaid=WHO_MAY_REACH_IT),
        node_port_allowed_cidrs=reader.sources("node_port_allowed_cidrs"),
        protect=reader.flag("protect"),
        etcd_snapshots=(backups := reader.backups("etcd_snapshots")),
        restore_from=reader.snapshot("restore_from", backups),
        os_upgrades=reader.window("os_upgrades"),
        kured_image=reader.matching("kured_image", *_IMAGE),
    )


def _or_nothing(pattern: str, allowed: str) -> tuple[str, str]:
    return f"({pattern})?", f"{allowed}, or nothing"


def release_problems(settings: Settings) -> list[Problem]:
    """That both an exact version of k3s and a channel are named."""
    if not (settings.k3s_channel and settings.k3s_version):
        return []
    version = f"{key_of('k3s_version')} {settings.k3s_version}"
    one = f"{version} is exact; to follow a channel, type: pulumi config set k3sVersion ''"
    return [Problem(key_of("k3s_channel"), settings.k3s_channel, one)]


def autoscaler_problems(settings: Settings) -> list[Problem]:
    """What pools with bounds need of the other settings.

    The cluster-autoscaler knows the servers of Nodes by provider IDs that begin with hcloud:// alone:
    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/hetzner/hetzner_manager.go
    """
    problems = []
    for index, pool in enumerate(settings.pools):
        if pool.max is None:
            continue
        key = f"{key_of('pools')}[{index}].max"
        if settings.cloud_provider_name != "hcloud":
            allowed = "the cluster-autoscaler knows servers by hcloud:// alone: "
            allowed += f"it needs {key_of('cloud_provider_name')} hcloud, from the cluster's beginning on"
            problems.append(Problem(key, pool.max, allowed))
        if settings.kubeconfig_path:
            other = f"{key_of('kubeconfig_path')} names another one"
            problems.append(Problem(key, pool.max, f"only a cluster of this program is scaled, and {other}"))
    images = sorted({pool.image for pool in settings.autoscaled_pools})
    if len(images) > 1:
        allowed = "the cluster-autoscaler has one image for all pools with max"
        problems.append(Problem(key_of("pools"), ", ".join(images), allowed))
    return problems


def private_problems(settings: Settings) -> list[Problem]:
    """What servers without public addresses need of the other settings."""
    problems = []
    if settings.gateway and not settings.import_network:
        allowed = f"it is in a network that is there already: {key_of('import_network')} has to name that"
        problems.append(Problem(key_of("gateway"), settings.gateway.address, allowed))
    if settings.has_private and settings.kubeconfig_path:
        allowed = f"servers without public addresses ({key_of('private_nodes')}, or publicIpv4 of a pool) "
        allowed += "are for a cluster of this program; leave one of both out"
        problems.append(Problem(key_of("kubeconfig_path"), settings.kubeconfig_path, allowed))
    elif settings.private_nodes and settings.api_endpoint != PUBLIC_BALANCER:
        allowed = f"with {key_of('private_nodes')} no control server is reached from outside, so the "
        allowed += f"Kubernetes API needs {PUBLIC_BALANCER}"
        problems.append(Problem(key_of("api_endpoint"), settings.api_endpoint, allowed))
    for index, pool in enumerate(settings.pools):
        if pool.firewall and not settings.worker_pools[index].public_ipv4:
            allowed = "leave it out: without public addresses there is nothing that a firewall could let in"
            problems.append(Problem(f"{key_of('pools')}[{index}].firewall", pool.name, allowed))
    if len({pool.public_ipv4 for pool in settings.autoscaled_pools}) > 1:
        allowed = (
            "all pools with max alike have public addresses or not: the cluster-autoscaler knows one way"
        )
        problems.append(Problem(key_of("pools"), "publicIpv4 true and false", allowed))
    return problems


def os_upgrade_problems(settings: Settings) -> list[Problem]:
    """What reboots of servers need of the other settings."""
    problems = []
    if settings.os_upgrades and not settings.drain_seconds:
        allowed = f"a server is drained before it reboots, and {key_of('os_upgrades')} is set: "
        problems.append(Problem(key_of("drain_seconds"), 0, f"{allowed}give at least 1"))
    if settings.os_upgrades and settings.kubeconfig_path:
        other = f"{key_of('os_upgrades')} is for a cluster of this program"
        problems.append(Problem(key_of("kubeconfig_path"), settings.kubeconfig_path, other))
    return problems


def restore_problems(settings: Settings) -> list[Problem]:
    """That a cluster shall come out of a snapshot, and its only control server has SQLite."""
    if not settings.restore_from or settings.outlives_servers:
        return []
    allowed = f"with one control server set {key_of('etcd_snapshots')}, too: without, it has no etcd"
    return [Problem(key_of("restore_from"), settings.restore_from, allowed)]


def address_problems(settings: Settings) -> list[Problem]:
    """How the four ranges must lie to each other. Expects each of them to be a range in itself."""
    network, subnet = settings.network_cidr, settings.subnet_cidr
    pods, services = settings.cluster_cidr, settings.service_cidr
    servers = settings.workers + settings.control_count
    balancers, gateways = int(settings.api_endpoint != SERVER_ENDPOINT), int(settings.has_nat)
    rules = [
        ("network_cidr", _is_rfc_1918(network), "take it from 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16"),
        ("network_cidr", network.prefixlen <= 24, "a Hetzner network is a /24 or larger"),
        (
            "control_count",
            servers + gateways <= MOST_SERVERS,
            f"with {settings.workers} workers"
            + " and the NAT server" * gateways
            + f" they are {servers + gateways} servers, and a Hetzner network takes {MOST_SERVERS}",
        ),
        ("subnet_cidr", subnet.subnet_of(network), f"it must lie inside {key_of('network_cidr')} {network}"),
        # network address, gateway and broadcast address are taken
        (
            "subnet_cidr",
            subnet.num_addresses >= servers + balancers + gateways + 3,
            f"it is too small for {servers} servers"
            + " and a load balancer" * balancers
            + " and the NAT server" * gateways,
        ),
        ("cluster_cidr", pods.subnet_of(network), f"it must lie inside {key_of('network_cidr')} {network}"),
        (
            "cluster_cidr",
            pods.num_addresses >= servers * 256,
            f"it needs a /24 for each of {servers} servers",
        ),
        ("cluster_cidr", not pods.overlaps(subnet), f"it overlaps {key_of('subnet_cidr')} {subnet}"),
        ("service_cidr", not services.overlaps(subnet), f"it overlaps {key_of('subnet_cidr')} {subnet}"),
        ("service_cidr", not services.overlaps(pods), f"it overlaps {key_of('cluster_cidr')} {pods}"),
        ("service_cidr", 12 <= services.prefixlen <= 24, "Kubernetes takes a /12 to a /24"),
    ]
    return [
        Problem(key_of(field), str(getattr(settings, field)), allowed)
        for field, holds, allowed in rules
        if not holds
    ]


def _unknown_keys(raw: Mapping[str, Any]) -> list[Problem]:
    known = {key_of(field.name).partition(":")[2] for field in fields(Settings)}
    problems = []
    for key in sorted(raw):
        namespace, _, name = key.partition(":")
        if namespace != NAMESPACE or name in known:
            continue
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {NAMESPACE}:{near[0]}?" if near else f"known are {', '.join(sorted(known))}"
        problems.append(Problem(key, raw[key], f"there is no such key; {hint}"))
    return problems


def _is_rfc_1918(network: ipaddress.IPv4Network) -> bool:
    # Python's own is_private has more: link-local addresses, those for documentation and for benchmarks
    return any(network.subnet_of(private) for private in RFC_1918)
