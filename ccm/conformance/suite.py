"""Every test of the suite, for the harness that ``--ccm-harness`` names."""

from __future__ import annotations

from ccm.conformance.cloud import CloudConformance as TestCloud
from ccm.conformance.instances import InstancesConformance as TestInstances
from ccm.conformance.load_balancers import LoadBalancersConformance as TestLoadBalancers
from ccm.conformance.node_controllers import NodeControllersConformance as TestNodeControllers
from ccm.conformance.route_controller import RouteControllerConformance as TestRouteController
from ccm.conformance.routes import RoutesConformance as TestRoutes
from ccm.conformance.service_controller import ServiceControllerConformance as TestServiceController

__all__ = [
    "TestCloud",
    "TestInstances",
    "TestLoadBalancers",
    "TestNodeControllers",
    "TestRouteController",
    "TestRoutes",
    "TestServiceController",
]
