"""A test suite that any cloud can run against its own implementation of :mod:`ccm.cloud`: a pytest plugin.

Say how machines come and go in your cloud in a subclass of :class:`Harness`. Then either run the whole suite
without writing a test::

    pytest -p ccm.conformance --pyargs ccm.conformance.suite --ccm-harness=my_cloud.harness:MyHarness

or inherit what you want in tests of your own, with ``-p ccm.conformance`` in pytest's ``addopts``::

    class TestMyCloud(InstancesConformance, NodeControllersConformance): ...

What the cloud, or the harness, does not offer is skipped. Needs the extra ``conformance``.
docs/tutorial/6-another-cloud.md has a complete example.
"""

from ccm.conformance.plugin import MODULES, harness_named_by_option, pytest_addoption

# isort: split
# pytest explains failed assertions in these modules only if it hears of them before they are imported.
import pytest

pytest.register_assert_rewrite(*MODULES)

# isort: split
from ccm.conformance.cloud import CloudConformance  # noqa: E402
from ccm.conformance.harness import Harness  # noqa: E402
from ccm.conformance.instances import InstancesConformance  # noqa: E402
from ccm.conformance.load_balancers import LoadBalancersConformance  # noqa: E402
from ccm.conformance.node_controllers import NodeControllersConformance  # noqa: E402
from ccm.conformance.route_controller import RouteControllerConformance  # noqa: E402
from ccm.conformance.routes import RoutesConformance  # noqa: E402
from ccm.conformance.service_controller import ServiceControllerConformance  # noqa: E402

__all__ = [
    "CloudConformance",
    "Harness",
    "InstancesConformance",
    "LoadBalancersConformance",
    "NodeControllersConformance",
    "RouteControllerConformance",
    "RoutesConformance",
    "ServiceControllerConformance",
    "harness_named_by_option",
    "pytest_addoption",
]
