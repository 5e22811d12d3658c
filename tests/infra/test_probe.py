import asyncio
import contextlib
import json
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from control_servers import node
from fake_programs import programs, sh
from hypothesis import given
from hypothesis import strategies as st

from ccm_pulumi.addons import security_updates
from ccm_pulumi.cluster import pod_network
from ccm_pulumi.cluster.etcd_leave import PeerView, is_unknown_member
from ccm_pulumi.cluster.k3s_drift import agent_drift, server_drift
from ccm_pulumi.cluster.k3s_installation import K3sAgentProvider
from ccm_pulumi.cluster.peers import Peer
from ccm_pulumi.cluster.ready_nodes import view
from ccm_pulumi.config import k3s
from ccm_pulumi.lib.errors import HostKeyError, InfraError, UnreachableError
from ccm_pulumi.lib.ssh import Host
from ccm_pulumi.servers import nat, probe
from ccm_pulumi.servers.probe import (
    AGENT_UNIT,
    SERVER_UNIT,
    NoReport,
    Probes,
    Report,
    Unit,
    parse,
    written_by,
)
from infra.ccm_image import image_drift

NETWORK = IPv4Network("10.0.0.0/16")
SCRIPTS = {
    "pod network": pod_network.script("10.244.1.0/24", "10.244.0.0/16", metadata=False),
    "security updates": security_updates.script(),
    "private server": nat.private_script(NETWORK),
    "NAT server": nat.nat_script(NETWORK),
}
NODE = node()
FLAGS = ["--node-ip=10.0.0.2", "--node-label=disk=100%", "--node-taint=a=b c:NoSchedule"]
VARIABLES = {"K3S_URL": "https://10.0.0.1:6443", "K3S_TOKEN": "T"}


def unit_name(unit: str) -> str:
    return unit.removesuffix(".service")


def as_written(script: str) -> Report:
    """The report of a server on which the script ran."""
    written = written_by(script)
    return Report(
        units={unit_name(unit): Unit("active", "enabled") for unit in (*written.enabled, *written.active)},
        files=dict(written.files),
        tables=frozenset(written.tables),
    )


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_what_a_script_writes_is_what_the_probe_looks_at(script: str) -> None:
    subprocess.run(["sh", "-n"], input=script, text=True, check=True, timeout=60)
    written = written_by(script)
    assert written.files
    assert written.files.keys() <= set(probe.FILES)
    assert {unit_name(unit) for unit in (*written.enabled, *written.active)} <= set(probe.UNITS)
    assert probe.differences(script, as_written(script)) == []


@given(name=st.sampled_from([*SCRIPTS]), pick=st.randoms(use_true_random=False))
def test_each_difference_is_found_alone(name: str, pick) -> None:
    script = SCRIPTS[name]
    report, written = as_written(script), written_by(script)
    things = [
        *(("file", path) for path in written.files),
        *(("enabled", unit_name(unit)) for unit in written.enabled),
        *(("active", unit_name(unit)) for unit in written.active),
        *(("table", table) for table in written.tables),
    ]
    kind, which = pick.choice(things)
    units, files, tables = dict(report.units), dict(report.files), report.tables
    if kind == "file":
        files.pop(which) if pick.random() < 0.5 else files.update({which: "other"})
    elif kind == "table":
        tables = tables - {which}
    else:
        units[which] = Unit(
            "failed" if kind == "active" else "active", "disabled" if kind == "enabled" else "enabled"
        )
    (found,) = probe.differences(script, Report(units=units, files=files, tables=tables))
    assert which in found


GENUINE = """[Service]
EnvironmentFile=-/etc/default/%N
EnvironmentFile=-{folder}/{name}.service.env
ExecStart=/usr/local/bin/k3s \\
    {command} \\
{flags}
"""
SANDBOX = """[Service]
EnvironmentFile=-{folder}/{name}.service.env
ExecStart=/usr/local/bin/k3s {command} {words}
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch):
    """A machine with k3s of the unit file and environment that a test writes; gives its report."""
    scripts = {
        "systemctl": f"""case "$*" in
  show*) printf 'Id=%s.service\\nActiveState=active\\nUnitFileState=enabled\\n\\n' k3s k3s-agent ;;
  "cat "*) cat {tmp_path}/$2.service 2>/dev/null ;;
esac""",
        "ss": f"cat {tmp_path}/listening 2>/dev/null || echo LISTEN 0 4096 '*:10250' '*:*'",
        "nft": "echo table ip pod-network; echo table ip other",
        "k3s": f"""case "$*" in
  "ctr images ls") printf '%s\\n' 'REF LABELS' 'localhost/a:1 a=b,io.cri-containerd.pinned=pinned' 'b:2 -' ;;
  *) cat {tmp_path}/nodes.json ;;
esac""",
    }
    monkeypatch.setenv("PATH", programs(tmp_path, **scripts))
    (tmp_path / "nodes.json").write_text(json.dumps({"items": [NODE]}))

    def look(name: str, template: str, command: str, flags: list[str], environment: str) -> Report:
        quoted = [f"'{flag.replace('%', '%%') if template is SANDBOX else flag}'" for flag in flags]
        text = template.format(
            folder=tmp_path,
            name=name,
            command=command,
            flags="".join(f"\t{flag} \\\n" for flag in quoted),
            words=" ".join(quoted),
        )
        (tmp_path / f"{name}.service").write_text(text)
        (tmp_path / f"{name}.service.env").write_text(environment)
        said = sh(probe.probe_script()).stdout
        assert "S3CRET" not in said
        return parse(said)

    return look


@pytest.mark.parametrize("template", [GENUINE, SANDBOX], ids=["genuine", "stand-in"])
@pytest.mark.parametrize("quote", ["", "'"])
def test_an_agent_that_runs_as_it_was_installed_has_no_drift(
    machine, tmp_path: Path, template: str, quote: str
) -> None:
    given = f"K3S_TOKEN={quote}S3CRET{quote}\nK3S_URL={quote}{VARIABLES['K3S_URL']}{quote}\n"
    report = machine(AGENT_UNIT, template, "agent", FLAGS, given)
    wanted = {**VARIABLES, "K3S_TOKEN": "S3CRET"}
    assert agent_drift("w-1", FLAGS, wanted, report, {"w-1": NODE}) == []
    (other_token,) = agent_drift("w-1", FLAGS, {**wanted, "K3S_TOKEN": "else"}, report, None)
    assert "K3S_TOKEN" in other_token
    (other_flags,) = agent_drift("w-1", FLAGS[1:], wanted, report, None)
    assert "--node-ip" in other_flags
    (no_node,) = agent_drift("w-1", FLAGS, wanted, report, {})
    assert "w-1" in no_node
    (tmp_path / "listening").write_text("")
    refused = machine(AGENT_UNIT, template, "agent", FLAGS, given)
    (no_kubelet,) = agent_drift("w-1", FLAGS, wanted, refused, {"w-1": NODE})
    assert "kubelet" in no_kubelet
    # a worker is not asked for what only control servers know
    assert (report.images, report.nodes) == (None, None)


def test_a_control_server_tells_images_tables_and_nodes(machine) -> None:
    report = machine(SERVER_UNIT, SANDBOX, "server", [*FLAGS, "--cluster-init"], "K3S_TOKEN=S3CRET\n")
    assert report.images == {"localhost/a:1": True, "b:2": False}
    assert report.tables == {"pod-network", "other"}
    assert report.nodes == {"w-1": NODE}
    assert image_drift("localhost/a:1", report) == []
    assert [bool(image_drift(name, report)) for name in ("b:2", "c:3")] == [True, True]
    # how it joined is of no account any more, and there is no datastore on this machine
    (lost,) = server_drift("w-1", FLAGS, {"K3S_TOKEN": "S3CRET"}, {}, report)
    assert k3s.DATASTORE in lost


@given(
    active=st.sampled_from(["active", "activating", "inactive", "failed", ""]),
    enabled=st.sampled_from(["enabled", "disabled", "masked", ""]),
    joined=st.booleans(),
    kubelet=st.booleans(),
)
def test_an_agent_is_repaired_exactly_when_it_is_down_disabled_refused_or_no_node(
    active: str, enabled: str, joined: bool, kubelet: bool
) -> None:
    report = Report(
        units={AGENT_UNIT: Unit(active, enabled)},
        files={probe.K3S: ""},
        commands={AGENT_UNIT: ["agent"]},
        kubelet=kubelet,
    )
    found = agent_drift("w", [], {}, report, {"w": NODE} if joined else {})
    runs = active in ("active", "activating") and enabled == "enabled" and kubelet
    assert bool(found) == (not runs or not joined)


@given(text=st.text(alphabet="== unitsfiles\nk3s={}[]\"' nodescommand\\", max_size=200))
def test_whatever_a_server_prints_is_a_report_or_an_error_for_a_person(text: str) -> None:
    with contextlib.suppress(InfraError):
        assert isinstance(parse(f"== units\n{text}"), Report)


def test_a_network_is_of_the_range_that_its_node_has() -> None:
    report, cidr = as_written(SCRIPTS["pod network"]), "10.244.0.0/16"
    name, there = NODE["metadata"]["name"], view(NODE).pod_cidr
    assert pod_network.network_drift(there, report, cidr, metadata=False) == []
    assert pod_network.network_drift(there, report, cidr, metadata=True)
    assert pod_network.network_drift("10.244.3.0/24", report, cidr, metadata=False)
    assert pod_network.network_drift("", report, cidr, metadata=False)
    props = {"node": name, "pod_cidr": "10.244.3.0/24"}
    assert pod_network.range_of(props, {name: NODE}) == there
    assert pod_network.range_of(props, {}) == ""
    # no API server answers, and the server is looked at all the same
    assert pod_network.range_of(props, None) == "10.244.3.0/24"


def test_each_server_is_asked_once_for_all_who_read_it_at_the_same_time() -> None:
    asked: list[str] = []
    begun = threading.Event()

    async def asking(host: Host) -> Report:
        asked.append(host.address)
        await asyncio.to_thread(begun.wait, 30)
        if host.address == "silent":
            raise UnreachableError("silent", 6, "no answer")
        if host.address in ("other", "behind"):
            raise HostKeyError("other")
        return Report(host=host.address)

    now = 0.0
    probes = Probes(asking, clock=lambda: now, tell=lambda _: None)
    hosts = [Host(address, "K") for address in ("a", "silent", "other", "behind")]
    with ThreadPoolExecutor(4) as pool:
        reads = [pool.submit(probes.of, hosts) for _ in range(4)]
        begun.set()
        answers = [read.result(timeout=30) for read in reads]
    assert sorted(asked) == ["a", "behind", "other", "silent"]
    for mine, silent, other, behind in answers:
        assert mine == Report(host="a")
        assert isinstance(silent, NoReport)
        assert not silent.is_other
        assert isinstance(other, NoReport)
        assert other.is_other
        # its gateway has another key
        assert isinstance(behind, NoReport)
        assert not behind.is_other
    now = probe.FRESH_SECONDS + 1
    probes.of(hosts[:1])
    assert sorted(asked) == ["a", "a", "behind", "other", "silent"]


def test_a_silent_server_keeps_its_state_and_one_with_another_key_is_repaired() -> None:
    assert probe.drift_of(NoReport("no answer"), lambda _: ["x"]) is None
    assert probe.drift_of(NoReport("other", is_other=True), lambda _: ())


KNOWN = (["c-1", "c-2"], ["c-2"], [], ["c-3"])
"""The members of etcd that the server c-2 names, from case to case."""


def test_drift_is_an_update_and_never_a_replacement() -> None:
    state = {"server_id": "1", "token": "T"}
    for drift, changes in (([], False), (["k3s-agent is inactive"], True)):
        result = K3sAgentProvider().diff("", {**state, probe.DRIFT: drift}, state)
        assert (result.changes, result.replaces) == (changes, [])


def test_who_is_left_out_of_a_cluster_is_said_by_its_members() -> None:
    views = [PeerView(Peer("2", "c-2", "", "10.0.0.3", True), dict.fromkeys(known, "")) for known in KNOWN]
    assert [is_unknown_member("c-1", [view]) for view in views] == [False, True, False, False]
    assert not is_unknown_member("c-1", [])
