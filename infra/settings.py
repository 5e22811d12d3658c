"""What a stack can be told: the shape of its settings."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from .backups import Backups
from .own_gateway import OwnGateway
from .placement import Fallback
from .pools import SHORT_FORM, Pool
from .reboot_window import RebootWindow

CNIS = ("native", "cilium")
INGRESSES = ("none", "traefik")
POD_SECURITY = ("none", "baseline", "restricted")
PROVIDERS = ("ccm-from-scratch", "hcloud")
NETWORK_ZONES = ("eu-central", "us-east", "us-west", "ap-southeast")
MOST_DRAIN_SECONDS = 3600
CONTROL_COUNTS = (1, 3, 5)
SERVER_ENDPOINT, PUBLIC_BALANCER, PRIVATE_BALANCER = API_ENDPOINTS = (
    "server",
    "load-balancer",
    "private-load-balancer",
)


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
    allow_deletion_of: tuple[str, ...]
    etcd_snapshots: Backups
    restore_from: str
    os_upgrades: RebootWindow | None
    kured_image: str
    pods_reach_metadata: bool
    pod_security: str
    taint_control_servers: bool

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
