"""How things happen in each of the clouds that come with us."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import emulated_cloud

from ccm.cloud import CloudUnavailable, Instance, QuotaExhausted, Route, ServiceView
from ccm.cloud.sample import open_cloud as open_sample
from ccm.hetzner import HetznerCloud, open_cloud
from ccm.testing.conformance import Harness
from ccm.testing.fake_cloud import FakeCloud

READS = ("get", "list", "find", "list-routes")
CHANGES = ("ensure", "delete-load-balancer", "create-route", "delete-route")


class FakeHarness(Harness):
    def __init__(self) -> None:
        self.cloud: FakeCloud = FakeCloud.complete()
        self.count = 0

    async def add_machine(self, name: str) -> str:
        self.count += 1
        provider_id = f"fake://{self.count + 100}"
        self.cloud.instances.add(Instance(provider_id, name))
        self.cloud.routes.attach(provider_id, name, f"10.0.0.{self.count}")
        return provider_id

    async def remove_machine(self, provider_id: str) -> None:
        self.cloud.instances.remove(provider_id)
        left = {
            ip: machine
            for ip, machine in self.cloud.routes.table.machines.items()
            if machine.provider_id != provider_id
        }
        self.cloud.routes.table = replace(self.cloud.routes.table, machines=left)

    async def power_off(self, provider_id: str) -> None:
        self.cloud.instances.shut_down(provider_id)

    async def power_on(self, provider_id: str) -> None:
        self.cloud.instances.shut_down(provider_id, off=False)

    async def make_unavailable(self) -> None:
        for call in (*READS, *CHANGES):
            self.cloud.script.fail(call, CloudUnavailable("scripted"))

    async def make_available(self) -> None:
        for call in (*READS, *CHANGES):
            self.cloud.script.heal(call)

    async def exhaust_quota(self) -> None:
        for call in READS:
            self.cloud.script.fail(call, QuotaExhausted("later"))

    async def lose_responses(self) -> None:
        for call in ("ensure", "create-route"):
            self.cloud.script.fail_after(call, CloudUnavailable("lost"))

    async def create_foreign_resources(self) -> None:
        theirs = Route("10.99.0.0/24", "10.0.0.200")
        self.cloud.routes.table = replace(self.cloud.routes.table, routes=(theirs,))
        self.cloud.load_balancers.targets["theirs"] = ()

    async def foreign_resources(self) -> object:
        return self.cloud.routes.table.routes, "theirs" in self.cloud.load_balancers.targets


class SampleHarness(Harness):
    factory = staticmethod(open_sample)

    def __init__(self) -> None:
        self.machines: dict[str, str] = {}
        self.cloud = open_sample({})
        self.cloud.instances._machines = self.machines

    async def add_machine(self, name: str) -> str:
        self.machines[name] = "192.0.2.1"
        return f"sample://{name}"

    async def remove_machine(self, provider_id: str) -> None:
        del self.machines[provider_id.removeprefix("sample://")]


class HetznerHarness(Harness):
    provider = "ccm-from-scratch"
    factory = staticmethod(open_cloud)

    def __init__(self, sky: emulated_cloud.EmulatedCloud, cloud: HetznerCloud, network: int) -> None:
        self.sky, self.cloud, self.network = sky, cloud, network

    @classmethod
    @asynccontextmanager
    async def opened(cls) -> AsyncIterator[HetznerHarness]:
        sky = await emulated_cloud.start()
        network = await sky.network("net")
        chosen = {
            "HCLOUD_NETWORK": "net",
            "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true",
            "HCLOUD_METRICS_ENABLED": "false",
        }
        cloud = open_cloud(sky.environment | chosen, provider=cls.provider)
        await cloud.start()
        yield cls(sky, cloud, network)
        await cloud.close()
        await emulated_cloud.stop(sky)

    async def add_machine(self, name: str) -> str:
        server = await self.sky.add_server(name, networks=[self.network])
        return f"{self.cloud.name}://{server['id']}"

    async def remove_machine(self, provider_id: str) -> None:
        await self.sky.call("DELETE", f"/servers/{_number(provider_id)}")

    async def power_off(self, provider_id: str) -> None:
        await self.sky.call("POST", f"/servers/{_number(provider_id)}/actions/poweroff")

    async def power_on(self, provider_id: str) -> None:
        await self.sky.call("POST", f"/servers/{_number(provider_id)}/actions/poweron")

    async def make_unavailable(self) -> None:
        await self.sky.fault(path="/*", code="unauthorized")

    async def make_available(self) -> None:
        await self.sky.heal()

    async def exhaust_quota(self) -> None:
        # A request a minute: what is missing is not worth waiting for.
        await self.sky.admin("PUT", "/settings", {"rate_limit": 60, "rate_limit_remaining": 0})

    async def lose_responses(self) -> None:
        await self.sky.fault(method="[!G]*", drop="after", times=1)

    async def create_foreign_resources(self) -> None:
        theirs = {"name": "theirs", "load_balancer_type": "lb11", "location": "fsn1"}
        await self.sky.call("POST", "/load_balancers", theirs)
        route = {"destination": "10.99.0.0/24", "gateway": "10.0.0.200"}
        await self.sky.call("POST", f"/networks/{self.network}/actions/add_route", route)

    async def foreign_resources(self) -> object:
        state = await self.sky.admin("GET", "/state?kind=load_balancer&kind=network")
        balancers = [one for one in state["load_balancer"] if one["name"] == "theirs"]
        return balancers, [one for one in state["network"][0]["routes"] if "10.99" in one["destination"]]

    def service(self, name: str = "web", *, port: int = 80, uid: str = "") -> ServiceView:
        location = {"load-balancer.hetzner.cloud/location": "fsn1"}
        return replace(super().service(name, port=port, uid=uid), annotations=location)


class OfficialHetznerHarness(HetznerHarness):
    provider = "hcloud"


def _number(provider_id: str) -> str:
    return provider_id.rsplit("/", 1)[-1]


CLOUDS: dict[str, type[Harness]] = {
    "fake": FakeHarness,
    "sample": SampleHarness,
    "hetzner": HetznerHarness,
    "hetzner, official": OfficialHetznerHarness,
}
