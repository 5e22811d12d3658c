"""`python -m ccm plan` on a cluster in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from manager_flags import options

from ccm.__main__ import main
from ccm.cloud import Address, CloudUnavailable, Instance, ServiceView
from ccm.controllers.names import OUT_OF_SERVICE_TAINT, SHUTDOWN_TAINT, UNINITIALIZED_TAINT, ZONE
from ccm.errors import ConfigurationError
from ccm.kube.events import EventRecorder
from ccm.manager.controllers import ControllerContext
from ccm.manager.metrics import Metrics
from ccm.testing.fake_cloud import FakeCloud, FakeLoadBalancers
from ccm.testing.memory_transport import MemoryTransport
from ccm.tools import plan
from ccm.tools.plan import Findings, compare, plan_for

NEW = {"key": UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule"}
OFF = {"key": SHUTDOWN_TAINT, "effect": "NoSchedule"}
OUT_OF_SERVICE = {"key": OUT_OF_SERVICE_TAINT, "value": "nodeshutdown", "effect": "NoExecute"}
MARK, UNMARK = (f"{verb} the taint of nodes whose machine is shut down" for verb in ("add", "remove"))
DELETE = "delete the Node, once the cloud has confirmed that its machine does not exist"


def context_with(*flags: str) -> ControllerContext:
    transport = MemoryTransport()
    recorder = EventRecorder(transport, "plan")
    chosen = options("--cluster-cidr=10.244.0.0/16", "--allocate-node-cidrs=true", *flags)
    return ControllerContext(FakeCloud.complete(), transport, recorder, chosen, Metrics("0"))


@pytest.fixture
def context() -> ControllerContext:
    return context_with()


def cluster(context: ControllerContext) -> MemoryTransport:
    assert isinstance(context.transport, MemoryTransport)
    return context.transport


def put_service(context: ControllerContext, name: str, **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], **spec}}
    cluster(context).put("/api/v1/namespaces/shop/services", body)


def put_node(
    context: ControllerContext,
    name: str,
    provider_id: str,
    *,
    ready: bool = False,
    labels: dict[str, str] | None = None,
    taints: tuple[dict[str, str], ...] = (),
) -> None:
    conditions = [{"type": "Ready", "status": "True"}] if ready else []
    body = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"providerID": provider_id, "taints": list(taints)},
        "status": {"conditions": conditions},
    }
    cluster(context).put("/api/v1/nodes", body)


def put_machine(context: ControllerContext, name: str, *, shut_down: bool = False) -> None:
    cloud = context.cloud
    assert isinstance(cloud, FakeCloud)
    assert cloud.instances is not None
    cloud.instances.add(Instance("fake://1", name, zone="b", shut_down=shut_down))


async def test_services(context: ControllerContext) -> None:
    put_service(context, "web")
    put_service(context, "inner", type="ClusterIP")
    put_service(context, "theirs", loadBalancerClass="other")
    found = await plan_for("services", context)
    assert found.steps == {"service shop/web": ["create"]}
    assert str(found) == "service shop/web\n  create"


@pytest.mark.parametrize("subject", ["service/web", "service/shop/web"])
async def test_one_service(context: ControllerContext, subject: str) -> None:
    put_service(context, "web")
    put_service(context, "other")
    assert list((await plan_for(subject, context)).steps) == ["service shop/web"]


async def test_what_is_left_of_services(context: ControllerContext) -> None:
    put_service(context, "web")
    cloud = context.cloud
    assert isinstance(cloud, FakeCloud)
    assert cloud.load_balancers is not None
    await cloud.load_balancers.ensure(ServiceView("shop", "lost", "uid-lost"), [])
    expected = ["leave the load balancer of shop/lost alone: its Service (uid-lost) does not exist"]
    assert (await plan_for("services", context)).steps["orphans"] == expected
    assert "orphans" not in (await plan_for("service/web", context)).steps


async def test_nothing_is_changed(context: ControllerContext) -> None:
    put_service(context, "web")
    before = cluster(context).all("/api/v1/services")
    await plan_for("", context)
    assert cluster(context).all("/api/v1/services") == before
    assert not [
        request
        for request in cluster(context).requests
        if request.verb in ("patch", "create", "update", "delete")
    ]
    cloud = context.cloud
    assert isinstance(cloud, FakeCloud)
    assert cloud.load_balancers is not None
    assert cloud.load_balancers.targets == {}


async def test_nodes(context: ControllerContext) -> None:
    put_node(context, "new", "", taints=(NEW,))
    put_node(context, "gone", "fake://9")
    cloud = context.cloud
    assert isinstance(cloud, FakeCloud)
    assert cloud.instances is not None
    cloud.instances.add(
        Instance("fake://1", "new", type="small", addresses=(Address("InternalIP", "10.0.0.1"),))
    )
    found = await plan_for("nodes", context)
    assert "set provider ID fake://1" in found.steps["node new"]
    assert "remove the taint of nodes that are not initialised" in found.steps["node new"]
    assert found.steps["node gone"] == [DELETE]


async def test_a_node_that_never_had_a_machine_is_deleted_only_where_a_flag_says_so(
    context: ControllerContext,
) -> None:
    bold = context_with("--delete-nodes-without-provider-id")
    for one in (context, bold):
        put_node(one, "stranger", "", taints=(NEW,))
    assert (await plan_for("nodes", context)).steps == {"node stranger": []}
    assert (await plan_for("nodes", bold)).steps == {"node stranger": [DELETE]}


@pytest.mark.parametrize(
    ("flags", "ready", "shut_down", "taints", "steps"),
    [
        ((), False, True, (), [MARK]),
        ((), False, True, (OFF,), []),
        ((), False, False, (OFF,), []),
        ((), True, False, (OFF,), [UNMARK]),
        ((), True, False, (), []),
        (
            ("--node-out-of-service-taint",),
            False,
            True,
            (OFF,),
            ["add the taint that frees volumes and Pods of nodes whose machine is shut down"],
        ),
        (("--node-out-of-service-taint",), False, True, (OFF, OUT_OF_SERVICE), []),
    ],
)
async def test_a_node_whose_machine_is_off_or_on_again(
    flags: tuple[str, ...],
    ready: bool,
    shut_down: bool,
    taints: tuple[dict[str, str], ...],
    steps: list[str],
) -> None:
    context = context_with(*flags)
    put_machine(context, "a", shut_down=shut_down)
    put_node(context, "a", "fake://1", ready=ready, taints=taints)
    assert (await plan_for("nodes", context)).steps == {"node a": steps}


async def test_labels_that_an_initialised_node_keeps(context: ControllerContext) -> None:
    refreshing = context_with("--refresh-node-labels")
    for one in (context, refreshing):
        put_machine(one, "a")
        put_node(one, "a", "fake://1", ready=True, labels={ZONE: "by-hand"})
    assert (await plan_for("nodes", context)).steps == {"node a": []}
    (step,) = (await plan_for("nodes", refreshing)).steps["node a"]
    assert f"{ZONE}=b" in step


@pytest.mark.parametrize(
    ("off", "left"),
    [
        ("cloud-node-lifecycle-controller", {"node gone": [], "service shop/web": ["create"], "routes": []}),
        ("service-lb-controller", {"node gone": [DELETE], "routes": []}),
        ("node-route-controller", {"node gone": [DELETE], "service shop/web": ["create"]}),
    ],
)
async def test_what_is_switched_off_does_nothing(off: str, left: dict[str, list[str]]) -> None:
    context = context_with(f"--controllers=*,-{off}")
    put_service(context, "web")
    put_node(context, "gone", "fake://9")
    assert (await plan_for("", context)).steps == left


async def test_who_asks_for_what_is_switched_off_is_told() -> None:
    context = context_with("--controllers=cloud-node-controller")
    put_service(context, "web")
    told = "--controllers=cloud-node-controller nothing is done about services"
    with pytest.raises(ConfigurationError, match=told):
        await plan_for("service/web", context)


async def test_routes(context: ControllerContext) -> None:
    cluster(context).put(
        "/api/v1/nodes",
        {
            "metadata": {"name": "a"},
            "spec": {"providerID": "fake://1", "podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"]},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
        },
    )
    cloud = context.cloud
    assert isinstance(cloud, FakeCloud)
    assert cloud.routes is not None
    assert cloud.instances is not None
    cloud.instances.add(Instance("fake://1", "a"))
    cloud.routes.attach("fake://1", "a", "10.0.0.1")
    found = await plan_for("routes", context)
    assert found.steps["routes"] == ["make route to 10.244.1.0/24 for node a"]


async def test_one_that_cannot_be_told_keeps_the_others(context: ControllerContext) -> None:
    put_service(context, "a")
    put_service(context, "b")
    cloud = context.cloud
    assert isinstance(cloud, FakeCloud)
    cloud.script.fail("plan", CloudUnavailable("no answer"), times=1)
    found = await plan_for("services", context)
    assert found.errors == {"service shop/a": "no answer"}
    assert found.steps == {"service shop/b": ["create"]}


@pytest.mark.parametrize("subject", ["service/nothing", "servers"])
async def test_unknown_subjects(context: ControllerContext, subject: str) -> None:
    with pytest.raises(ConfigurationError, match="plan: "):
        await plan_for(subject, context)


async def test_a_service_of_another_class_is_not_said_to_be_missing(context: ControllerContext) -> None:
    put_service(context, "theirs", loadBalancerClass="other")
    with pytest.raises(ConfigurationError, match="no service/theirs that is ours to look after"):
        await plan_for("service/theirs", context)


class Comparing(FakeLoadBalancers):
    """Load balancers that know another cloud-controller-manager."""

    others = ("official",)

    async def differences(self, service: ServiceView, other: str) -> list[str]:
        return [f"{other} deletes {service.key}"] if service.name == "web" else []


async def test_what_another_would_make_of_it(context: ControllerContext) -> None:
    put_service(context, "web")
    put_service(context, "plain")
    put_service(context, "inner", type="ClusterIP")
    cloud = context.cloud
    assert isinstance(cloud, FakeCloud)
    with pytest.raises(ConfigurationError, match="'official' is not known to this cloud; known: none"):
        await compare("", context, "official")
    cloud.load_balancers = Comparing(cloud.script)
    found = await compare("", context, "official")
    assert found.steps == {"service shop/web": ["official deletes shop/web"], "service shop/plain": []}
    assert (await compare("service/inner", context, "official")).steps == {"service shop/inner": []}
    with pytest.raises(ConfigurationError, match="the cluster has no service/no"):
        await compare("service/no", context, "official")
    with pytest.raises(ConfigurationError, match="'routes' is not service/NAME"):
        await compare("routes", context, "official")


def test_findings_in_words() -> None:
    assert str(Findings()) == "there is nothing to plan"
    assert str(Findings({"a": [], "b": []})) == "2 subjects are as wanted, nothing to do"
    assert str(Findings({"a": ["x"], "b": []})) == "a\n  x\n1 other is as wanted"
    assert str(Findings({"a": ["x"], "b": [], "c": []})).endswith("2 others are as wanted")


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
