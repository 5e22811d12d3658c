"""The settings of a stack. A new setting needs a row here, an entry in Pulumi.yaml, and its code."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

from .etcd_snapshots import Backups, parse_backups
from .gateway import ALLOWED as GATEWAY
from .gateway import OwnGateway, read_gateway
from .k3s import COMPONENTS
from .labels import NAT
from .placement import Fallback, Placement, parse_fallbacks
from .pools import MAX_WORKERS, SHORT_FORM, Pool, parse_pools
from .reboot_window import RebootWindow, parse_window
from .server_spec import CONTROL_COUNTS, Keys, Kind, ServerSpec, control_group, control_roles, group_of
from .setting_types import (
    Type,
    choice,
    cidr,
    cloud_labels,
    created_only,
    file,
    flag,
    ids,
    json_of,
    key_of,
    matching,
    name,
    names,
    number,
    odd_number,
    or_nothing,
    plain,
    program_only,
    several,
    snapshot,
    sources,
)

CNIS = ("native", "cilium")
INGRESSES = ("none", "traefik")
POD_SECURITY = ("none", "baseline", "restricted")
PROVIDERS = ("ccm-from-scratch", "hcloud")
NETWORK_ZONES = ("eu-central", "us-east", "us-west", "ap-southeast")
MAX_DRAIN_SECONDS = 3600
SERVER_ENDPOINT, PUBLIC_BALANCER, PRIVATE_BALANCER = API_ENDPOINTS = (
    "server",
    "load-balancer",
    "private-load-balancer",
)
_URL = r"https?://[^\s/'\"#]{1,255}[^\s'\"#]{0,2000}"
_URL_ALLOWED = "give an address that begins with https:// or http://"
_IMAGE = r"[A-Za-z0-9][\w.:/@-]{0,511}", "give an image reference such as registry.example.com/ccm:1"
_CLUSTER_NAME = (
    r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?",
    "give 1 to 40 lower-case letters, digits and hyphens. Start with a letter, and don't end with a hyphen",
)
_NETWORK_ID = r"([1-9][0-9]{0,18})?", "give the ID of a Hetzner network, or remove the setting"
_K3S_CHANNEL = r"[a-z0-9.]{0,63}", "give a k3s channel such as stable or v1.36"
_K3S_VERSION = (
    r"(v\d{1,3}\.\d{1,3}\.\d{1,3}[-+.\w]{0,40})?",
    f"give a k3s version such as v1.37.2+k3s1, or '' to follow the channel of {key_of('k3s_channel')}",
)
_K3S_INSTALLER = (
    _URL + r"(#sha256=[0-9a-f]{64})?",
    f"{_URL_ALLOWED}. To verify the installer, append #sha256= and its hash (64 hexadecimal digits)",
)
SOURCES_REQUIRED = """set the addresses that may reach SSH and the Kubernetes API of the servers
      pulumi config set sshAllowedCidrs 198.51.100.7    your address, or a range
      pulumi config set sshAllowedCidrs any             all addresses"""


def _gateway(value: Any) -> OwnGateway:
    return read_gateway(json_of(value, dict))


@dataclass(frozen=True)
class Settings:
    """The settings of a stack. Their defaults are only in Pulumi.yaml."""

    cluster_name: Annotated[str, matching(*_CLUSTER_NAME)]
    location: Annotated[str, name()]
    network_zone: Annotated[str, choice(NETWORK_ZONES)]
    control_server_type: Annotated[str, name()]
    private_nodes: Annotated[bool, created_only(flag())]
    nat_server_type: Annotated[str, name()]
    gateway: Annotated[OwnGateway, plain(_gateway, GATEWAY, OwnGateway())]
    control_count: Annotated[int, program_only(odd_number(CONTROL_COUNTS))]
    control_locations: Annotated[tuple[str, ...], program_only(names(max(CONTROL_COUNTS)))]
    api_endpoint: Annotated[str, created_only(choice(API_ENDPOINTS))]
    worker_server_type: Annotated[str, name()]
    worker_count: Annotated[int, number(0, MAX_WORKERS)]
    pools: Annotated[tuple[Pool, ...], Type(parse_pools, ())]
    fallbacks: Annotated[tuple[Fallback, ...], program_only(Type(parse_fallbacks, ()))]
    drain_seconds: Annotated[int, number(0, MAX_DRAIN_SECONDS)]
    max_unavailable: Annotated[int, program_only(number(1, MAX_WORKERS))]
    autoscaler_image: Annotated[str, matching(*_IMAGE)]
    image: Annotated[str, name()]
    labels: Annotated[Mapping[str, str], cloud_labels()]
    network_cidr: Annotated[ipaddress.IPv4Network, cidr()]
    subnet_cidr: Annotated[ipaddress.IPv4Network, cidr()]
    import_network: Annotated[str, matching(*_NETWORK_ID)]
    cluster_cidr: Annotated[ipaddress.IPv4Network, cidr()]
    service_cidr: Annotated[ipaddress.IPv4Network, cidr()]
    k3s_channel: Annotated[str, created_only(matching(*_K3S_CHANNEL))]
    k3s_version: Annotated[str, matching(*_K3S_VERSION)]
    k3s_install_url: Annotated[str, matching(*_K3S_INSTALLER)]
    k3s_disable: Annotated[tuple[str, ...], created_only(several(COMPONENTS))]
    cni: Annotated[str, created_only(choice(CNIS))]
    ingress: Annotated[str, created_only(program_only(choice(INGRESSES)))]
    ccm_image: Annotated[str, or_nothing(*_IMAGE)]
    cloud_provider_name: Annotated[str, choice(PROVIDERS)]
    hcloud_endpoint: Annotated[str, or_nothing(_URL, _URL_ALLOWED)]
    kubeconfig_path: Annotated[str, program_only(file())]
    ssh_allowed_cidrs: Annotated[tuple[str, ...], sources(unset=SOURCES_REQUIRED)]
    node_port_allowed_cidrs: Annotated[tuple[str, ...], sources()]
    protect: Annotated[bool, flag()]
    allow_deletion_of: Annotated[tuple[str, ...], ids()]
    etcd_snapshots: Annotated[Backups, created_only(program_only(Type(parse_backups, Backups())))]
    restore_from: Annotated[str, created_only(program_only(snapshot()))]
    os_upgrades: Annotated[RebootWindow | None, created_only(Type(parse_window, None))]
    kured_image: Annotated[str, matching(*_IMAGE)]
    pods_reach_metadata: Annotated[bool, flag()]
    pod_security: Annotated[str, created_only(choice(POD_SECURITY))]
    taint_control_servers: Annotated[bool, created_only(flag())]

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
        pool, setting = self.worker_pools[index], self.pools[index] if self.pools else Pool()
        own = f"{key_of('pools')}[{index}]"
        keys = Keys(
            f"{own}.serverType" if setting.server_type else key_of("worker_server_type"),
            f"{own}.location" if setting.location else key_of("location"),
            f"{own}.image" if setting.image else key_of("image"),
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
        chosen = self.fallbacks if fallbacks is None else fallbacks
        places = [fallback.instead_of(wanted) for fallback in chosen]
        alternatives = tuple(place for place in dict.fromkeys(places) if place != wanted)
        more = {"pool": kind.value, "image": self.image, "cluster": self.cluster_name, **more}
        return ServerSpec(role, kind, wanted, keys, alternatives, **more)

    @property
    def worker_pools(self) -> tuple[Pool, ...]:
        """All pools of workers, complete. If ``pools`` is empty, one pool of ``worker_count``."""
        pools = self.pools or (Pool(SHORT_FORM, self.worker_count),)
        return tuple(
            replace(
                pool,
                server_type=pool.server_type or self.worker_server_type,
                location=pool.location or self.location,
                image=pool.image or self.image,
                max_unavailable=pool.max_unavailable or self.max_unavailable,
                public_ipv4=not self.private_nodes if pool.public_ipv4 is None else pool.public_ipv4,
            )
            for pool in pools
        )

    @property
    def outlives_servers(self) -> bool:
        """Whether the cluster survives the replacement of a control server: it has etcd."""
        return self.control_count > 1 or bool(self.etcd_snapshots)

    @property
    def has_private(self) -> bool:
        """Whether some servers have no public address."""
        return self.private_nodes or any(not pool.public_ipv4 for pool in self.worker_pools)

    @property
    def has_nat(self) -> bool:
        """Whether the program creates a NAT server."""
        return self.has_private and not self.gateway

    @property
    def makes_balancers(self) -> bool:
        """Whether the program creates load balancers: of the Kubernetes API, or of an ingress."""
        wanted = self.api_endpoint != SERVER_ENDPOINT or self.ingress != INGRESSES[0]
        return wanted and not self.kubeconfig_path

    @property
    def autoscaled_pools(self) -> tuple[Pool, ...]:
        """The pools whose servers the cluster-autoscaler creates and removes."""
        return tuple(pool for pool in self.worker_pools if pool.max is not None)

    @property
    def workers(self) -> int:
        """Maximum number of workers in all pools."""
        return sum(pool.max_size for pool in self.worker_pools)
