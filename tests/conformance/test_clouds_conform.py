"""Every cloud that comes with us keeps the contract of ccm.cloud."""

from __future__ import annotations

from collections.abc import AsyncIterator

import emulated_cloud
import pytest

from ccm.cloud import CloudUnavailable, Instance, ServiceView
from ccm.cloud.fake import FakeCloud
from ccm.cloud.sample import open_cloud as open_sample
from ccm.conformance import (
    ControllersConformance,
    Harness,
    InstancesConformance,
    LoadBalancersConformance,
    RoutesConformance,
)
from ccm.hetzner import HetznerCloud, open_cloud


class FakeHarness(Harness):
    def __init__(self) -> None:
        self.cloud: FakeCloud = FakeCloud.complete()
        self.count = 0

    async def add_machine(self, name: str) -> str:
        self.count += 1
        provider_id = f"fake://{self.count}"
        self.cloud.instances.add(Instance(provider_id, name))
        self.cloud.routes.attach(provider_id, name, f"10.0.0.{self.count}")
        return provider_id

    async def remove_machine(self, provider_id: str) -> None:
        self.cloud.instances.remove(provider_id)

    async def power_off(self, provider_id: str) -> None:
        self.cloud.instances.shut_down(provider_id)

    async def go_blind(self) -> None:
        for call in ("get", "list", "find", "ensure", "delete-load-balancer", "list-routes"):
            self.cloud.script.fail(call, CloudUnavailable("blind"))


class TestFakeCloud(
    InstancesConformance, LoadBalancersConformance, RoutesConformance, ControllersConformance
):
    @pytest.fixture
    def harness(self) -> FakeHarness:
        return FakeHarness()


class SampleHarness(Harness):
    def __init__(self) -> None:
        self.machines: dict[str, str] = {}
        self.cloud = open_sample({})
        self.cloud.instances._machines = self.machines

    async def add_machine(self, name: str) -> str:
        self.machines[name] = "192.0.2.1"
        return f"sample://{name}"

    async def remove_machine(self, provider_id: str) -> None:
        del self.machines[provider_id.removeprefix("sample://")]


class TestSampleCloud(InstancesConformance, ControllersConformance):
    @pytest.fixture
    def harness(self) -> SampleHarness:
        return SampleHarness()


class HetznerHarness(Harness):
    def __init__(self, sky: emulated_cloud.EmulatedCloud, cloud: HetznerCloud, network: int) -> None:
        self.sky, self.cloud, self.network = sky, cloud, network

    async def add_machine(self, name: str) -> str:
        server = await self.sky.add_server(name, networks=[self.network])
        return f"{self.cloud.name}://{server['id']}"

    async def remove_machine(self, provider_id: str) -> None:
        await self.sky.call("DELETE", f"/servers/{_number(provider_id)}")

    async def power_off(self, provider_id: str) -> None:
        await self.sky.call("POST", f"/servers/{_number(provider_id)}/actions/poweroff")

    async def go_blind(self) -> None:
        await self.sky.fault(path="/*", code="unauthorized")

    def service(self, name: str = "web", *, port: int = 80) -> ServiceView:
        view = super().service(name, port=port)
        location = {"load-balancer.hetzner.cloud/location": "fsn1"}
        return ServiceView(view.namespace, view.name, view.uid, annotations=location, ports=view.ports)


def _number(provider_id: str) -> str:
    return provider_id.rsplit("/", 1)[-1]


class TestHetznerCloud(
    InstancesConformance, LoadBalancersConformance, RoutesConformance, ControllersConformance
):
    @pytest.fixture(params=["ccm-from-scratch", "hcloud"])
    async def harness(self, request: pytest.FixtureRequest) -> AsyncIterator[HetznerHarness]:
        sky = await emulated_cloud.start()
        network = await sky.network("net")
        chosen = {
            "HCLOUD_NETWORK": "net",
            "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true",
            "HCLOUD_METRICS_ENABLED": "false",
        }
        cloud = open_cloud(sky.environment | chosen, provider=request.param)
        await cloud.start()
        yield HetznerHarness(sky, cloud, network)
        await cloud.close()
        await emulated_cloud.stop(sky)
