"""A project in the emulated cloud, with servers as Nodes and Services that want load balancers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import trustme
from prometheus_client import CollectorRegistry
from service_view import UID, view

from ccm.cloud import LoadBalancerResult, NodeView, ServiceView
from ccm.hetzner import HetznerCloud, open_cloud
from ccm.hetzner.load_balancers import HetznerLoadBalancers

__all__ = ["LABEL", "UID", "BalancerSite", "leave_to_official", "number", "targets", "upload", "view"]

LABEL = "hcloud-ccm/service-uid"


@dataclass
class BalancerSite:
    sky: Any
    cloud: HetznerCloud
    network: int
    nodes: list[NodeView] = field(default_factory=list)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    @classmethod
    async def open(cls, sky: Any, **environment: str) -> BalancerSite:
        network = await sky.network("net")
        site = cls(sky, None, network)  # type: ignore[arg-type]
        await site.restart(**environment)
        return site

    async def restart(self, *, network: bool = True, **environment: str) -> None:
        """A new process on the same project."""
        if self.cloud is not None:
            await self.cloud.close()
        settings = {
            "CCM_CLUSTER_ID": "c1",
            "CCM_ADOPT_NAMESPACES": "shop",
            "HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1",
        }
        if network:
            settings |= {"HCLOUD_NETWORK": "net", "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true"}
        self.registry = CollectorRegistry()
        self.cloud = open_cloud(self.sky.environment | settings | environment, registry=self.registry)
        await self.cloud.start()
        self.balancers.inventory.sleep = _no_pause
        await self.sky.forget_requests()

    async def close(self) -> None:
        await self.cloud.close()

    @property
    def balancers(self) -> HetznerLoadBalancers:
        assert self.cloud.load_balancers is not None
        return self.cloud.load_balancers

    async def add_nodes(self, *names: str, private: bool = True, **more: Any) -> list[NodeView]:
        added = [await self.add_node(name, private=private, **more) for name in names]
        await self.sky.forget_requests()
        return added

    async def add_node(self, name: str, *, private: bool = True, labels: Any = None, **more: Any) -> NodeView:
        server = await self.sky.add_server(name, networks=[self.network] if private else [], **more)
        node = NodeView(name, f"ccm-from-scratch://{server['id']}", labels=labels or {})
        self.nodes.append(node)
        return node

    async def ensure(
        self, service: ServiceView, nodes: Sequence[NodeView] | None = None
    ) -> LoadBalancerResult:
        return await self.balancers.ensure(service, self.nodes if nodes is None else nodes)

    async def all(self) -> list[dict[str, Any]]:
        return (await self.sky.call("GET", "/load_balancers"))["load_balancers"]

    async def one(self) -> dict[str, Any]:
        [balancer] = await self.all()
        return balancer

    async def make(self, name: str = "theirs", **more: Any) -> dict[str, Any]:
        """A load balancer that somebody else makes."""
        body = {"name": name, "load_balancer_type": "lb11", "location": "fsn1", **more}
        return (await self.sky.call("POST", "/load_balancers", body))["load_balancer"]

    async def act(self, number: int, action: str, **body: Any) -> None:
        """A change that somebody else makes."""
        await self.sky.call("POST", f"/load_balancers/{number}/actions/{action}", body)

    async def writes(self) -> int:
        """Requests since the last look away that changed something."""
        return sum(number for name, number in (await self.sky.counts()).items() if not name.startswith("GET"))

    async def requests(self) -> int:
        return sum((await self.sky.counts()).values())


async def upload(site: BalancerSite, name: str) -> int:
    issued = trustme.CA().issue_cert("shop.example.com")
    body = {
        "name": name,
        "certificate": issued.cert_chain_pems[0].bytes().decode(),
        "private_key": issued.private_key_pem.bytes().decode(),
    }
    return (await site.sky.call("POST", "/certificates", body))["certificate"]["id"]


async def leave_to_official(site: BalancerSite) -> None:
    """Have the load balancer look as if the official CCM had made all of it, to a new process."""
    balancer = await site.one()
    await site.sky.call("PUT", f"/load_balancers/{balancer['id']}", {"labels": {LABEL: UID}})
    await site.restart()


def targets(balancer: Mapping[str, Any]) -> dict[int, bool]:
    """Servers of a load balancer, and whether their private addresses are used."""
    return {
        one["server"]["id"]: one["use_private_ip"] for one in balancer["targets"] if one["type"] == "server"
    }


def number(node: NodeView) -> int:
    return int(node.provider_id.rpartition("/")[2])


async def _no_pause(_seconds: float) -> None:
    """Don't wait in tests."""
