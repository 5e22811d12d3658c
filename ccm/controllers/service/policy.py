"""What a Service asks for. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ccm.cloud import Ingress, ServicePort, ServiceView
from ccm.controllers.names import CLEANUP_FINALIZER
from ccm.kube.objects import LoadBalancerIngress, Service

# Of a Service, that are kept and that a cloud gets to see. Tens of thousands fit into an object, each takes a
# quarter of a KiB of memory, and no load balancer takes more than dozens.
MOST_PORTS = 128


@dataclass(frozen=True, slots=True)
class Classes:
    """Which Services are ours.

    Attributes:
        names: Values of ``spec.loadBalancerClass`` that we answer to.
        without: Whether Services without a class are ours too; off = run beside another controller that takes
            them.
    """

    names: frozenset[str] = frozenset()
    without: bool = True

    def contain(self, service: Service) -> bool:
        """Whether a Service's class is one of these."""
        chosen = service.spec.load_balancer_class
        return chosen in self.names if chosen else self.without


def wants_load_balancer(service: Service) -> bool:
    """Whether a Service is to have a load balancer, whoever makes it."""
    return service.spec.type == "LoadBalancer" and service.metadata.deletion_timestamp is None


def has_finalizer(service: Service) -> bool:
    """Whether somebody promised to clean up before the Service vanishes."""
    return CLEANUP_FINALIZER in service.metadata.finalizers


def needs_cleanup(service: Service) -> bool:
    """Whether what was made for the Service has to go."""
    return has_finalizer(service) and not wants_load_balancer(service)


def relevant(service: Service) -> tuple[object, ...]:
    """What a load balancer is made from. If two of these are equal, nothing is to be done."""
    spec = service.spec
    return (
        service.metadata.uid,
        spec.type,
        spec.load_balancer_class,
        spec.load_balancer_source_ranges,
        spec.ports,
        spec.session_affinity,
        spec.session_affinity_config,
        spec.load_balancer_ip,
        spec.external_ips,
        service.metadata.annotations,
        spec.external_traffic_policy,
        spec.health_check_node_port,
        len(spec.ip_families),
        service.metadata.deletion_timestamp is None,
    )


def view_of(service: Service, *, hosts_excluded: bool = False) -> ServiceView:
    """What a cloud gets to see of a Service; ``hosts_excluded``: see :class:`~ccm.cloud.ServiceView`."""
    metadata, spec = service.metadata, service.spec
    return ServiceView(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        annotations=metadata.annotations,
        ports=tuple(
            ServicePort(one.port, one.node_port, one.protocol, one.name) for one in spec.ports[:MOST_PORTS]
        ),
        external_traffic_policy=spec.external_traffic_policy or "Cluster",
        health_check_node_port=spec.health_check_node_port,
        source_ranges=spec.load_balancer_source_ranges,
        load_balancer_ip=spec.load_balancer_ip,
        ip_families=spec.ip_families,
        session_affinity=spec.session_affinity or "None",
        load_balancer_class=spec.load_balancer_class or "",
        addresses=tuple(one.ip or one.hostname for one in service.status.load_balancer.ingress),
        hosts_excluded=hosts_excluded,
    )


def status_of(ingress: tuple[Ingress, ...]) -> tuple[LoadBalancerIngress, ...]:
    """A cloud's answer as a Service's status has it, with the mode that the API server would put in."""
    return tuple(
        LoadBalancerIngress(
            ip=one.ip, hostname=one.hostname, ip_mode=one.ip_mode or ("VIP" if one.ip else None)
        )
        for one in ingress
    )
