"""`python -m ccm plan` on a cluster in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from manager_flags import options

from ccm.__main__ import main
from ccm.cloud import Address, CloudUnavailable, Instance, ServiceView
from ccm.cloud.fake import FakeCloud, FakeLoadBalancers
from ccm.controllers.names import UNINITIALIZED_TAINT
from ccm.errors import ConfigurationError
from ccm.kube.events import EventRecorder
from ccm.kube.memory import MemoryTransport
from ccm.manager import plan_command as plan
from ccm.manager.controllers import Workshop
from ccm.manager.metrics import Metrics
from ccm.manager.plan import Findings, compare, plan_for


@pytest.fixture
def shop() -> Workshop:
    transport = MemoryTransport()
    recorder = EventRecorder(transport, "plan")
    flags = options("--cluster-cidr=10.244.0.0/16", "--allocate-node-cidrs=true")
    return Workshop(FakeCloud.complete(), transport, recorder, flags, Metrics("0"))


def cluster(shop: Workshop) -> MemoryTransport:
    assert isinstance(shop.transport, MemoryTransport)
    return shop.transport


def put_service(shop: Workshop, name: str, **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], **spec}}
    cluster(shop).put("/api/v1/namespaces/shop/services", body)


async def test_services(shop: Workshop) -> None:
    put_service(shop, "web")
    put_service(shop, "inner", type="ClusterIP")
    put_service(shop, "theirs", loadBalancerClass="other")
    found = await plan_for("services", shop)
    assert found.steps == {"service shop/web": ["create"]}
    assert str(found) == "service shop/web\n  create"


@pytest.mark.parametrize("subject", ["service/web", "service/shop/web"])
async def test_one_service(shop: Workshop, subject: str) -> None:
    put_service(shop, "web")
    put_service(shop, "other")
    assert list((await plan_for(subject, shop)).steps) == ["service shop/web"]


async def test_what_is_left_of_services(shop: Workshop) -> None:
    put_service(shop, "web")
    cloud = shop.cloud
    assert isinstance(cloud, FakeCloud)
    assert cloud.load_balancers is not None
    await cloud.load_balancers.ensure(ServiceView("shop", "lost", "uid-lost"), [])
    expected = ["leave the load balancer of shop/lost alone: its Service (uid-lost) does not exist"]
    assert (await plan_for("services", shop)).steps["orphans"] == expected
    assert "orphans" not in (await plan_for("service/web", shop)).steps


async def test_nothing_is_changed(shop: Workshop) -> None:
    put_service(shop, "web")
    before = cluster(shop).all("/api/v1/services")
    await plan_for("", shop)
    assert cluster(shop).all("/api/v1/services") == before
    assert not [one for one in cluster(shop).requests if one.verb in ("patch", "create", "update", "delete")]
    cloud = shop.cloud
    assert isinstance(cloud, FakeCloud)
    assert cloud.load_balancers is not None
    assert cloud.load_balancers.targets == {}


async def test_nodes(shop: Workshop) -> None:
    taint = {"key": UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule"}
    cluster(shop).put("/api/v1/nodes", {"metadata": {"name": "new"}, "spec": {"taints": [taint]}})
    cluster(shop).put("/api/v1/nodes", {"metadata": {"name": "gone"}, "spec": {"providerID": "fake://9"}})
    cloud = shop.cloud
    assert isinstance(cloud, FakeCloud)
    assert cloud.instances is not None
    cloud.instances.add(
        Instance("fake://1", "new", type="small", addresses=(Address("InternalIP", "10.0.0.1"),))
    )
    found = await plan_for("nodes", shop)
    assert "set provider ID fake://1" in found.steps["node new"]
    assert "remove the taint of nodes that are not initialised" in found.steps["node new"]
    assert found.steps["node gone"] == [
        "delete the Node, once the cloud has confirmed that its machine does not exist"
    ]


async def test_routes(shop: Workshop) -> None:
    cluster(shop).put(
        "/api/v1/nodes",
        {
            "metadata": {"name": "a"},
            "spec": {"providerID": "fake://1", "podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"]},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
        },
    )
    cloud = shop.cloud
    assert isinstance(cloud, FakeCloud)
    assert cloud.routes is not None
    assert cloud.instances is not None
    cloud.instances.add(Instance("fake://1", "a"))
    cloud.routes.attach("fake://1", "a", "10.0.0.1")
    found = await plan_for("routes", shop)
    assert found.steps["routes"] == ["make route to 10.244.1.0/24 for node a"]


async def test_one_that_cannot_be_told_keeps_the_others(shop: Workshop) -> None:
    put_service(shop, "a")
    put_service(shop, "b")
    cloud = shop.cloud
    assert isinstance(cloud, FakeCloud)
    cloud.script.fail("plan", CloudUnavailable("no answer"), times=1)
    found = await plan_for("services", shop)
    assert found.errors == {"service shop/a": "no answer"}
    assert found.steps == {"service shop/b": ["create"]}


@pytest.mark.parametrize("subject", ["service/nothing", "servers"])
async def test_unknown_subjects(shop: Workshop, subject: str) -> None:
    with pytest.raises(ConfigurationError, match="plan: "):
        await plan_for(subject, shop)


class Comparing(FakeLoadBalancers):
    """Load balancers that know another cloud-controller-manager."""

    others = ("official",)

    async def differences(self, service: ServiceView, other: str) -> list[str]:
        return [f"{other} deletes {service.key}"] if service.name == "web" else []


async def test_what_another_would_make_of_it(shop: Workshop) -> None:
    put_service(shop, "web")
    put_service(shop, "plain")
    put_service(shop, "inner", type="ClusterIP")
    cloud = shop.cloud
    assert isinstance(cloud, FakeCloud)
    with pytest.raises(ConfigurationError, match="'official' is not known to this cloud; known: none"):
        await compare("", shop, "official")
    cloud.load_balancers = Comparing(cloud.script)
    found = await compare("", shop, "official")
    assert found.steps == {"service shop/web": ["official deletes shop/web"], "service shop/plain": []}
    with pytest.raises(ConfigurationError, match="the cluster has no service/no"):
        await compare("service/no", shop, "official")
    with pytest.raises(ConfigurationError, match="'routes' is not service/NAME"):
        await compare("routes", shop, "official")


def test_findings_in_words() -> None:
    assert str(Findings()) == "there is nothing to plan"
    assert str(Findings({"a": [], "b": []})) == "2 subjects are as wanted, nothing to do"


def test_wrong_command_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--nonsense"]) == 2
    assert "unknown flag" in capsys.readouterr().err
    assert main(["plan", "--help"]) == 0


def test_the_cluster_is_the_one_of_kubectl(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan.main(["--cloud-provider=sample"], {"KUBECONFIG": "/nowhere/config"}) == 2
    assert "/nowhere/config" in capsys.readouterr().err


def test_a_flag_wins_over_kubectls_variable(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("no kubeconfig")
    flags = ["--cloud-provider=sample", f"--kubeconfig={file}"]
    assert plan.main(flags, {"KUBECONFIG": "/nowhere/config"}) == 2
    assert str(file) in capsys.readouterr().err
