"""The table of controllers: how to create each controller, in the order of their start."""

import random as randomness
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ccm.cloud import Cloud
from ccm.controllers import node as node_controller
from ccm.controllers import node_lifecycle
from ccm.controllers import route as route_controller
from ccm.controllers.nodes import trim_node
from ccm.controllers.route import WATCH_BASED, RouteOptions, parse_additional_cidrs, parse_cluster_cidrs
from ccm.controllers.service import controller as service_controller
from ccm.controllers.service.policy import Classes
from ccm.controllers.service.transform import service_transform
from ccm.kube.backoff import node_limiter, slow_limiter
from ccm.kube.events import EventRecorder
from ccm.kube.informer import Informer
from ccm.kube.objects import Node, Service
from ccm.kube.protocol import Transport
from ccm.manager.flags.flag_table import NODE, NODE_LIFECYCLE, ROUTE, SERVICE
from ccm.manager.metrics import Metrics
from ccm.manager.options import Options


class Controller(Protocol):
    """The interface of a controller for the manager."""

    async def run(self) -> None:
        """Run the controller until cancelled."""
        ...

    def healthy(self) -> str | None:
        """An error message, or None if the controller is healthy. Doesn't block."""
        ...


@dataclass(slots=True)
class ControllerContext:
    """The arguments for controllers. Controllers that read the same collection share an informer."""

    cloud: Cloud
    transport: Transport
    recorder: EventRecorder
    options: Options
    metrics: Metrics
    random: Callable[[], float] = randomness.random
    informers: dict[str, Informer[Any]] = field(default_factory=dict[str, Informer[Any]])

    @property
    def nodes(self) -> Informer[Node]:
        """The informer of all Nodes."""
        return self._informer("/api/v1/nodes", Node, trim_node)

    @property
    def services(self) -> Informer[Service]:
        """The informer of all Services."""
        return self._informer("/api/v1/services", Service, service_transform(self.cloud.load_balancers))

    def _informer(self, path: str, kind: type[Any], transform: Callable[[Any], Any]) -> Informer[Any]:
        if path not in self.informers:
            # Random periods (one to two), so that informers don't resync at the same time.
            resync = self.options.flags["min-resync-period"] * (1 + self.random())
            self.informers[path] = Informer(self.transport, path, kind, resync=resync, transform=transform)
        return self.informers[path]


def node_options(options: Options) -> node_controller.NodeOptions:
    """The node controller's options from the flags."""
    flags = options.flags
    return node_controller.NodeOptions(
        concurrent_syncs=options.node_syncs,
        concurrent_status_updates=flags["concurrent-node-status-updates"],
        status_update_frequency=flags["node-status-update-frequency"],
        refresh_labels=flags["refresh-node-labels"],
    )


def lifecycle_options(options: Options) -> node_lifecycle.NodeLifecycleOptions:
    """The node lifecycle controller's options from the flags."""
    flags = options.flags
    return node_lifecycle.NodeLifecycleOptions(
        monitor_period=flags["node-monitor-period"],
        confirmations=flags["node-deletion-confirmations"],
        delete_without_provider_id=flags["delete-nodes-without-provider-id"],
        out_of_service=flags["node-out-of-service-taint"],
        concurrent_syncs=flags["concurrent-node-lifecycle-syncs"],
        mass_deletion_breaker=flags["mass-deletion-breaker"],
    )


def route_options(options: Options) -> RouteOptions:
    """The route controller's options from the flags. Raises ConfigurationError if a range is invalid."""
    flags = options.flags
    return RouteOptions(
        cluster_cidrs=parse_cluster_cidrs(flags["cluster-cidr"]),
        more_cidrs=parse_additional_cidrs(flags["additional-route-cidrs"]),
        reconciliation_period=flags["route-reconciliation-period"],
        watch_based=flags["feature-gates"].get(WATCH_BASED, False),
        mass_deletion_breaker=flags["mass-deletion-breaker"],
    )


# The builders are similar, but separate, because each call shows which parts of the cloud, flags and metrics
# the controller needs.
def _node(context: ControllerContext) -> Controller | None:
    instances = context.cloud.instances
    if instances is None:
        return None
    return node_controller.NodeController(
        instances,
        context.transport,
        context.nodes,
        context.recorder.for_component(node_controller.COMPONENT),
        node_options(context.options),
        registry=context.metrics.registry,
        queue=context.metrics.queue(node_controller.QUEUE, node_limiter()),
    )


def _node_lifecycle(context: ControllerContext) -> Controller | None:
    instances = context.cloud.instances
    if instances is None:
        return None
    return node_lifecycle.NodeLifecycleController(
        instances,
        context.transport,
        context.nodes,
        context.recorder.for_component(node_lifecycle.COMPONENT),
        lifecycle_options(context.options),
        registry=context.metrics.registry,
    )


def _service(context: ControllerContext) -> Controller | None:
    load_balancers, flags = context.cloud.load_balancers, context.options.flags
    if load_balancers is None:
        return None
    return service_controller.ServiceController(
        load_balancers,
        context.transport,
        context.services,
        context.nodes,
        context.recorder.for_component(service_controller.COMPONENT),
        options=service_controller.ServiceOptions(
            concurrent_syncs=flags["concurrent-service-syncs"],
            resync_period=flags["service-resync-period"],
            classes=Classes(frozenset(flags["load-balancer-classes"]), flags["services-without-class"]),
        ),
        registry=context.metrics.registry,
        queue=context.metrics.queue(service_controller.QUEUE, slow_limiter()),
        node_queue=context.metrics.queue(service_controller.NODE_QUEUE, slow_limiter()),
    )


def build_route(context: ControllerContext) -> route_controller.RouteController | None:
    """The route controller; None if the cloud or the flags disable routes."""
    routes, options = context.cloud.routes, context.options
    if routes is None or not options.routes_wanted:
        return None
    return route_controller.RouteController(
        routes,
        context.transport,
        context.nodes,
        context.recorder.for_component(route_controller.COMPONENT),
        route_options(options),
        registry=context.metrics.registry,
        queue=context.metrics.queue(route_controller.QUEUE, slow_limiter()),
        about=options.lease_reference,
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the table; ``metric`` is the controller's name in ``running_managed_controllers``."""

    name: str
    metric: str
    build: Callable[[ControllerContext], Controller | None]


# In the order of the start: Nodes first, because load balancers and routes need them.
TABLE = (
    Entry(NODE, "cloud-node", _node),
    Entry(NODE_LIFECYCLE, "cloud-node-lifecycle", _node_lifecycle),
    Entry(SERVICE, "service", _service),
    Entry(ROUTE, "route", build_route),
)
