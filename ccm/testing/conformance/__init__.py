"""A test suite that any cloud can run against its own implementation of :mod:`ccm.cloud`: a pytest plugin.

In a subclass of :class:`Harness`, implement how your cloud creates and deletes machines. Then either run the
whole suite without your own tests::

    pytest -p ccm.testing.conformance --pyargs ccm.testing.conformance.suite --ccm-harness=MODULE:CLASS

or inherit the needed classes in your own tests, with ``-p ccm.testing.conformance`` in pytest's ``addopts``::

    class TestMyCloud(InstancesConformance, NodeControllersConformance): ...

Tests of features that the cloud or the harness lacks are skipped. Needs the extra ``conformance``.
docs/tutorial/6-another-cloud.md has a complete example.
"""

from ccm.testing.conformance.plugin import MODULES, harness_named_by_option, pytest_addoption

# isort: split
# pytest explains failed assertions in these modules only if they are registered before their import.
import pytest

pytest.register_assert_rewrite(*MODULES)

# isort: split
from ccm.testing.conformance.cloud import CloudConformance  # noqa: E402
from ccm.testing.conformance.harness import Harness  # noqa: E402
from ccm.testing.conformance.instances import InstancesConformance  # noqa: E402
from ccm.testing.conformance.load_balancers import LoadBalancersConformance  # noqa: E402
from ccm.testing.conformance.node_controllers import NodeControllersConformance  # noqa: E402
from ccm.testing.conformance.route_controller import RouteControllerConformance  # noqa: E402
from ccm.testing.conformance.routes import RoutesConformance  # noqa: E402
from ccm.testing.conformance.service_controller import ServiceControllerConformance  # noqa: E402

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
