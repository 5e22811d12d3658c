"""What :class:`ccm.cloud.Cloud` and a cloud's factory promise."""

import pytest
from prometheus_client import CollectorRegistry

from ccm.cloud import ConfigurationError
from ccm.testing.conformance.harness import Harness


@pytest.mark.asyncio
class CloudConformance:
    """Inherit it in a class ``Test…``."""

    async def test_it_says_what_it_is(self, harness: Harness) -> None:
        assert harness.cloud.name
        assert harness.cloud.name == harness.cloud.name.strip()
        assert isinstance(harness.cloud.has_cluster_id, bool)

    async def test_it_offers_something(self, harness: Harness) -> None:
        cloud = harness.cloud
        assert any(one is not None for one in (cloud.instances, cloud.load_balancers, cloud.routes))

    async def test_started_it_is_well(self, harness: Harness) -> None:
        """The readiness check calls it often, and must not wait for the cloud."""
        assert harness.cloud.healthy() is None

    async def test_it_may_be_closed_twice(self, harness: Harness) -> None:
        await harness.cloud.close()

    async def test_its_factory_does_nothing_and_tells_everything(self, harness: Harness) -> None:
        if harness.factory is None:
            pytest.skip("the harness names no factory")
        try:
            cloud = harness.factory({}, provider=harness.cloud.name, registry=CollectorRegistry())
        except ConfigurationError as error:
            problems = list(error.problems)
        else:
            assert cloud.name == harness.cloud.name
            await cloud.close()
            return
        assert problems
        assert all(problem.strip() for problem in problems)
