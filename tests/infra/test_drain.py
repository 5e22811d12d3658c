import asyncio
import json
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler

import pytest
from control_servers import at_cloud, cloud_server, node
from fake_programs import programs
from hypothesis import given
from hypothesis import strategies as st

from ccm_pulumi.cluster.drain import (
    BY_US,
    EXCLUDED,
    Traffic,
    blockers,
    empty,
    is_led,
    senders_to,
)
from ccm_pulumi.cluster.drain_on_delete import DrainOnDeleteProvider, drain_seconds
from ccm_pulumi.cluster.node_registration import NodeRegistrationProvider
from ccm_pulumi.lib.errors import CloudError, DrainError, InfraError
from ccm_pulumi.lib.ssh import connect
from tests.http_server import Json, serving

NODE, SILENT, NOT_READY = node(), node(ready="Unknown"), node(ready="False")


def pod(
    name, *, owner="ReplicaSet", labels=None, namespace="default", phase="Running", ending=False, mirror=False
):
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "controller": True}]
    if ending:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if mirror:
        metadata["annotations"] = {"kubernetes.io/config.mirror": "x"}
    return {"metadata": metadata, "status": {"phase": phase}}


def budget(selector, *, allowed=0, namespace="default"):
    return {
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 2},
    }


def by_a(operator, **values):
    return {"matchExpressions": [{"key": "a", "operator": operator, **values}]}


LABELS = {"cluster": "shop", "stack": "dev"}
WEB = {"matchLabels": {"app": "web"}}


@pytest.fixture
def cluster(tmp_path, monkeypatch, host):
    """A `k3s` that records its arguments. Returns a function that drains the node w-1, and the record."""
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setenv("PATH", programs(tmp_path))

    async def run(node, seconds=30, *, stuck=False, senders=(), pods=(), unlabelled="true", leases=()):
        answers = {"node": json.dumps(node) if node else "", "pods": json.dumps({"items": list(pods)})}
        answers["budgets"] = json.dumps({"items": [budget(WEB)]})
        for name, text in answers.items():
            (tmp_path / name).write_text(text)
        (tmp_path / "leases").mkdir(exist_ok=True)
        for number, one in enumerate(leases):
            (tmp_path / "leases" / str(number)).write_text(json.dumps(one))
        # of the leases each is shown once, the last one again and again
        k3s = f"""case "$*" in
  *"get lease "*)
    cd {tmp_path}/leases; set -- *
    [ "$*" = "*" ] || cat "$1"
    [ $# = 1 ] || rm "$1" ;;
  *"get node "*) cat {tmp_path}/node ;;
  *"get pods "*) cat {tmp_path}/pods ;;
  *"get poddisruptionbudgets"*) cat {tmp_path}/budgets ;;
  *" drain "*) echo "$*" >> {log}; {"echo global timeout reached >&2; exit 1" if stuck else "true"} ;;
  *"balancers-") echo "$*" >> {log}; {unlabelled} ;;
  *) echo "$*" >> {log} ;;
esac"""
        programs(tmp_path, k3s=k3s)
        said, left = [], list(senders)

        def look():
            seen = left.pop(0) if left else []
            if isinstance(seen, Exception):
                raise seen
            return seen

        traffic = Traffic(look, polls=3, pause=0)
        async with connect(host) as shell:
            await empty(shell, "w-1", seconds, traffic, said.append)
        return said

    return run, lambda: [line.removeprefix("kubectl ") for line in log.read_text().splitlines()]


CORDONED = ["cordon w-1", f"label node w-1 {EXCLUDED}={BY_US} --overwrite"]
DRAINED = (
    "drain w-1 --ignore-daemonsets --delete-emptydir-data --timeout=30s --skip-wait-for-delete-timeout=60"
)


@pytest.mark.parametrize(
    ("node", "senders", "says"),
    [
        (NODE, [["lb"], ["lb"]], None),
        (NOT_READY, [], None),
        (
            NODE,
            [["lb"], CloudError("there", "is down")],
            "the cloud API at there is down. The program continues with the drain",
        ),
        (NODE, [["lb"]] * 9, "still send traffic to the node w-1: lb"),
    ],
)
async def test_a_node_gets_no_pods_then_no_traffic_then_is_drained(cluster, node, senders, says):
    run, calls = cluster
    said = await run(node, senders=senders)
    assert said == [] if says is None else says in said[0]
    assert calls() == [*CORDONED, DRAINED]


@pytest.mark.parametrize(
    ("value", "undone"), [(BY_US, f"{EXCLUDED}-"), ("false", f"{EXCLUDED}=false --overwrite"), ("true", None)]
)
async def test_only_a_label_that_the_pool_gave_stays_as_it_is(cluster, value, undone):
    run, calls = cluster
    with pytest.raises(DrainError):
        await run(node(labels={EXCLUDED: value}), stuck=True)
    # the value false, or a value from an aborted drain, is not what the pool configures
    assert calls() == (
        [*CORDONED, DRAINED, f"label node w-1 {undone}"] if undone else ["cordon w-1", DRAINED]
    )


async def test_a_failed_cleanup_does_not_hide_why_the_drain_failed(cluster):
    run, _ = cluster
    with pytest.raises(DrainError, match=r"(?s)global timeout reached.*label node w-1 \S+-"):
        await run(NODE, stuck=True, unlabelled="exit 1")


def lease(acquired, renewed, holder="control"):
    """Of a kube-controller-manager; seconds after an hour."""
    times = {"acquireTime": acquired, "renewTime": renewed}
    shown = {name: f"2026-11-23T23:00:{second:09.6f}Z" for name, second in times.items()}
    return {"spec": {"holderIdentity": holder, **shown}}


@pytest.mark.parametrize(
    ("before", "now", "led"),
    [
        (None, None, True),
        (lease(0, 30), None, True),
        (None, lease(0, 30), True),
        (lease(0, 30), lease(0, 32), True),
        # the leader has ended
        (lease(0, 30), lease(0, 30), False),
        (lease(0, 30), lease(0, 32, holder=""), False),
        # another one has just begun
        (lease(0, 30), lease(46, 48), False),
        (lease(0, 30), lease(46, 51.5), True),
        (lease(0, 30), {"spec": {"holderIdentity": "control"}}, False),
    ],
)
def test_whether_a_controller_manager_is_at_work(before, now, led):
    assert is_led(before, now) is led


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr("ccm_pulumi.cluster.drain.LEADER_PAUSE", 0.001)
    monkeypatch.setattr("ccm_pulumi.cluster.drain.LEADER_POLLS", 5)


@pytest.mark.usefixtures("hasty")
async def test_pods_go_when_a_controller_manager_takes_them_out_of_services(cluster, tmp_path):
    run, calls = cluster
    assert await run(NODE, leases=[lease(0, 30), lease(0, 30), lease(46, 46), lease(46, 52)]) == []
    assert calls() == [*CORDONED, DRAINED]
    assert [file.name for file in (tmp_path / "leases").iterdir()] == ["3"]


@pytest.mark.usefixtures("hasty")
async def test_a_cluster_in_which_none_leads_is_drained_all_the_same(cluster):
    run, calls = cluster
    (said,) = await run(NODE, leases=[lease(0, 30)])
    assert "no kube-controller-manager became" in said
    assert calls() == [*CORDONED, DRAINED]


@pytest.mark.parametrize("node", [None, SILENT])
async def test_nothing_is_waited_for_where_nothing_runs(cluster, node):
    run, calls = cluster
    assert len(await run(node)) == (node is not None)
    assert calls() == []


async def test_remaining_pods_are_reported_and_the_node_keeps_serving(cluster):
    run, calls = cluster
    with pytest.raises(DrainError, match="could not be drained within 30 s") as caught:
        await run(NODE, stuck=True, pods=[pod("web-1", labels={"app": "web"})])
    assert calls() == [*CORDONED, DRAINED, f"label node w-1 {EXCLUDED}-"]
    (blocker,) = caught.value.blockers
    assert blocker.startswith(
        "default/web-1: the PodDisruptionBudget web allows no disruption: 2 Pods are healthy"
    )
    assert "kubectl uncordon w-1" in str(caught.value)


def test_who_has_no_controller_blocks_before_anybody_is_evicted():
    pods = [pod("web-1", labels={"app": "web"}), pod("bare", owner="")]
    assert blockers(pods, [budget(WEB)]) == [
        "default/bare: no controller recreates this Pod. If you don't need the Pod, delete the Pod"
    ]


def test_what_goes_with_the_server_blocks_nothing():
    pods = [
        pod("set", owner="DaemonSet"),
        pod("static", owner="Node", mirror=True),
        pod("done", owner="", phase="Succeeded"),
        pod("job", owner="Job", phase="Succeeded"),
    ]
    assert blockers(pods, []) == []


@pytest.mark.parametrize(
    ("item", "selector", "says"),
    [
        (pod("x", labels={"app": "web"}), WEB, "the PodDisruptionBudget web allows no disruption"),
        (pod("x", labels={"app": "web"}, ending=True), WEB, "the Pod has not terminated yet"),
        (pod("x", labels={"app": "db"}), WEB, "the Pod was not evicted in time"),
        (pod("x", labels={"app": "web"}, namespace="other"), WEB, "the Pod was not evicted in time"),
        (pod("x"), {}, "the PodDisruptionBudget web"),
        (pod("x"), None, "the Pod was not evicted in time"),
        (pod("x", labels={"a": "1"}), by_a("Exists"), "the PodDisruptionBudget"),
        (pod("x"), by_a("DoesNotExist"), "the PodDisruptionBudget"),
        (pod("x", labels={"a": "1"}), by_a("NotIn", values=["1"]), "the Pod was not"),
        (pod("x", labels={"a": "1"}), by_a("In", values=["1"]), "the PodDisruptionBudget"),
    ],
)
def test_what_keeps_a_pod(item, selector, says):
    (line,) = blockers([item], [budget(selector)])
    assert line.partition(": ")[2].startswith(says)
    (line,) = blockers([item], [budget(selector, allowed=1)])
    assert "PodDisruptionBudget" not in line


targets = st.lists(
    st.one_of(
        st.integers(1, 4).map(lambda number: {"type": "server", "server": {"id": number}}),
        st.just({"type": "ip", "ip": {"ip": "203.0.113.7"}}),
        st.lists(st.integers(1, 4), max_size=3).map(
            lambda numbers: {
                "type": "label_selector",
                "targets": [{"type": "server", "server": {"id": number}} for number in numbers],
            }
        ),
    ),
    max_size=4,
)


@given(targets=targets)
def test_who_sends_to_a_server(targets):
    assert senders_to(1, [{"name": "lb", "targets": targets}]) == (
        ["lb"] if "'id': 1" in str(targets) else []
    )


@pytest.mark.parametrize(
    ("configured", "stated", "seconds"), [("7", 9, 7), (7, 9, 7), ("0", 9, 0), (None, 9, 9), ("many", 9, 9)]
)
def test_how_long_is_said_by_the_stack_then_by_the_state(configured, stated, seconds):
    props = {"drain_seconds": stated}
    assert drain_seconds({"ccm-from-scratch:drainSeconds": configured}, props) == seconds


@pytest.fixture
def leave(cluster, pair, server):
    """Lets the worker w-1 go whose server is 7; server 1, the control server, is as the cloud says it is.

    Another one that the state names, 2, is gone, and ``now`` says which ones the cloud has.
    """

    class Handler(Json, BaseHTTPRequestHandler):
        status: Mapping[str, list[str]] = {}
        now: Sequence[Mapping[str, object]] = ()

        def do_GET(self):
            path, _, query = self.path.partition("?")
            # one word for each time that it is asked for; the last one stays
            words = self.status.get(path.rpartition("/")[2], [])
            status = (words.pop(0) if len(words) > 1 else "".join(words)).replace("gone", "")
            content = {
                "server": {"status": status, "labels": LABELS, "private_net": []},
                "servers": self.now if "role%3D%3Dcontrol" in query and "cluster%3D%3Dshop" in query else [],
                "load_balancers": [],
                "meta": {"pagination": {"next_page": None}},
            }
            is_list = path.endswith(("/servers", "/load_balancers"))
            self.answer(200 if status or is_list else 404, content)

    with serving(Handler) as port:

        async def go(
            status="running",
            member="running",
            seconds="30",
            *,
            others=None,
            now=(),
            leaves=DrainOnDeleteProvider,
        ):
            Handler.status, Handler.now = {"1": status.split(), "7": member.split()}, now
            provider = at_cloud(leaves(), f"http://127.0.0.1:{port}/v1", drainSeconds=seconds)
            access = {"address": "127.0.0.1", "private_key": pair["private_key"], "host_key": server[1]}
            props = {**access, "server_id": "1", "node": "w-1", "member_id": "7", "drain_seconds": 9}
            props["others"] = {"control-2": {**access, "server_id": "2"}} if others else None
            await asyncio.to_thread(provider.delete, "w-1/7", props)

        yield go


async def test_a_worker_leaves_drained(cluster, leave):
    run, calls = cluster
    await run(NODE)
    drained = calls()
    await leave()
    assert calls() == [*drained, *drained]


@pytest.mark.parametrize("states", [{"status": "off"}, {"status": ""}, {"member": "off"}, {"member": ""}])
async def test_without_a_cluster_or_a_running_worker_there_is_nothing_to_drain(cluster, leave, states):
    await leave(**states)
    assert cluster[1]() == []


async def test_a_control_server_that_goes_during_the_drain_ends_it(cluster, leave, tmp_path, capsys):
    run, _ = cluster
    await run(NODE)
    # its API tells that it is there before the drain, and that it is not after it
    (tmp_path / "k3s").write_text("#!/bin/sh\nkill -9 $PPID\n")
    await leave("running gone")
    assert "was not drained" in capsys.readouterr().out


async def test_an_unreachable_cluster_is_reported_with_a_remedy(cluster, leave, tmp_path):
    run, _ = cluster
    await run(NODE)
    (tmp_path / "k3s").write_text("#!/bin/sh\necho the API is broken >&2; exit 1\n")
    with pytest.raises(InfraError, match=r"(?s)API is broken.*ccm-from-scratch:drainSeconds 0"):
        await leave()


SUCCESSORS = [cloud_server(21, places={}, status="off"), cloud_server(22, places={})]


@pytest.mark.parametrize("leaves", [DrainOnDeleteProvider, NodeRegistrationProvider])
async def test_a_worker_leaves_by_control_servers_that_took_the_place_of_all_that_the_state_names(
    cluster, leave, leaves
):
    run, calls = cluster
    await run(NODE)
    before = calls()
    await leave("gone", others=True, now=SUCCESSORS, leaves=leaves)
    said = calls()[len(before) :]
    assert said == before if leaves is DrainOnDeleteProvider else said[0].startswith("delete node")


async def test_who_wants_no_drain_gets_none(cluster, leave):
    run, calls = cluster
    await run(None)
    await leave(seconds="0")
    assert calls() == []
