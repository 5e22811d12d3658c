"""Load balancers: external traffic for Services."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from ccm.cloud.errors import Ingress, Notice
from ccm.cloud.instances import NodeView


@dataclass(frozen=True, slots=True)
class ServicePort:
    """A port of a Service. ``node_port`` 0 means none; ``protocol`` is TCP, UDP or SCTP."""

    port: int
    node_port: int
    protocol: str = "TCP"
    name: str = ""


@dataclass(frozen=True, slots=True)
class ServiceView:
    """The fields of a Service of type LoadBalancer that a cloud receives."""

    namespace: str
    name: str
    uid: str
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    ports: tuple[ServicePort, ...] = ()
    external_traffic_policy: str = "Cluster"
    health_check_node_port: int = 0
    source_ranges: tuple[str, ...] = ()
    load_balancer_ip: str = ""
    ip_families: tuple[str, ...] = ()
    session_affinity: str = "None"
    load_balancer_class: str = ""
    # addresses in the status, which prove that the Service had a load balancer; not a part of its spec
    addresses: tuple[str, ...] = field(default=(), compare=False)
    # Whether each Node is excluded by its label or is being deleted. If False, a cloud keeps the present
    # targets when no Node can be a target.
    hosts_excluded: bool = field(default=False, compare=False)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def has_ipv4(self) -> bool:
        """Whether the Service uses IPv4; without IP families, it does."""
        return not self.ip_families or "IPv4" in self.ip_families


@dataclass(frozen=True, slots=True)
class LoadBalancerResult:
    """The result of the reconciliation of a load balancer."""

    ingress: tuple[Ingress, ...]
    steps: tuple[str, ...] = ()  # descriptions of the changes, in order
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Orphan:
    """A resource of a Service that no longer exists. ``what`` describes the resource."""

    namespace: str
    name: str
    uid: str
    what: str


@runtime_checkable
class KnowsOthers(Protocol):
    """Optional for load balancers: a comparison with other cloud-controller-managers."""

    @property
    def others(self) -> Collection[str]:
        """The names of the other cloud-controller-managers."""
        ...

    async def differences(self, service: ServiceView, other: str) -> Sequence[str]:
        """Describe what the other CCM handles differently, and the remedies. Raises CloudError."""
        ...


@runtime_checkable
class ChoosesAnnotations(Protocol):
    """Optional for load balancers: a filter for cached annotations, which saves memory."""

    def annotations_to_keep(self, annotations: Mapping[str, str]) -> Mapping[str, str]:
        """Return the annotations of a Service that the other methods need.

        The function is pure, fast and idempotent. The size of its result is limited, because tenants can
        write 256 KiB into each of their Services.
        """
        ...


class LoadBalancers(Protocol):
    """Manages load balancers. All methods are idempotent and serialize work on the same load balancer."""

    async def find(self, service: ServiceView) -> LoadBalancerResult | None:
        """Return the load balancer of a Service, or None. Raises CloudError if the state is unknown."""
        ...

    async def plan(self, service: ServiceView, nodes: Sequence[NodeView]) -> Sequence[str]:
        """Return the steps that :meth:`ensure` would execute now. Raises CloudError.

        Lines that begin with ``note: `` aren't steps. They describe differences that remain.
        """
        ...

    async def ensure(self, service: ServiceView, nodes: Sequence[NodeView]) -> LoadBalancerResult:
        """Create or update the load balancer. If nothing changes, the cloud sends no request.

        Raises:
            RetryAfter: The controller retries after a fixed time.
            ImplementedElsewhere: Another component is responsible for the Service.
            CloudError: Some changes failed. The other changes are complete; ``ingress`` has the addresses.
        """
        ...

    async def delete(self, service: ServiceView) -> LoadBalancerResult:
        """Delete all resources of the Service, also incomplete ones.

        A result without steps means that the Service had no resources. Raises CloudError if some remain.
        """
        ...

    async def orphans(self, services: Collection[str]) -> Sequence[Orphan]:
        """List resources of this cluster's Services that no longer exist. Deletes nothing.

        ``services`` are the UIDs of all Services that have or need a load balancer. Raises CloudError.
        """
        ...
