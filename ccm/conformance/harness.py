"""What the author of a cloud tells the suite: how things happen there."""

from __future__ import annotations

import abc

import pytest

from ccm.cloud import Cloud, Instances, LoadBalancers, Routes, ServicePort, ServiceView


class Harness(abc.ABC):
    """A started cloud, and a hand that changes its world. What a cloud can't do skips the test.

    Attributes:
        cloud: Started.
        foreign_provider_id: One that is not this cloud's.
    """

    cloud: Cloud
    foreign_provider_id: str = "elsewhere://1"

    @abc.abstractmethod
    async def add_machine(self, name: str) -> str:
        """Have a running machine, in the network if there are routes, and return its provider ID."""

    async def remove_machine(self, provider_id: str) -> None:
        """Have it no more."""
        pytest.skip(f"machines can't be removed here ({provider_id})")

    async def power_off(self, provider_id: str) -> None:
        """Shut it down."""
        pytest.skip(f"machines can't be shut down here ({provider_id})")

    async def go_blind(self) -> None:
        """Let the cloud answer nothing, or only errors."""
        pytest.skip("this cloud always answers")

    def service(self, name: str = "web", *, port: int = 80) -> ServiceView:
        """A Service that the cloud's load balancers can serve."""
        ports = (ServicePort(port, 30000 + port),)
        return ServiceView("conformance", name, uid=f"uid-of-{name}", ports=ports)

    @property
    def instances(self) -> Instances:
        """The cloud's machines."""
        assert self.cloud.instances is not None, "the cloud has no instances"
        return self.cloud.instances

    @property
    def load_balancers(self) -> LoadBalancers:
        """The cloud's load balancers."""
        assert self.cloud.load_balancers is not None, "the cloud has no load balancers"
        return self.cloud.load_balancers

    @property
    def routes(self) -> Routes:
        """The cloud's routes."""
        assert self.cloud.routes is not None, "the cloud has no routes"
        return self.cloud.routes
