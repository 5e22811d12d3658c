import asyncio
import json
import re
from pathlib import Path

import pytest
from fake_programs import programs

from ccm_pulumi.cluster.drain import BY_US, EXCLUDED
from tests.pulumi_lab import Lab

pytestmark = pytest.mark.slow

RUNS = "v1.36.3+k3s1"
NAMELESS = "v1.36.3+k3s-4c4b0e6"
"""No release's, so it can't be asked for: with it, where a channel leads is unknown."""
# the port of the tests' SSH server is not the usual one
PORT = """
import os, asyncssh
real = asyncssh.connect
asyncssh.connect = lambda address, **options: real(address, int(os.environ["SSH_PORT"]), **options)
"""
PROGRAM = """
from ccm_pulumi.cluster.k3s_installation import K3sAgent
from ccm_pulumi.cluster.ready_nodes import ReadyNodes
from ccm_pulumi.cluster.node_readiness_gate import NodeReadinessGate

E = os.environ
at = {"address": "127.0.0.1", "private_key": E["KEY"], "host_key": E["HOST_KEY"]}
agent = K3sAgent(
    "worker-1", **at, server_id="7", private_ip="10.0.0.2", cluster="c", server_ip="10.0.0.1", token="T",
    install_url=E["INSTALLER"], channel=E["CHANNEL"], version=E["VERSION"],
    node_labels={}, node_taints=[], node="w-1", controls={"control": at},
    drain_seconds=30,
)
control, after = {**at, "server_id": "1", "others": {}}, O(depends_on=[agent])
NodeReadinessGate(
    "worker-1", after, **control, node="w-1", member_id="7", installed=agent.installed,
    release=agent.release, existed=False,
)
way = {"address": at["address"], "host_key": at["host_key"], "id": "7"}
ReadyNodes("nodes", after, **control, nodes={"w-1": way}, revision="revision")
"""
# A Node that is cordoned, marked and excluded from load balancers or not, as `kubectl` says.
K3S = """cd {there}
echo "$*" >> log
node() {{
  spec= labels= marks=
  [ ! -e cordoned ] || spec=',"unschedulable":true'
  [ ! -e excluded ] || labels='"{excluded}":"{by_us}"'
  [ ! -e marked ] || marks='"ccm-from-scratch/upgrading":""'
  echo '{{"metadata":{{"name":"w-1","labels":{{'"$labels"'}},"annotations":{{'"$marks"'}}}},
    "spec":{{"providerID":"hcloud://7"'"$spec"'}},"status":{{"conditions":[{{"type":"Ready","status":"True"}}]}}}}'
}}
case "$*" in
  --version) echo "k3s version {version} (abc)" ;;
  *"get nodes "*) echo '{{"items":['; node; echo ']}}' ;;
  *"get node "*) node ;;
  *" cordon "*) touch cordoned ;;
  *" uncordon "*) rm cordoned ;;
  *" annotate "*=) touch marked ;;
  *" annotate "*-) rm marked ;;
  *" label "*=*) touch excluded ;;
  *" label "*-) rm excluded ;;
  *" drain "*) touch draining; while [ -e held ]; do sleep 0.05; done ;;
esac
"""

# Both units are on this machine; the worker's is the one that the installer writes and systemctl stops.
SYSTEMCTL = """cd {there}
case "$*" in
  show*) echo Id=k3s-agent.service; echo UnitFileState=enabled
    [ -e stopped ] && echo ActiveState=inactive || echo ActiveState=active ;;
  "cat k3s") echo ExecStart=/k3s server ;;
  "cat k3s-agent") cat unit ;;
  *restart*k3s-agent) rm -f stopped ;;
esac
"""
INSTALL = """cd {there}
env | grep ^K3S_ > k3s.env
{{ echo "EnvironmentFile=-{there}/k3s.env"; printf ExecStart=/k3s; printf " '%s'" "$@"; echo; }} > unit
"""


@pytest.fixture
async def worker(tmp_path: Path, server, pair, monkeypatch):
    """Installs k3s on a worker from a release; gives what became of its Node in between."""
    there = tmp_path / "machine"
    path = programs(
        there,
        k3s=K3S.format(there=there, version=RUNS, excluded=EXCLUDED, by_us=BY_US),
        ip="echo ' 10.0.0.2/32'",
        ss="echo 'LISTEN 0 128 *:10250 *:*'",  # a kubelet
        systemctl=SYSTEMCTL.format(there=there),
        **{"install.sh": INSTALL.format(there=there)},
    )
    # no server listens there: whether load balancers still send traffic is unknown, so the program continues
    lab, (listener, host_key) = Lab(tmp_path, {"HCLOUD_ENDPOINT": "http://127.0.0.1:9"}), server
    lab.write("sitecustomize.py", PORT)
    lab.program(PROGRAM)
    lab.environment |= {
        "PYTHONPATH": f"{lab.project}:{Path(__file__).parents[2]}",
        "SSH_PORT": str(listener.get_port()),
        "KEY": pair["private_key"],
        "HOST_KEY": host_key,
        "INSTALLER": f"file://{there}/install.sh",
        "CHANNEL": "stable",
        "VERSION": "",
    }
    monkeypatch.setenv("PATH", path)

    async def run(*command: str, **changes: str):
        (there / "log").write_text("")
        done = await asyncio.to_thread(lab.run, *(command or ("up", "--yes")), **changes)
        assert done.status == 0, done.out + done.err
        steps = [line.split()[1] for line in (there / "log").read_text().splitlines() if " " in line]
        return done.out, [step for step in steps if step in ("cordon", "drain", "uncordon")]

    run.lab = lab
    run.there = there
    return run


def becomes(there: Path, version: str) -> None:
    """Gives control server and worker, which are one machine, another k3s."""
    k3s = there / "k3s"
    k3s.write_text(re.sub(r"k3s version \S+", f"k3s version {version}", k3s.read_text()))


def left(there: Path) -> list[str]:
    return [name for name in ("cordoned", "marked", "excluded") if (there / name).exists()]


async def test_who_was_drained_takes_pods_again_also_with_the_k3s_that_it_had(worker) -> None:
    becomes(worker.there, NAMELESS)
    await worker()
    _, steps = await worker(CHANNEL="latest")
    assert steps == ["cordon", "drain", "uncordon"]
    assert left(worker.there) == []


async def test_an_upgrade_that_was_killed_while_it_drained_is_gone_on_with(worker) -> None:
    await worker()
    becomes(worker.there, "v1.36.9+k3s1")
    (worker.there / "held").touch()
    with worker.lab.start("up", "--yes", CHANNEL="latest") as process:
        while not (worker.there / "draining").exists():
            assert process.poll() is None
            await asyncio.sleep(0.05)
        process.kill()
        await asyncio.to_thread(process.communicate)
    (worker.there / "held").unlink()
    assert left(worker.there) == ["cordoned", "marked", "excluded"]
    await asyncio.to_thread(worker.lab.run, "cancel", "--yes")
    _, steps = await worker(CHANNEL="latest")
    assert steps == ["cordon", "drain", "uncordon"]
    assert left(worker.there) == []
    out, _ = await worker(CHANNEL="latest")
    assert "updated" not in out


async def test_each_run_repairs_what_it_finds_and_changes_nothing_else(worker) -> None:
    refresh = ("up", "--yes", "--refresh")
    await worker()

    # a cluster that can't be asked is asked again
    planned, _ = await worker("preview", "--refresh", SSH_PORT="1")
    assert "~ 1 to update" in planned
    assert "ReadyNodes nodes update" in planned
    out, _ = await worker(*refresh)
    assert "updated" not in out

    # a killed upgrade has left its marks
    for mark in ("cordoned", "marked", "excluded"):
        (worker.there / mark).touch()
    planned, _ = await worker("preview", "--refresh")
    assert "ReadyNodes nodes" in planned
    assert left(worker.there) == ["cordoned", "marked", "excluded"]
    _, steps = await worker(*refresh)
    assert steps == ["uncordon"]
    assert left(worker.there) == []

    (worker.there / "stopped").touch()
    planned, _ = await worker("preview", "--refresh")
    assert "k3s-agent is inactive" in planned
    assert (worker.there / "stopped").exists()
    _, steps = await worker(*refresh)
    assert steps == []
    assert not (worker.there / "stopped").exists()

    # its owner has cordoned the Node
    (worker.there / "cordoned").touch()
    out, steps = await worker(*refresh)
    assert "updated" not in out
    assert steps == []


async def test_what_an_earlier_version_did_not_note_changes_nothing(worker) -> None:
    await worker()
    state = json.loads(worker.lab.state_file.read_text())
    for item in state["checkpoint"]["latest"]["resources"]:
        for side in ("inputs", "outputs"):
            for name in ("installed", "release"):
                item.get(side, {}).pop(name, None)
    worker.lab.state_file.write_text(json.dumps(state))
    for command in (("preview",), ("up", "--yes")):
        out, steps = await worker(*command)
        assert "updated" not in out
        assert "to update" not in out
        assert steps == []
