"""Every test of the suite, for the harness that ``--ccm-harness`` names."""

from __future__ import annotations

from ccm.conformance.cloud import CloudConformance
from ccm.conformance.instances import InstancesConformance
from ccm.conformance.load_balancers import LoadBalancersConformance
from ccm.conformance.node_controllers import NodeControllersConformance
from ccm.conformance.route_controller import RouteControllerConformance
from ccm.conformance.routes import RoutesConformance
from ccm.conformance.service_controller import ServiceControllerConformance


class TestCloud(CloudConformance):
    """The cloud as a whole."""


class TestInstances(InstancesConformance):
    """Its machines."""


class TestLoadBalancers(LoadBalancersConformance):
    """Its load balancers."""


class TestRoutes(RoutesConformance):
    """Its routes."""


class TestNodeControllers(NodeControllersConformance):
    """What node and node lifecycle controller make of it."""


class TestServiceController(ServiceControllerConformance):
    """What the service controller makes of it."""


class TestRouteController(RouteControllerConformance):
    """What the route controller makes of it."""
