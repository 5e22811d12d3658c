"""What a stack can be told: the shape of its settings."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .backups import Backups
from .labels import NAT
from .own_gateway import OwnGateway
from .placement import Fallback, Placement
from .pools import SHORT_FORM, Pool
from .reboot_window import RebootWindow
from .server_spec import Keys, Kind, ServerSpec, control_group, control_roles, group_of
from .settings_reader import key_of

CNIS = ("native", "cilium")
INGRESSES = ("none", "traefik")
POD_SECURITY = ("none", "baseline", "restricted")
PROVIDERS = ("ccm-from-scratch", "hcloud")
NETWORK_ZONES = ("eu-central", "us-east", "us-west", "ap-southeast")
MOST_DRAIN_SECONDS = 3600
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

    @cached_property
    def servers(self) -> tuple[ServerSpec, ...]:
        """The servers that the program creates: the NAT server, control servers, workers pool by pool."""
        workers = [
            self._worker(index, number)
            for index, pool in enumerate(self.worker_pools)
            for number in range(1, pool.count + 1)
        ]
        nat = [self._nat()] if self.has_nat else []
        controls = [
            self._control(index, role) for index, role in enumerate(control_roles(self.control_count))
        ]
        return (*nat, *controls, *workers)

    @property
    def autoscaled(self) -> tuple[ServerSpec, ...]:
        """One server of each pool whose servers the cluster-autoscaler creates."""
        pools = enumerate(self.worker_pools)
        return tuple(self._worker(index, 1) for index, pool in pools if pool.max is not None)

    def _nat(self) -> ServerSpec:
        keys = Keys(key_of("nat_server_type"), key_of("location"), key_of("image"))
        return self._server(NAT, Kind.NAT, Placement(self.nat_server_type, self.location), keys)

    def _control(self, index: int, role: str) -> ServerSpec:
        locations = self.control_locations or (self.location,)
        place = index % len(locations)
        at = f"{key_of('control_locations')}[{place}]" if self.control_locations else key_of("location")
        keys = Keys(key_of("control_server_type"), at, key_of("image"))
        wanted, group = Placement(self.control_server_type, locations[place]), control_group(index)
        public = not self.private_nodes
        return self._server(role, Kind.CONTROL, wanted, keys, group=group, is_public=public)

    def _worker(self, index: int, number: int) -> ServerSpec:
        pool, given = self.worker_pools[index], self.pools[index] if self.pools else Pool()
        own = f"{key_of('pools')}[{index}]"
        keys = Keys(
            f"{own}.serverType" if given.server_type else key_of("worker_server_type"),
            f"{own}.location" if given.location else key_of("location"),
            f"{own}.image" if given.image else key_of("image"),
        )
        return self._server(
            f"{pool.name}-{number}",
            Kind.WORKER,
            Placement(pool.server_type, pool.location),
            keys,
            pool.fallbacks,
            pool=pool.name,
            image=pool.image,
            is_public=bool(pool.public_ipv4),
            group=group_of(pool.name, number) if pool.placement_group else None,
            group_is_set=bool(self.pools),
            node_labels=pool.labels,
            node_taints=pool.taints,
            max_unavailable=pool.max_unavailable or 1,
        )

    def _server(
        self,
        role: str,
        kind: Kind,
        wanted: Placement,
        keys: Keys,
        fallbacks: Sequence[Fallback] | None = None,
        **more: Any,
    ) -> ServerSpec:
        places = [one.instead_of(wanted) for one in (self.fallbacks if fallbacks is None else fallbacks)]
        alternatives = tuple(place for place in dict.fromkeys(places) if place != wanted)
        known = {"pool": kind.value, "image": self.image, "cluster": self.cluster_name}
        return ServerSpec(role, kind, wanted, keys, alternatives, **{**known, **more})

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
