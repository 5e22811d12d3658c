"""The adapter between the conformance suite and a cloud; the author of the cloud implements it."""

import abc
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Self

import pytest

from ccm.cloud import Cloud, Instances, LoadBalancers, Routes, ServicePort, ServiceView


class Harness(abc.ABC):
    """A cloud, and methods that change its resources. Tests that need a missing method are skipped."""

    cloud: Cloud  # :meth:`opened` starts and closes it
    factory: Callable[..., Cloud] | None = None  # of the entry point, as ``staticmethod(open_cloud)``
    foreign_provider_id: str = "elsewhere://1"  # a provider ID of another cloud

    @classmethod
    @asynccontextmanager
    async def opened(cls) -> AsyncGenerator[Self, None]:
        """Start the cloud for one test. Override this method if your cloud needs more preparation."""
        harness = cls()
        await harness.cloud.start()
        try:
            yield harness
        finally:
            await harness.cloud.close()

    @abc.abstractmethod
    async def add_machine(self, name: str) -> str:
        """Create a running machine and return its provider ID. If there are routes, it's in the network."""

    async def remove_machine(self, provider_id: str) -> None:
        """Delete the machine."""
        pytest.skip(f"this harness can't remove machines ({provider_id})")

    async def power_off(self, provider_id: str) -> None:
        """Shut down the machine."""
        pytest.skip(f"this harness can't shut down machines ({provider_id})")

    async def power_on(self, provider_id: str) -> None:
        """Start the machine again."""
        pytest.skip(f"this harness can't start machines ({provider_id})")

    async def make_unavailable(self) -> None:
        """Make the cloud return errors, or no responses."""
        pytest.skip("this cloud always answers")

    async def make_available(self) -> None:
        """Make the cloud available again."""
        pytest.skip("this cloud always answers")

    async def exhaust_quota(self) -> None:
        """Make the cloud refuse requests because of the quota."""
        pytest.skip("this cloud has no quota")

    async def lose_responses(self) -> None:
        """Make the cloud apply the next change without returning a response."""
        pytest.skip("this harness can't lose responses")

    async def create_foreign_resources(self) -> None:
        """Create load balancers and routes that belong to others."""
        pytest.skip("this harness can't create load balancers and routes that belong to others")

    async def foreign_resources(self) -> object:
        """The load balancers and routes of others, for a comparison."""
        pytest.skip("this harness can't list load balancers and routes that belong to others")

    def service(self, name: str = "web", *, port: int = 80, uid: str = "") -> ServiceView:
        """A Service that the cloud's load balancers can serve."""
        ports = (ServicePort(port, 30000 + port),)
        return ServiceView("conformance", name, uid=uid or f"uid-of-{name}", ports=ports)

    @property
    def instances(self) -> Instances:
        """The cloud's machines; skips the test if it has none."""
        if self.cloud.instances is None:
            pytest.skip("the cloud has no instances")
        return self.cloud.instances

    @property
    def load_balancers(self) -> LoadBalancers:
        """The cloud's load balancers; skips the test if it has none."""
        if self.cloud.load_balancers is None:
            pytest.skip("the cloud has no load balancers")
        return self.cloud.load_balancers

    @property
    def routes(self) -> Routes:
        """The cloud's routes; skips the test if it has none."""
        if self.cloud.routes is None:
            pytest.skip("the cloud has no routes")
        return self.cloud.routes
