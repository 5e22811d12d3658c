import asyncio
import json

import pytest
from control_servers import at_cloud, node
from fake_programs import programs
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st
from pulumi.runtime import rpc

from ccm_pulumi.cluster import k3s_scripts
from ccm_pulumi.cluster.drain import BY_US, EXCLUDED, UPGRADING, Traffic, readmission
from ccm_pulumi.cluster.k3s_installation import K3sAgentProvider, K3sServerProvider, is_upgrade
from ccm_pulumi.cluster.k3s_upgrade import drain_for_upgrade, refuse, release_of
from ccm_pulumi.cluster.k3s_versions import follows, oldest, parts, pinned, why_not
from ccm_pulumi.cluster.node_readiness_gate import (
    NodeReadinessGateProvider,
    await_traffic,
    balancers_without,
    peers_of,
    still_lacks,
)
from ccm_pulumi.cluster.ready_nodes import view
from ccm_pulumi.config.k3s import Release
from ccm_pulumi.lib.errors import DrainError, InfraError, UpgradeError, VersionError

numbers = st.integers(0, 40)
versions = st.builds("v1.{}.{}+k3s{}".format, numbers, numbers, st.integers(1, 3))


def exact(version):
    return Release("https://get.k3s.io", "", version)


def channel(name):
    return Release("https://get.k3s.io", name, "")


@given(installed=versions, wanted=versions)
def test_up_by_one_minor_version_at_most_and_never_down(installed, wanted):
    here, there = parts(installed), parts(wanted)
    assert here
    assert there
    allowed = here <= there and there[1] - here[1] <= 1
    assert (why_not(installed, exact(wanted)) == "") is allowed


@given(installed=versions, minor=numbers)
def test_a_channel_of_a_minor_version_is_known_by_its_name(installed, minor):
    here = parts(installed)
    assert here
    assert (why_not(installed, channel(f"v1.{minor}")) == "") is (0 <= minor - here[1] <= 1)


@given(installed=st.text(max_size=20) | versions, name=st.sampled_from(["stable", "latest", "testing", ""]))
def test_where_other_channels_lead_is_known_afterwards(installed, name):
    assert why_not(installed, channel(name)) == ""


@given(installed=versions, leads=versions)
def test_where_a_channel_leads_is_judged_as_an_exact_version_is(installed, leads):
    def judged(here, there):
        try:
            refuse(here, channel("latest"), there)
        except VersionError:
            return False
        return True

    assert judged(installed, leads) is (why_not(installed, exact(leads)) == "")
    for unknown in ("", "stable", "v1.36.3+k3s-4c4b0e6"):
        assert judged(installed, unknown)
        assert judged(unknown, leads)


@given(there=versions, name=st.sampled_from(["stable", "latest", "v1.36", ""]), wanted=versions)
def test_who_joins_by_a_channel_gets_what_is_there_and_an_exact_version_stays(there, name, wanted):
    assert pinned(channel(name), there).environment() == {"INSTALL_K3S_VERSION": there}
    assert pinned(exact(wanted), there) == exact(wanted)
    for unknown in ("", "v1.36.3+k3s-4c4b0e6"):
        assert pinned(channel(name), unknown) == channel(name)


@given(there=versions, minor=numbers)
def test_a_channel_tells_whether_it_led_to_what_is_there(there, minor):
    here = parts(there)
    assert here
    assert follows(channel(f"v1.{minor}"), there) is (here[1] == minor)
    assert follows(channel("stable"), there)
    assert follows(channel(f"v1.{minor}"), "")


@given(there=st.lists(versions, min_size=1, max_size=5))
def test_the_oldest_is_newer_than_none(there):
    found = oldest([*there, "v1.36.3+k3s-4c4b0e6"])
    assert found in there
    assert all((parts(found) or ()) <= (parts(one) or ()) for one in there)
    assert oldest([]) == ""


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("v1.36.3-rc1+k3s1", "v1.36.3+k3s1"),
        ("v1.36.3-rc2+k3s1", "v1.36.3-rc10+k3s1"),
        ("v1.36.3+k3s1", "v1.36.3+k3s2"),
        ("v1.36.9+k3s1", "v1.36.10+k3s1"),
    ],
)
def test_versions_have_an_order(older, newer):
    assert why_not(older, exact(newer)) == ""
    assert f"{newer} is installed" in why_not(newer, exact(older))


AGENT = {
    "server_id": "1",
    "cluster": "9/a/b",
    "server_ip": "10.0.0.2",
    "install_url": "https://get.k3s.io",
    "channel": "",
    "version": "v1.35.4+k3s1",
    "token": "T",
    "node_labels": {},
    "node_taints": [],
}


# what was asked for before is no upgrade, whatever the installer has brought then
NOTED = {**AGENT, "installed": "v1.36.4+k3s1", "release": json.dumps(["u", "stable", "v1.36.3+k3s1"])}
ASKED = {"install_url": "u", "channel": "stable", "version": "v1.36.3+k3s1"}
# the installed version is the one that the channel led to
FOLLOWS = {**AGENT, "version": "", "channel": "stable", "installed": "v1.36.3+k3s1"}


@pytest.mark.parametrize(
    ("before", "change", "upgrade"),
    [
        (AGENT, {"version": "v1.36.3+k3s1"}, True),
        (AGENT, {"version": "", "channel": "stable"}, True),
        (AGENT, {"install_url": "https://other.example"}, True),
        (AGENT, {"token": "U"}, False),
        (AGENT, {"node_labels": {"disk": "fast"}}, False),
        (AGENT, {"version": "v1.36.3+k3s1", "cluster": "8/a/b"}, False),
        (FOLLOWS, {"channel": "", "version": "v1.36.3+k3s1"}, False),
        (FOLLOWS, {"channel": "", "version": "v1.36.3+k3s1", "install_url": "https://x#sha256=0"}, False),
        (FOLLOWS, {"channel": "", "version": "v1.36.4+k3s1"}, True),
        (FOLLOWS, {"channel": "latest"}, True),
        (NOTED, ASKED, False),
        (NOTED, {**ASKED, "version": "v1.37.0+k3s1"}, True),
    ],
)
def test_only_another_k3s_in_the_same_cluster_is_an_upgrade(before, change, upgrade):
    news = {**before, **change}
    assert is_upgrade(before, news, release_of(news)) is upgrade


SERVER = {
    **{name: AGENT[name] for name in ("server_id", "install_url", "channel", "version", "token")},
    "cluster_cidr": "10.244.0.0/16",
    "service_cidr": "10.43.0.0/16",
    "private_ip": "10.0.0.2",
}


def diff(olds, **news):
    return K3sServerProvider().diff("1", {**SERVER, **olds}, {**SERVER, **news})


def test_a_preview_refuses_a_way_that_k3s_can_not_go():
    with pytest.raises(VersionError, match=r"k3sVersion: 'v1\.34\.4\+k3s1' is not .*: v"):
        diff({}, version="v1.34.4+k3s1")
    with pytest.raises(VersionError, match=r"the cluster was not changed"):
        diff({"version": "", "channel": "stable", "installed": "v1.35.4+k3s1"}, version="v1.34.4+k3s1")
    assert diff({}, version="v1.36.3+k3s1").changes
    assert not diff({"installed": "v1.99.0+k3s1"}).changes
    # no output says which release an earlier version of the program installed from a channel: ask the server
    assert diff({"version": "", "channel": "v1.36"}, version="v1.34.4+k3s1").changes


@pytest.fixture
def machine(tmp_path, monkeypatch, host):
    """A server whose `k3s` has a Node and a version, and records its arguments."""
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setenv("PATH", programs(tmp_path))

    def has(node=None, *, nodes=(), version="", stuck=False):
        (tmp_path / "node").write_text(json.dumps(node) if node else "")
        (tmp_path / "nodes").write_text(json.dumps({"items": list(nodes)}))
        k3s = f"""case "$*" in
  --version) [ -z "{version}" ] || echo "k3s version {version} (abc)"; echo "go version go1.25" ;;
  *"get nodes "*) cat {tmp_path}/nodes ;;
  *"get node "*) cat {tmp_path}/node ;;
  *"get lease "*) ;;
  *"get pods "*|*"get poddis"*) echo '{{"items": []}}' ;;
  *" drain "*) echo "$*" >> {log}; {"exit 1" if stuck else "true"} ;;
  *) echo "$*" >> {log} ;;
esac"""
        programs(tmp_path, k3s=k3s)
        return lambda: [line.removeprefix("kubectl ") for line in log.read_text().splitlines()]

    return has, host


# as in k3s's own installer
CHANNELS = (
    "    INSTALL_K3S_CHANNEL_URL=${INSTALL_K3S_CHANNEL_URL:-'https://k3s.example/v1-release/channels'}\n"
)
# not on every machine that runs the fast tests
CURL = """for word; do
  [ "$before" != -o ] || file=$word
  [ "$before" != -w ] || format=$word
  before=$word
done
if [ -z "$format" ]; then cp "${word#file://}" "$file"; exit; fi
[ "$format" = "%{url_effective}" ] && [ "$word" = https://k3s.example/v1-release/channels/stable ] || exit 2
cat leads 2>/dev/null || exit 7
"""


@pytest.fixture
def control_server(machine, tmp_path, monkeypatch):
    """Follows the channel stable from v1.35.4; gives the installer's variables, none where it did not run."""
    # the script runs on this machine, whose own folder is not the test's to write into
    monkeypatch.setattr(k3s_scripts, "NOTE", str(tmp_path / "etc" / "note"))
    monkeypatch.setattr(k3s_scripts, "FOLDER", str(tmp_path / "etc"))
    has, host = machine
    has(version="v1.35.4+k3s1")
    curl = CURL.replace("cat leads", f"cat {tmp_path}/leads")
    programs(tmp_path, ip="echo ' 10.0.0.2/32'", systemctl="", curl=curl)
    variables, installer = tmp_path / "variables", tmp_path / "install.sh"
    props = {
        **SERVER,
        "address": host.address,
        "host_key": host.host_key,
        "private_key": host.private_key,
        "install_url": f"file://{installer}",
        "disable": [],
        "network_policy": True,
        "agent_token": "a",
        "version": "",
        "channel": "v1.35",
    }

    async def follow(leads="", *, installs="v1.35.4+k3s1", text=CHANNELS):
        runs = f"env | grep -E '^INSTALL_K3S_(VERSION|CHANNEL)=' > {variables}\n"
        becomes = f"sed -i s/v1.35.4+k3s1/{installs}/g {tmp_path}/k3s\n"
        installer.write_text(text + runs + becomes)
        if leads:
            (tmp_path / "leads").write_text(leads)
        outs = await asyncio.to_thread(K3sServerProvider().update, "1", props, {**props, "channel": "stable"})
        return variables.read_text().split(), outs.outs["installed"]

    follow.variables = variables
    return follow


PAGE = "https://github.com/k3s-io/k3s/releases/tag/"


@pytest.mark.parametrize(
    ("leads", "why"),
    [
        ("v1.37.0+k3s1", r"v1\.35\.4\+k3s1 is installed, and k3s can't skip a minor version"),
        ("v1.35.3%2Bk3s1", "v1.35.4.k3s1 is installed"),
    ],
)
async def test_a_channel_that_leads_where_k3s_can_not_go_is_refused_before_the_installer_runs(
    control_server, leads, why
):
    with pytest.raises(VersionError, match=rf"'stable' is not .* results in the version v.*{why}") as it:
        await control_server(PAGE + leads)
    assert str(it.value).endswith("the cluster was not changed")
    assert not control_server.variables.exists()


async def test_what_was_judged_is_installed_also_when_the_channel_leads_elsewhere_meanwhile(control_server):
    asked, installed = await control_server(PAGE + "v1.36.3+k3s1", installs="v1.36.3+k3s1")
    assert asked == ["INSTALL_K3S_VERSION=v1.36.3+k3s1"]
    assert installed == "v1.36.3+k3s1"


@pytest.mark.parametrize(
    "unknown",
    [
        {},  # no response
        {"leads": "https://k3s.example/v1-release/channels/stable"},
        {"leads": PAGE + "v1.37.0+k3s1", "text": "#!/bin/sh\n"},  # the installer names no server
    ],
)
async def test_without_a_channel_server_the_installed_release_is_checked(control_server, unknown):
    assert await control_server(**unknown) == (["INSTALL_K3S_CHANNEL=stable"], "v1.35.4+k3s1")
    with pytest.raises(VersionError, match=r"resulted in the version v1\.37\.0\+k3s1"):
        await control_server(**unknown, installs="v1.37.0+k3s1")


QUIET = Traffic(list, polls=3, pause=0)


async def test_what_its_owner_has_cordoned_stays_so(machine):
    has, host = machine
    commands_run = has(node(unschedulable=True))
    await drain_for_upgrade([host], "w-1", 30, QUIET)
    assert "annotate" not in [line.split()[0] for line in commands_run()]


async def test_a_drain_that_fails_stops_the_upgrade_and_says_how_to_go_on(machine):
    has, host = machine
    has(node(), stuck=True)
    with pytest.raises(UpgradeError, match=r"(?s)k3s on the node w-1 was not upgraded") as it:
        await drain_for_upgrade([host], "w-1", 30, QUIET)
    assert isinstance(it.value.__cause__, DrainError)
    assert "kubectl uncordon w-1" in str(it.value)
    assert "was not deleted" not in str(it.value)


@pytest.fixture
def agent(machine, tmp_path):
    """Updates an agent's k3s on that server; gives what happened step by step, and what was asked for."""
    has, host = machine
    commands_run = has(node(), version="v1.36.3+k3s1")
    programs(tmp_path, ip="echo ' 10.0.0.2/32'", systemctl=f"echo systemctl >> {tmp_path}/log", curl=CURL)
    asks = "$(env | grep -E '^INSTALL_K3S_(VERSION|CHANNEL)=')"
    (tmp_path / "install.sh").write_text(
        f'[ ! -e {tmp_path}/broken ] && echo "install {asks}" >> {tmp_path}/log\n'
    )
    reached = {"address": host.address, "host_key": host.host_key}
    props = {
        **AGENT,
        **reached,
        "private_key": host.private_key,
        "private_ip": "10.0.0.2",
        "install_url": f"file://{tmp_path}/install.sh",
        "node": "w-1",
        "controls": {"control": reached},
        "drain_seconds": 30,
    }

    async def update(before=(), **changes):
        provider = at_cloud(K3sAgentProvider())
        olds, news = {**props, **dict(before)}, {**props, **changes}
        result = await asyncio.to_thread(provider.update, "1", olds, news)
        (asked,) = (line.split()[1:] for line in commands_run() if line.startswith("install "))
        return [line.split()[0] for line in commands_run()], asked, result.outs

    return update


async def test_an_agent_is_drained_before_another_k3s_is_installed(agent):
    steps, _, outs = await agent(version="v1.36.3+k3s1")
    assert steps == ["annotate", "cordon", "label", "drain", "install", "systemctl"]
    assert outs["installed"] == "v1.36.3+k3s1"


@pytest.mark.parametrize(
    ("wanted", "asked"),
    [
        *(({"channel": name, "version": ""}, "v1.36.3+k3s1") for name in ("stable", "v1.36", "v1.37")),
        ({"version": "v1.36.4+k3s1"}, "v1.36.4+k3s1"),
    ],
)
async def test_no_worker_gets_a_newer_k3s_than_its_control_servers_by_a_channel(agent, wanted, asked):
    assert (await agent(**wanted))[1] == [f"INSTALL_K3S_VERSION={asked}"]


async def test_a_worker_is_drained_before_it_gets_the_k3s_to_which_its_control_servers_went(agent):
    follows = {"channel": "stable", "version": ""}
    before = {**follows, "installed": "v1.36.2+k3s1"}
    steps, asked, _ = await agent(before, **follows, node_labels={"disk": "fast"})
    assert steps[:4] == ["annotate", "cordon", "label", "drain"]
    assert asked == ["INSTALL_K3S_VERSION=v1.36.3+k3s1"]


@pytest.mark.parametrize(
    "change",
    [
        {"token": "U"},
        {"node_labels": {"a": "b"}},
        {"cluster": "8/a/b"},
        {"version": "v1.36.3+k3s1", "drain_seconds": 0},
    ],
)
async def test_other_changes_do_not_drain(agent, change):
    assert (await agent(**change))[0] == ["install", "systemctl"]


async def test_an_agent_whose_installation_fails_stays_cordoned(agent, tmp_path):
    (tmp_path / "broken").touch()
    with pytest.raises(UpgradeError, match=r"(?s)installing the k3s agent on .* failed.*stays cordoned"):
        await agent(version="v1.36.3+k3s1")
    assert "uncordon" not in (tmp_path / "log").read_text()


CONTROL_NODE = node("c", labels={"node-role.kubernetes.io/control-plane": "true"})
CONTROL = view(CONTROL_NODE)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (None, "the server has not joined the cluster"),
        (node(providerID="hcloud://6"), "the Node belongs to an older server with the ID 6"),
        ({**node(), "status": {"conditions": []}}, "the Node is not ready"),
        (
            {**node(), "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            "has not created a route to the Pods",
        ),
        (node(), ""),
    ],
)
def test_conditions_that_a_worker_lacks_after_its_upgrade(found, says):
    lacks = still_lacks(view(found) if found else None, [CONTROL], "7", None)
    assert (says in lacks) if says else not lacks


@pytest.mark.parametrize(
    ("installed", "complete"),
    [("v1.36.3+k3s1", True), ("v1.36.3+k3s2", False), ("v1.37.0+k3s1", False), (None, True)],
)
def test_the_kubelet_has_to_be_the_one_that_was_installed(installed, complete):
    found = node()
    assert (not still_lacks(view(found), [CONTROL], "7", installed)) is complete
    # plain Kubernetes has no build of k3s
    found["status"]["nodeInfo"]["kubeletVersion"] = "v1.36.3"
    assert not still_lacks(view(found), [CONTROL], "7", "v1.36.3+k3s1")


def test_nothing_is_waited_for_before_there_is_a_cloud_controller_manager():
    fresh = view({**CONTROL_NODE, "spec": {"providerID": ""}})
    assert not still_lacks(None, [fresh], "7", None)
    assert not still_lacks(None, [], "7", None)


OURS = {EXCLUDED: BY_US}
SERVE, UNMARK = f"label node w-1 {EXCLUDED}-", f"annotate node w-1 {UPGRADING}-"


@pytest.mark.parametrize(
    ("labels", "marks", "commands"),
    [
        ({}, {}, []),
        (OURS, {UPGRADING: ""}, ["uncordon w-1", SERVE, UNMARK]),
        # cordoned by its owner, and out of load balancers by the drain alone
        (OURS, {}, [SERVE]),
        ({EXCLUDED: "true"}, {UPGRADING: ""}, ["uncordon w-1", UNMARK]),
    ],
)
def test_only_what_the_upgrade_did_is_undone(labels, marks, commands):
    run = [line.removeprefix("k3s kubectl ") for line in readmission("w-1", labels, marks)]
    assert run == commands


@pytest.fixture
def again(machine):
    """What waits for the node w-1, whose cluster has these Nodes; gives what it does, and the steps."""
    has, host = machine
    found = node(labels=OURS, annotations={UPGRADING: ""}, unschedulable=True)
    commands_run = has(found, nodes=[CONTROL_NODE, found])
    provider = at_cloud(NodeReadinessGateProvider())
    reached = {"address": host.address, "host_key": host.host_key, "private_key": host.private_key}
    props = {**reached, "server_id": "1", "node": "w-1", "member_id": "7", "installed": "v1.36.3+k3s1"}
    return provider, props, lambda: [line.split()[0] for line in commands_run()]


async def test_a_worker_that_is_ready_takes_pods_and_traffic_again(again, capfd):
    provider, props, steps = again
    await asyncio.to_thread(provider.update, "w-1", {**props, "member_id": "6"}, {**props, "existed": True})
    assert steps() == ["uncordon", "label", "annotate"]
    assert "could not check" in capfd.readouterr().out


@pytest.mark.parametrize("existed", [True, False])
async def test_a_new_worker_is_not_waited_for(again, existed):
    provider, props, steps = again
    await asyncio.to_thread(provider.create, {**props, "existed": existed})
    assert bool(steps()) is existed


def test_what_changes_nothing_on_a_worker_is_not_waited_for(again):
    provider, props, _ = again
    before = {**props, "existed": False, "others": {}}
    assert not provider.diff(
        "w-1", before, {**before, "existed": True, "server_id": "2", "address": "x"}
    ).changes
    result = provider.diff("w-1", before, {**before, "member_id": "8"})
    assert (result.changes, result.replaces) == (True, [])


def test_unknown_outputs_are_no_change_in_a_preview(again):
    provider, props, _ = again
    unknown = Struct()
    unknown.update(dict.fromkeys(("installed", "release", "member_id"), rpc.UNKNOWN))
    read = rpc.deserialize_properties(unknown, True)
    before = {name: value for name, value in props.items() if name != "installed"}
    outputs = {name: read[name] for name in ("installed", "release")}
    assert not provider.diff("w-1", before, {**before, **outputs}).changes
    assert provider.diff("w-1", before, {**before, **outputs, "member_id": read["member_id"]}).changes
    assert provider.diff("w-1", props, {**props, **outputs}).changes


def balancer(name, **targets):
    return {
        "name": name,
        "targets": [
            {
                "type": "server",
                "server": {"id": int(server[1:])},
                "health_status": [{"listen_port": 80, "status": status}],
            }
            for server, status in targets.items()
        ],
    }


def test_load_balancers_of_the_others_have_to_find_it_healthy():
    balancers = [
        balancer("all", s7="healthy", s8="healthy"),
        balancer("not-yet", s8="healthy"),
        balancer("looks", s7="unknown", s8="healthy"),
        balancer("of-others", s9="healthy"),
    ]
    assert balancers_without("7", {"8", ""}, balancers) == ["not-yet", "looks"]
    assert balancers_without("7", set(), balancers) == []
    selected = {"type": "label_selector", "targets": balancer("", s8="healthy")["targets"]}
    assert balancers_without("7", {"8"}, [{"name": "selects", "targets": [selected]}]) == ["selects"]


def test_the_others_are_those_of_the_same_pool():
    names = {"shop-a-1": "1", "shop-a-2": "2", "shop-a-12": "3", "shop-a-b-1": "4", "shop-b-1": "5"}
    names["shop-control"] = "6"
    nodes = {name: view(node(name, providerID=f"hcloud://{number}")) for name, number in names.items()}
    assert peers_of("shop-a-1", nodes) == {"2", "3"}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([["web"], []], ""),
        ([["web", "api"], ["web"]], "these load balancers still don't report the node w-1 as healthy: web"),
        ([], "could not check whether load balancers report the node w-1 as healthy: no answer"),
    ],
)
async def test_the_rollout_waits_for_traffic_only_for_a_time(capsys, answers, said):
    def senders():
        if not answers:
            raise InfraError("no answer")
        return answers.pop(0)

    await await_traffic("w-1", Traffic(senders, polls=2, pause=0))
    assert said in capsys.readouterr().out if said else not capsys.readouterr().out
