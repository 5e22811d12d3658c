"""A test suite that any cloud can run against its own implementation of :mod:`ccm.cloud`. Needs pytest.

Say how machines come and go in your cloud, and inherit the tests of the capabilities that it has::

    from ccm.conformance import ControllersConformance, Harness, InstancesConformance

    class MyHarness(Harness): ...

    class TestMyCloud(InstancesConformance, ControllersConformance):
        @pytest.fixture
        async def harness(self):
            harness = MyHarness()
            yield harness
            await harness.cloud.close()

Put ``pytest_plugins = ["ccm.conformance"]`` into conftest.py, so that failed assertions show their values.
"""

import pytest

pytest.register_assert_rewrite(
    "ccm.conformance.instances",
    "ccm.conformance.load_balancers",
    "ccm.conformance.routes",
    "ccm.conformance.controllers",
)

from ccm.conformance.controllers import ControllersConformance  # noqa: E402 - after the line above
from ccm.conformance.harness import Harness  # noqa: E402
from ccm.conformance.instances import InstancesConformance  # noqa: E402
from ccm.conformance.load_balancers import LoadBalancersConformance  # noqa: E402
from ccm.conformance.routes import RoutesConformance  # noqa: E402

__all__ = [
    "ControllersConformance",
    "Harness",
    "InstancesConformance",
    "LoadBalancersConformance",
    "RoutesConformance",
]
