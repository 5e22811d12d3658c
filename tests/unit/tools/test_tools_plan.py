from pathlib import Path
from typing import Any

import pytest

from ccm.__main__ import main
from ccm.cloud import Address, CloudUnavailable, Instance, ServiceView
from ccm.controllers.names import OUT_OF_SERVICE_TAINT, SHUTDOWN_TAINT, UNINITIALIZED_TAINT, ZONE
from ccm.errors import ConfigurationError
from ccm.kube.events import EventRecorder
from ccm.manager.controllers import ControllerContext
from ccm.manager.flags import FLAGS, parse_flags
from ccm.manager.metrics import Metrics
from ccm.manager.options import Options
from ccm.testing.fake_cloud import FakeCloud, FakeLoadBalancers
from ccm.testing.memory_transport import MemoryTransport
from ccm.tools import plan
from ccm.tools.plan import compare, plan_for

NEW = {"key": UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule"}
OFF = {"key": SHUTDOWN_TAINT, "effect": "NoSchedule"}
OUT_OF_SERVICE = {"key": OUT_OF_SERVICE_TAINT, "value": "nodeshutdown", "effect": "NoExecute"}
MARK = f"add the taint {SHUTDOWN_TAINT}, because the machine is off"
UNMARK = "remove the taints that the CCM set because the machine was shut down"
FREE = f"add the taint {OUT_OF_SERVICE_TAINT}, so that Kubernetes deletes the Pods of the node and detaches "
FREE += "their volumes"
DELETE = "delete the Node, if the cloud confirms that its machine doesn't exist"


class Site:
    """A cluster and a cloud, both in memory."""

    def __init__(self, *flags: str) -> None:
        self.transport, self.cloud = MemoryTransport(), FakeCloud.complete()
        words = ["--cloud-provider=fake", "--cluster-cidr=10.244.0.0/16", "--allocate-node-cidrs=true"]
        options = Options(parse_flags(FLAGS, [*words, *flags]))
        recorder = EventRecorder(self.transport, "plan")
        self.context = ControllerContext(self.cloud, self.transport, recorder, options, Metrics("0"))

    def put_services(self, *names: str, **spec: Any) -> None:
        for name in names:
            body = {"type": "LoadBalancer", "ports": [{"port": 80}], **spec}
            self.transport.put("/api/v1/namespaces/shop/services", {"metadata": {"name": name}, "spec": body})

    def put_node(
        self,
        name: str,
        provider_id: str = "",
        *,
        ready: bool = False,
        labels: dict[str, str] | None = None,
        taints: tuple[dict[str, str], ...] = (),
        address: str = "",
        **spec: Any,
    ) -> None:
        addresses = [{"type": "InternalIP", "address": address}] if address else []
        conditions = [{"type": "Ready", "status": "True"}] if ready else []
        body = {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"providerID": provider_id, "taints": list(taints), **spec},
            "status": {"conditions": conditions, "addresses": addresses},
        }
        self.transport.put("/api/v1/nodes", body)

    async def steps(self, subject: str) -> dict[str, list[str]]:
        return (await plan_for(subject, self.context)).steps


@pytest.fixture
def site() -> Site:
    return Site()


async def test_services(site: Site) -> None:
    site.put_services("web", "other")
    site.put_services("inner", type="ClusterIP")
    site.put_services("theirs", loadBalancerClass="other")
    found = await plan_for("services", site.context)
    assert found.steps == {"service shop/other": ["create"], "service shop/web": ["create"]}
    assert str(found) == "service shop/other\n  create\nservice shop/web\n  create"
    for subject in ("service/web", "service/shop/web"):
        assert list(await site.steps(subject)) == ["service shop/web"]


async def test_what_is_left_of_services(site: Site) -> None:
    site.put_services("web")
    await site.cloud.load_balancers.ensure(ServiceView("shop", "lost", "uid-lost"), [])
    expected = [
        "keep the load balancer of shop/lost unchanged, because its Service (uid-lost) does not exist"
    ]
    assert (await site.steps("services"))["orphans"] == expected
    assert "orphans" not in await site.steps("service/web")


async def test_nothing_is_changed(site: Site) -> None:
    site.put_services("web")
    before = site.transport.all("/api/v1/services")
    await plan_for("", site.context)
    assert site.transport.all("/api/v1/services") == before
    assert {request.verb for request in site.transport.requests} <= {"list", "watch", "get"}
    assert site.cloud.load_balancers.targets == {}


async def test_nodes(site: Site) -> None:
    site.put_node("new", taints=(NEW,))
    site.put_node("gone", "fake://9")
    addresses = (Address("InternalIP", "10.0.0.1"),)
    site.cloud.instances.add(Instance("fake://1", "new", type="small", addresses=addresses))
    steps = await site.steps("nodes")
    assert "set provider ID fake://1" in steps["node new"]
    assert "remove the taint node.cloudprovider.kubernetes.io/uninitialized" in steps["node new"]
    assert steps["node gone"] == [DELETE]


@pytest.mark.parametrize(("flags", "steps"), [((), []), (("--delete-nodes-without-provider-id",), [DELETE])])
async def test_a_node_that_never_had_a_machine(flags: tuple[str, ...], steps: list[str]) -> None:
    site = Site(*flags)
    site.put_node("stranger", taints=(NEW,))
    assert await site.steps("nodes") == {"node stranger": steps}


@pytest.mark.parametrize(
    ("flags", "ready", "shut_down", "taints", "steps"),
    [
        ((), False, True, (), [MARK]),
        ((), False, True, (OFF,), []),
        ((), False, False, (OFF,), []),
        ((), True, False, (OFF,), [UNMARK]),
        ((), True, False, (), []),
        (("--node-out-of-service-taint",), False, True, (OFF,), [FREE]),
        (("--node-out-of-service-taint",), False, True, (OFF, OUT_OF_SERVICE), []),
    ],
)
async def test_a_node_whose_machine_is_off_or_on_again(
    flags: tuple[str, ...], ready: bool, shut_down: bool, taints: tuple[dict[str, str], ...], steps: list[str]
) -> None:
    site = Site(*flags)
    site.cloud.instances.add(Instance("fake://1", "a", shut_down=shut_down))
    site.put_node("a", "fake://1", ready=ready, taints=taints)
    assert await site.steps("nodes") == {"node a": steps}


@pytest.mark.parametrize("flags", [(), ("--refresh-node-labels",)])
async def test_labels_that_an_initialized_node_keeps(flags: tuple[str, ...]) -> None:
    site = Site(*flags)
    site.cloud.instances.add(Instance("fake://1", "a", zone="b"))
    site.put_node("a", "fake://1", ready=True, labels={ZONE: "by-hand"})
    steps = (await site.steps("nodes"))["node a"]
    assert [f"{ZONE}=b" in step for step in steps] == ([True] if flags else [])


@pytest.mark.parametrize(
    ("off", "left"),
    [
        ("cloud-node-lifecycle-controller", {"node gone": [], "service shop/web": ["create"], "routes": []}),
        ("service-lb-controller", {"node gone": [DELETE], "routes": []}),
        ("node-route-controller", {"node gone": [DELETE], "service shop/web": ["create"]}),
    ],
)
async def test_what_is_switched_off_does_nothing(off: str, left: dict[str, list[str]]) -> None:
    site = Site(f"--controllers=*,-{off}")
    site.put_services("web")
    site.put_node("gone", "fake://9")
    assert await site.steps("") == left


async def test_routes(site: Site) -> None:
    cidrs = {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"]}
    site.put_node("a", "fake://1", address="10.0.0.1", **cidrs)
    site.cloud.instances.add(Instance("fake://1", "a"))
    site.cloud.routes.attach("fake://1", "a", "10.0.0.1")
    assert (await site.steps("routes"))["routes"] == ["create route to 10.244.1.0/24 for node a"]
    assert site.cloud.routes.table.routes == ()


async def test_one_failure_hides_no_other_plan(site: Site) -> None:
    site.put_services("a", "b")
    site.cloud.script.fail("plan", CloudUnavailable("no answer"), times=1)
    found = await plan_for("services", site.context)
    assert found.errors == {"service shop/a": "no answer"}
    assert found.steps == {"service shop/b": ["create"]}


@pytest.mark.parametrize(
    ("flags", "subject", "text"),
    [
        ((), "service/nothing", "plan: "),
        ((), "servers", "plan: "),
        ((), "service/theirs", "no service/theirs that this CCM manages"),
        (
            ("--controllers=cloud-node-controller",),
            "service/theirs",
            "--controllers=cloud-node-controller disables the controllers of services",
        ),
    ],
)
async def test_subjects_that_can_not_be_planned(flags: tuple[str, ...], subject: str, text: str) -> None:
    site = Site(*flags)
    site.put_services("theirs", loadBalancerClass="other")
    with pytest.raises(ConfigurationError, match=text):
        await plan_for(subject, site.context)


class Comparing(FakeLoadBalancers):
    """Load balancers that know another cloud-controller-manager."""

    others = ("official",)

    async def differences(self, service: ServiceView, other: str) -> list[str]:
        return [f"{other} deletes {service.key}"] if service.name == "web" else []


async def test_what_another_would_make_of_it(site: Site) -> None:
    site.put_services("web", "plain")
    site.put_services("inner", type="ClusterIP")
    with pytest.raises(
        ConfigurationError, match=("'official' is not supported by this cloud; supported: none")
    ):
        await compare("", site.context, "official")
    site.cloud.load_balancers = Comparing(site.cloud.script)
    found = await compare("", site.context, "official")
    assert found.steps == {"service shop/web": ["official deletes shop/web"], "service shop/plain": []}
    assert (await compare("service/inner", site.context, "official")).steps == {"service shop/inner": []}
    for subject, text in (("service/no", "has no service/no"), ("routes", "but the argument is 'routes'")):
        with pytest.raises(ConfigurationError, match=text):
            await compare(subject, site.context, "official")


def test_wrong_command_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--nonsense"]) == 2
    assert "unknown flag" in capsys.readouterr().err
    assert main(["plan", "--help"]) == 0


def test_the_kubeconfig_is_the_flags_or_kubectls(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("no kubeconfig")
    for flags, named in (([], "/nowhere/config"), ([f"--kubeconfig={file}"], str(file))):
        assert plan.main(["--cloud-provider=sample", *flags], {"KUBECONFIG": "/nowhere/config"}) == 2
        assert named in capsys.readouterr().err
