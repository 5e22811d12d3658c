"""Every test of the suite, for the harness that ``--ccm-harness`` names."""

from ccm.testing.conformance.cloud import CloudConformance as TestCloud
from ccm.testing.conformance.instances import InstancesConformance as TestInstances
from ccm.testing.conformance.load_balancers import LoadBalancersConformance as TestLoadBalancers
from ccm.testing.conformance.node_controllers import NodeControllersConformance as TestNodeControllers
from ccm.testing.conformance.route_controller import RouteControllerConformance as TestRouteController
from ccm.testing.conformance.routes import RoutesConformance as TestRoutes
from ccm.testing.conformance.service_controller import ServiceControllerConformance as TestServiceController

__all__ = [
    "TestCloud",
    "TestInstances",
    "TestLoadBalancers",
    "TestNodeControllers",
    "TestRouteController",
    "TestRoutes",
    "TestServiceController",
]
