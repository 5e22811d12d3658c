from __future__ import annotations

import asyncio

import pytest
from manager_flags import options

from ccm.cloud import CloudUnavailable, Instance
from ccm.errors import ConfigurationError
from ccm.kube.errors import LeaseLost, ServerError
from ccm.manager.controllers import TABLE, Entry
from ccm.manager.manager import Manager
from ccm.manager.metrics import Metrics
from ccm.manager.serving import Connections
from ccm.testing.fake_cloud import FakeCloud
from ccm.testing.memory_transport import MemoryTransport

pytestmark = pytest.mark.looptime

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
NODE = {
    "metadata": {"name": "n1"},
    "spec": {"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"}]},
}


RUNS: list[Run] = []


class Run:
    """A manager that runs."""

    def __init__(self, server, cloud, *arguments: str, table=TABLE, identity="host_1") -> None:
        self.metrics = Metrics("0")
        self.cloud = cloud
        self.manager = Manager(
            options("--secure-port=0", *arguments),
            cloud,
            Connections(server, server, server, server),
            self.metrics,
            identity=identity,
            table=table,
        )
        self.task = asyncio.create_task(self.manager.run())
        RUNS.append(self)

    @property
    def health(self):
        return self.manager.health

    def running(self, name: str) -> float | None:
        labels = {"name": name, "manager": "cloud-controller-manager"}
        return self.metrics.registry.get_sample_value("running_managed_controllers", labels)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def server():
    memory = MemoryTransport()
    yield memory
    while RUNS:
        await RUNS.pop().stop()


@pytest.fixture
def cloud() -> FakeCloud:
    return FakeCloud.complete()


@pytest.fixture
def log() -> list[str]:
    """What controllers did."""
    return []


class Stub:
    """A controller that notes when it starts and ends."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    async def run(self) -> None:
        self.log.append(f"start {self.name}")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.02)
            self.log.append(f"end {self.name}")

    def healthy(self) -> str | None:
        return None


def _stub(name: str, metric: str, log: list[str]) -> Entry:
    return Entry(name, metric, lambda _: Stub(metric, log))


def _table(log: list[str]) -> tuple[Entry, ...]:
    return tuple(_stub(entry.name, entry.metric, log) for entry in TABLE)


async def test_nodes_are_initialized(server, cloud):
    server.put("/api/v1/nodes", NODE)
    cloud.instances.add(Instance("fake://1", "n1"))
    run = Run(server, cloud)
    await asyncio.sleep(5)
    assert server.read("/api/v1/nodes/n1")["spec"].get("taints", []) == []
    assert run.health.answer("readyz", verbose=False) == (200, "ok")
    assert "cloud-node-controller" in run.health.results("healthz")
    assert (run.running("cloud-node"), run.running("service")) == (1, 1)


async def test_order_and_end(server, cloud, log):
    run = Run(server, cloud, table=_table(log))
    await asyncio.sleep(1)
    assert list(run.health.results("livez")) == ["ping", "leaderElection"]
    assert log == ["start cloud-node", "start cloud-node-lifecycle", "start service", "start route"]
    assert server.read(f"{LEASES}/cloud-controller-manager")["spec"]["holderIdentity"] == "host_1"
    await run.stop()
    assert len(log) == 8
    assert server.read(f"{LEASES}/cloud-controller-manager")["spec"]["holderIdentity"] == ""
    assert run.running("cloud-node") == 0
    messages = [event["message"] for event in server.all("/api/v1/events")]
    assert sorted(messages) == ["host_1 became leader", "host_1 stopped leading"]


async def test_start_interval_spreads_controllers(server, cloud, log):
    Run(server, cloud, "--controller-start-interval=10s", table=_table(log))
    await asyncio.sleep(5)
    assert log == ["start cloud-node"]
    await asyncio.sleep(60)
    assert len(log) == 4


async def test_chosen_controllers_only(server, cloud, log):
    Run(server, cloud, "--controllers=*,-route,-cloud-node", table=_table(log))
    await asyncio.sleep(1)
    assert log == ["start cloud-node-lifecycle", "start service"]


async def test_cloud_without_capabilities_runs_nothing(server):
    run = Run(server, FakeCloud())
    await asyncio.sleep(1)
    assert not run.task.done()
    assert [name for name in run.health.results("healthz") if name.endswith("-controller")] == []


async def test_follower_waits_and_is_healthy(server, cloud, log):
    Run(server, cloud, table=_table(log))
    await asyncio.sleep(1)
    second = Run(server, FakeCloud.complete(), table=_table(log), identity="host_2")
    await asyncio.sleep(100)
    assert len(log) == 4
    assert second.health.answer("readyz", verbose=False) == (200, "ok")
    assert not second.cloud.started


async def test_lost_lease_ends_it_all(server, cloud, log):
    run = Run(server, cloud, table=_table(log))
    await asyncio.sleep(1)
    lease = server.read(f"{LEASES}/cloud-controller-manager")
    server.put(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "somebody"}})
    with pytest.raises(LeaseLost):
        await run.task
    assert len(log) == 8


async def test_no_election_starts_at_once_and_writes_no_lease(server, cloud, log):
    Run(server, cloud, "--leader-elect=false", table=_table(log))
    await asyncio.sleep(0.1)
    assert len(log) == 4
    assert server.all(LEASES) == []


async def test_cloud_that_is_away_is_waited_for(server, cloud, log):
    cloud.script.fail("start", CloudUnavailable("no answer"), times=3)
    run = Run(server, cloud, table=_table(log))
    await asyncio.sleep(0.5)
    assert "the cloud can't be used: no answer" in (run.health.results("readyz")["cloud-start"] or "")
    assert run.health.answer("livez", verbose=False) == (200, "ok")
    assert log == []
    await asyncio.sleep(30)
    assert len(log) == 4
    assert run.health.answer("readyz", verbose=False) == (200, "ok")


async def test_cloud_with_wrong_settings_ends_it(server, cloud):
    cloud.script.fail("start", ConfigurationError(["HCLOUD_NETWORK: there is no network moon"]))
    run = Run(server, cloud)
    with pytest.raises(ConfigurationError, match="moon"):
        await run.task
    assert server.read(f"{LEASES}/cloud-controller-manager")["spec"]["holderIdentity"] == ""


async def test_cloud_without_cluster_id(server):
    cloud = FakeCloud(has_cluster_id=False)
    run = Run(server, cloud)
    with pytest.raises(ConfigurationError, match="--allow-untagged-cloud"):
        await run.task
    again = Run(server, cloud, "--allow-untagged-cloud")
    await asyncio.sleep(5)
    assert not again.task.done()
    assert cloud.started


async def test_controller_that_crashes_ends_the_process(server, cloud, log):
    class Broken(Stub):
        async def run(self) -> None:
            await asyncio.sleep(5)
            raise ZeroDivisionError("bug")

    table = (Entry("a-controller", "a", lambda _: Broken("a", log)), _stub("b-controller", "b", log))
    run = Run(server, cloud, "--controllers=a-controller,b-controller", table=table)
    with pytest.raises(ZeroDivisionError):
        await run.task
    assert log == ["start b", "end b"]
    assert server.read(f"{LEASES}/cloud-controller-manager")["spec"]["holderIdentity"] == ""


async def test_readiness_waits_for_the_lists_and_tells_why(server, cloud):
    server.fail(ServerError(500, message="etcd is away"), verb="list", prefix="/api/v1/nodes", times=8)
    run = Run(server, cloud)
    await asyncio.sleep(10)
    assert run.health.answer("readyz", verbose=False)[0] == 500
    why = run.health.results("readyz")["informer-nodes"]
    assert why == "the list of /api/v1/nodes is not complete yet: etcd is away"
    await asyncio.sleep(300)
    assert run.health.answer("readyz", verbose=False) == (200, "ok")


async def test_watch_that_stays_broken_shows(server, cloud):
    run = Run(server, cloud)
    await asyncio.sleep(5)
    server.fail(ServerError(500, message="no watches"), verb="watch", prefix="/api/v1/nodes", times=1000)
    server.disconnect()
    await asyncio.sleep(60)
    assert run.health.answer("readyz", verbose=False)[0] == 200
    await asyncio.sleep(120)
    assert run.health.answer("readyz", verbose=False)[0] == 500
    why = run.health.results("readyz")["informer-nodes"] or ""
    assert "the CCM has failed to watch /api/v1/nodes" in why


async def test_work_that_does_not_end_shows(server, cloud):
    async def hang(_: str) -> None:
        await asyncio.Event().wait()

    cloud.script.during("get", hang)
    server.put("/api/v1/nodes", NODE)
    run = Run(server, cloud)
    await asyncio.sleep(800)
    assert run.health.answer("readyz", verbose=False) == (200, "ok")
    await asyncio.sleep(200)
    assert run.health.answer("readyz", verbose=False)[0] == 500
    assert "too long in these queues: Nodes (" in (run.health.results("readyz")["queues"] or "")
    assert run.health.answer("livez", verbose=False) == (200, "ok")
