"""Load balancers: how traffic from outside reaches a Service."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from ccm.cloud.errors import Ingress, Notice
from ccm.cloud.instances import NodeView


@dataclass(frozen=True, slots=True)
class ServicePort:
    """One port of a Service; a ``node_port`` of 0 was not given out. ``protocol``: TCP, UDP or SCTP."""

    port: int
    node_port: int
    protocol: str = "TCP"
    name: str = ""


@dataclass(frozen=True, slots=True)
class ServiceView:
    """What a cloud gets to see of a Service of type LoadBalancer.

    Attributes:
        addresses: Where its status has that it is reached: then it had a load balancer. What it had is
            nothing that is wanted, so it does not count when two views are compared.
        hosts_excluded: Whether each Node of the cluster was taken out on purpose: its label excludes it, or
            it is leaving. If not, a cloud keeps the present targets when no Node can be one.
    """

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
    addresses: tuple[str, ...] = field(default=(), compare=False)
    hosts_excluded: bool = field(default=False, compare=False)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def has_ipv4(self) -> bool:
        """Whether its node ports answer on IPv4, as far as it says."""
        return not self.ip_families or "IPv4" in self.ip_families


@dataclass(frozen=True, slots=True)
class LoadBalancerResult:
    """What came of making a load balancer as wanted.

    Attributes:
        ingress: How clients reach it.
        steps: What was changed, in words, in order; empty = it already was as wanted.
        notices: What the Service's owner should know.
    """

    ingress: tuple[Ingress, ...]
    steps: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Orphan:
    """``what`` was made, in words, for a Service that does not exist; the rest is the Service's."""

    namespace: str
    name: str
    uid: str
    what: str


@runtime_checkable
class KnowsOthers(Protocol):
    """Load balancers may also know what another cloud-controller-manager would make of a Service."""

    @property
    def others(self) -> Collection[str]:
        """The names of those that it knows."""
        ...

    async def differences(self, service: ServiceView, other: str) -> Sequence[str]:
        """Say what another could not read, or would act on otherwise, and what to do. Raises CloudError."""
        ...


@runtime_checkable
class ChoosesAnnotations(Protocol):
    """Load balancers may also say which annotations they read, so that no others take up memory.

    Without this, all are kept except kubectl's record of what was applied and what is beyond a bound.
    """

    def annotations_to_keep(self, annotations: Mapping[str, str]) -> Mapping[str, str]:
        """Choose what every other method gets to see of a Service's annotations. Pure, and quick.

        What comes out is bounded, whatever goes in: tenants write up to 256 KiB into each of any number of
        Services. Given its own answer, it returns the same.
        """
        ...


class LoadBalancers(Protocol):
    """Makes load balancers. Every method is idempotent and serializes work on the same load balancer."""

    async def find(self, service: ServiceView) -> LoadBalancerResult | None:
        """Look for a Service's load balancer; None = it has none. Raises CloudError: not known."""
        ...

    async def plan(self, service: ServiceView, nodes: Sequence[NodeView]) -> Sequence[str]:
        """Say, step by step and without doing it, what :meth:`ensure` would do now, and what it would leave.

        What it leaves is in lines that begin with ``note: ``, which are not steps. Raises CloudError.
        """
        ...

    async def ensure(self, service: ServiceView, nodes: Sequence[NodeView]) -> LoadBalancerResult:
        """Create the load balancer, or make it as wanted. Makes no call if nothing is to be changed.

        Raises:
            RetryAfter: Ask again after a fixed time.
            ImplementedElsewhere: Not for this cloud.
            CloudError: It is not as wanted. What could be done, has been done; ``ingress`` says how that is
                reached.
        """
        ...

    async def delete(self, service: ServiceView) -> LoadBalancerResult:
        """Remove everything that was made for the Service, partly made things too.

        No steps in the result: there was nothing. Raises CloudError: something is left.
        """
        ...

    async def orphans(self, services: Collection[str]) -> Sequence[Orphan]:
        """Say what was made for Services of this cluster that do not exist. Nothing is done about it.

        ``services`` are UIDs of all that have, or should have, a load balancer. Raises CloudError: not known.
        """
        ...
