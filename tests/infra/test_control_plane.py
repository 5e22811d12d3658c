"""Several control servers: who begins, who joins whom, who may leave, and which cluster it is afterwards."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import subprocess
from collections import Counter

import pulumi
import pytest
import yaml
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st
from infra_settings import read_settings
from pulumi.runtime import rpc

from infra import k3s, k3s_scripts
from infra.backups import Backups, settings_file
from infra.cluster import K3sServerProvider, identity_of, is_another_cluster, server_script
from infra.errors import (
    AnotherClusterError,
    AnotherTokenError,
    ConfigurationError,
    QuorumError,
    RestartError,
    UnknownClusterError,
)
from infra.identity import ClusterIdentityProvider
from infra.inventory import control_group, turns_of
from infra.joining import DOWN, NONE, OTHER, READY, SILENT, Said, Start, ask, question, read_answer, start_of
from infra.leaving import Look, check_quorum, check_restart, make_room, members_of, survivor_of
from infra.roster import Peer, labels_of, peers
from infra.vote import VoteProvider

DYNAMIC = "pulumi-python:dynamic/ccm-from-scratch:"
SERVER = "hcloud:index/server:Server"
ROLES = ["control", "control-2", "control-3"]


def peer(number, **changes):
    facts = {"public": f"203.0.113.{number}", "private": f"10.0.0.{number}", "runs": True}
    return Peer(str(number), f"c-{number}", **{**facts, **changes})


# --- who begins, who joins

answers = st.lists(
    st.builds(
        Said,
        st.integers(2, 9).map(peer),
        st.sampled_from([READY, DOWN, NONE, SILENT]),
        st.booleans(),
    ),
    max_size=4,
)


def decided(said, *, begins):
    """How a server starts, or why it does not."""
    try:
        return start_of("c-1", said, begins=begins)
    except UnknownClusterError as error:
        return error


@given(said=answers, begins=st.booleans())
def test_nobody_begins_where_anybody_may_have_the_cluster(said, begins):
    found, all_said = decided(said, begins=begins), {one.has for one in said}
    ready = [one for one in said if one.has == READY]
    if ready:
        assert found == Start(ready[0].peer.private, ready[0].encrypted)
    elif begins and all_said <= {NONE}:
        assert found == Start()
    else:
        assert isinstance(found, UnknownClusterError)
        assert "c-1" in str(found)


def test_the_reason_names_who_could_not_be_asked():
    silent = Said(peer(3), SILENT, reason="no SSH connection to 203.0.113.3")
    with pytest.raises(UnknownClusterError, match=r"c-3: no SSH connection to 203\.0\.113\.3"):
        start_of("c-1", [Said(peer(2), NONE), silent], begins=True)
    with pytest.raises(
        UnknownClusterError, match=r"c-2: it has the cluster, and its API server is not ready"
    ):
        start_of("c-1", [Said(peer(2), DOWN)], begins=True)


@pytest.mark.parametrize(
    ("has", "said"),
    [
        ({"note": "mine", "db": "", "ready": "", "encryption": ""}, (READY, True)),
        ({"note": "mine", "db": "", "ready": ""}, (READY, False)),
        ({"note": "mine", "db": "", "encryption": ""}, (DOWN, True)),
        ({"note": "mine", "encryption": ""}, (NONE, True)),
        ({"note": "another", "db": "", "ready": ""}, (OTHER, False)),
        ({"note": "another", "db": ""}, (OTHER, False)),
        ({"note": "another"}, (NONE, False)),
        ({"db": "", "ready": ""}, (OTHER, False)),
        ({"db": ""}, (NONE, False)),
        ({}, (NONE, False)),
    ],
)
def test_what_a_server_says_it_has(tmp_path, monkeypatch, has, said):
    for name, path in (("NOTE", "note"), ("DATASTORE", "db"), ("ENCRYPTION", "encryption")):
        monkeypatch.setattr(f"infra.joining.{name}", tmp_path / path)
    for path, content in has.items():
        (tmp_path / path).write_text(content)
    tells = '[ "$1" = --version ] && echo "k3s version v1.36.3+k3s1 (abc)"'
    (tmp_path / "k3s").write_text(f"#!/bin/sh\n{tells} || [ -e {tmp_path}/ready ]\n")
    (tmp_path / "k3s").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    run = {"text": True, "capture_output": True, "timeout": 60}
    done = subprocess.run(["sh", "-s"], input=question("mine"), env=environment, check=True, **run)
    answer = read_answer(peer(2), done.stdout)
    assert (answer.has, answer.encrypted) == said
    assert answer.version == "v1.36.3+k3s1"


def test_who_may_have_the_cluster_lets_nobody_begin_one():
    with pytest.raises(UnknownClusterError, match=r"c-2: it has a cluster, perhaps this one"):
        start_of("c-1", [Said(peer(2), OTHER), Said(peer(3), NONE)], begins=True)
    assert start_of("c-1", [Said(peer(2), OTHER), Said(peer(3), READY)], begins=True).join == peer(3).private


def test_a_server_without_a_note_gets_one_when_it_is_changed():
    assert identity_of(SEVERAL) in server_script(SEVERAL, Start(), cluster=None)


def test_one_of_several_does_not_leave_for_other_ranges():
    provider = K3sServerProvider()
    olds = SEVERAL
    with pytest.raises(AnotherClusterError, match=r"clusterCidr: '10\.0\.0\.0/9' is not possible"):
        provider.diff("", olds, {**olds, "cluster_cidr": "10.0.0.0/9"})
    alone = PROPS
    assert provider.diff("", alone, {**alone, "cluster_cidr": "10.0.0.0/9"}).replaces == ["cluster_cidr"]


async def test_who_is_off_is_not_waited_for():
    said = await ask([peer(2, runs=False), peer(3, public="")], "no key", lambda _: "mine")
    assert sorted((one.peer.server_id, one.has, one.reason) for one in said) == [
        ("2", SILENT, "it is off"),
        ("3", SILENT, "it has no public address, and the cluster no NAT server"),
    ]


def server(number, networks, status="running", ipv4=True):
    return {
        "id": number,
        "name": f"c-{number}",
        "status": status,
        "public_net": {"ipv4": {"ip": f"203.0.113.{number}"} if ipv4 else None},
        "private_net": [{"network": network, "ip": f"10.{network}.0.{number}"} for network in networks],
    }


def test_the_others_as_the_cloud_has_them():
    found = peers([server(9, [5, 7], "off"), server(4, [7]), server(6, [], ipv4=False)], "4", 7)
    assert found == [
        Peer("6", "c-6", "", "", runs=True),
        Peer("9", "c-9", "203.0.113.9", "10.7.0.9", runs=False),
    ]
    assert labels_of({"cluster": "a", "stack": "b", "role": "control", "team": "c"}) == {
        "cluster": "a",
        "stack": "b",
    }


# --- flags and scripts

PROPS = {
    "server_id": "7",
    "address": "203.0.113.7",
    "private_ip": "10.0.0.7",
    "install_url": "https://example.com/i",
    "channel": "",
    "version": "",
    "cluster_cidr": "10.244.0.0/16",
    "service_cidr": "10.43.0.0/16",
    "disable": [],
    "network_policy": True,
    "token": "t",
    "agent_token": "a",
}
SEVERAL = {**PROPS, "member": {"node": "c-1", "first": True, "labels": {}}}


def test_what_each_of_several_is_told():
    assert "--cluster-init" not in server_script(PROPS, Start(), cluster="c")
    assert "--server" not in server_script(PROPS, Start(), cluster="c")
    begun = server_script(SEVERAL, Start(), cluster="c")
    assert "--cluster-init" in begun
    assert "INSTALL_K3S_SKIP_START" not in begun
    joined = server_script(SEVERAL, Start("10.0.0.8"), cluster="c")
    assert "--server=https://10.0.0.8:6443" in joined
    assert "--cluster-init" not in joined
    assert "INSTALL_K3S_SKIP_START=true" in joined
    # an upgrade changes nothing of how it came, and the installer starts what runs
    upgraded = server_script(SEVERAL, Start("10.0.0.8"), cluster=None)
    assert "--server=https://10.0.0.8:6443" in upgraded
    assert "INSTALL_K3S_SKIP_START" not in upgraded
    # one that is alone again needs nobody any more
    assert "--server" not in server_script(PROPS, Start("10.0.0.8"), cluster=None)


@pytest.mark.parametrize("encrypted", [True, False])
def test_who_joins_encrypts_what_the_others_do(encrypted):
    script = server_script(SEVERAL, Start("10.0.0.8", encrypted), cluster="c")
    assert ("secrets-encryption: true" in script) is encrypted


def test_who_joins_gets_the_k3s_of_the_others_unless_the_settings_name_another():
    def asks_for(**release):
        start = start_of("c-1", [Said(peer(2), READY, version="v1.36.2+k3s1")], begins=False)
        script = server_script({**SEVERAL, **release}, start, cluster="c")
        return [line for line in script.splitlines() if "INSTALL_K3S_" in line and "SKIP" not in line]

    assert asks_for(channel="stable") == ["export INSTALL_K3S_VERSION=v1.36.2+k3s1"]
    assert asks_for(channel="v1.36") == ["export INSTALL_K3S_VERSION=v1.36.2+k3s1"]
    # it is the first of those that the change of the channel makes new
    assert asks_for(channel="v1.37") == ["export INSTALL_K3S_CHANNEL=v1.37"]
    assert asks_for(version="v1.36.3+k3s1") == ["export INSTALL_K3S_VERSION=v1.36.3+k3s1"]
    # one that begins, and one that is changed, has nobody to go by
    begun = server_script({**SEVERAL, "channel": "stable"}, Start(), cluster="c")
    assert "export INSTALL_K3S_CHANNEL=stable" in begun


def test_the_only_control_server_leaves_nobody():
    K3sServerProvider().delete("1", {"server_id": "1", "private_ip": "10.0.0.2"})


def test_the_only_one_that_is_wanted_asks_those_that_remain(monkeypatch):
    monkeypatch.delenv("HCLOUD_TOKEN", raising=False)
    props = {"server_id": "1", "private_ip": "10.0.0.2", "leaver": {"node": "c-1", "labels": {}}}
    with pytest.raises(ConfigurationError, match="hcloud:token"):
        K3sServerProvider().delete("1", props)


# --- who leaves

others = st.dictionaries(st.sampled_from(["b", "c", "d", "e"]), st.booleans(), max_size=4)


def refusal(states):
    """What keeps a server, if anything does."""
    try:
        check_quorum("a", states)
    except QuorumError as error:
        return str(error)
    return ""


@given(states=others)
def test_nobody_leaves_without_a_majority_of_those_that_stay(states):
    said = refusal(states)
    assert bool(said) is (2 * sum(states.values()) <= len(states))
    assert not said or all(name in said for name in states)


@given(states=others)
def test_nobody_restarts_without_a_majority_of_all_meanwhile(states):
    try:
        check_restart("a", states)
        said = ""
    except RestartError as error:
        said = str(error)
    members = len(states) + 1
    assert bool(said) is (members > 2 and 2 * sum(states.values()) <= members)
    assert not said or all(name in said for name in states)


def test_who_is_asked_about_a_leaver():
    knows = Look(peer(2), {"c-1": "10.0.0.1", "c-2": "10.0.0.2"})
    stranger, silent = Look(peer(3), {"x": "10.0.0.3"}), Look(peer(4), {}, "it is off")
    assert survivor_of("c-1", [silent, stranger, knows]) is knows
    assert survivor_of("c-1", [stranger, Look(peer(5), {})]) is None
    with pytest.raises(QuorumError, match="c-4: it is off"):
        survivor_of("c-1", [stranger, silent])
    # who is in the cluster knows that it has left, or never joined
    assert survivor_of("c-9", [silent, knows]) is None


# Knows c-1 of a lost server, c-2 and c-3, of which those answer that are named in a file.
CLUSTER = """#!/bin/sh
cd {there}
echo "$*" >> log
at() {{
  printf '%s{{"metadata":{{"name":"%s"}},"status":{{"addresses":[' "$1" "$2"
  printf '{{"type":"InternalIP","address":"%s"}}]}}}}' "$3"
}}
case "$*" in
  *"get nodes"*)
    echo '{{"items":['
    [ ! -e c-1 ] || at "" c-1 10.0.0.1
    [ ! -e c-1 ] || printf ,
    at "" c-2 10.0.0.2; at , c-3 10.0.0.3
    echo ']}}' ;;
  *"--server=https://"*) case "$(cat ready)" in *"$2"*) ;; *) exit 1 ;; esac ;;
  *"delete node"*) rm -f c-1 ;;
esac
"""


@pytest.fixture
def named(tmp_path, host, monkeypatch):
    """Makes room for c-1 on a host that is the newcomer and the one that it joins; what was deleted."""
    there = tmp_path / "machine"
    there.mkdir()
    (there / "k3s").write_text(CLUSTER.format(there=there))
    (there / "k3s").chmod(0o755)
    (there / "c-1").touch()
    (there / "ready").write_text("--server=https://10.0.0.2:6443 --server=https://10.0.0.3:6443")
    monkeypatch.setenv("PATH", f"{there}:/usr/bin:/bin")
    monkeypatch.setattr("infra.leaving.DATASTORE", there / "db")
    monkeypatch.setattr("infra.leaving.NOTE", there / "note")

    async def make() -> list[str]:
        (there / "log").write_text("")
        await asyncio.to_thread(make_room, "c-1", host, "mine", peer(2, public=host.address))
        calls = (there / "log").read_text().splitlines()
        return [call.split()[-1] for call in calls if " delete " in f" {call} "]

    make.there = there
    return make


async def test_a_predecessor_of_whom_no_state_knows_is_taken_out(named):
    assert await named() == ["c-1", "c-1.node-password.k3s"]
    # its password may outlive its Node
    assert await named() == ["c-1", "c-1.node-password.k3s"]


async def test_a_predecessor_whom_the_others_need_stays(named):
    (named.there / "ready").write_text("--server=https://10.0.0.2:6443")
    with pytest.raises(QuorumError, match="c-3: does not answer"):
        await named()
    assert (named.there / "c-1").exists()


@pytest.mark.parametrize(("note", "own"), [("mine", True), ("another", False)])
async def test_who_has_begun_to_join_keeps_its_name(named, note, own):
    (named.there / "db" / "etcd").mkdir(parents=True)
    (named.there / "note").write_text(note)
    assert bool(await named()) is not own


def test_addresses_of_members():
    listing = {
        "items": [
            {
                "metadata": {"name": "c-1"},
                "status": {
                    "addresses": [
                        {"type": "ExternalIP", "address": "203.0.113.1"},
                        {"type": "InternalIP", "address": "10.0.0.1"},
                    ]
                },
            },
            {"metadata": {"name": "new"}},
        ]
    }
    assert members_of(listing) == {"c-1": "10.0.0.1"}


# --- which cluster it is


def as_given(inputs):
    """Properties as the SDK hands them to a provider, which makes something of its own of unknown ones."""
    sent = struct_pb2.Struct()
    sent.update(inputs)
    return rpc.deserialize_properties(sent, True)


def as_sent(inputs):
    """Properties as a provider's answer brings them to the engine."""
    return {
        name: rpc.UNKNOWN if isinstance(value, pulumi.output.Unknown) else value
        for name, value in inputs.items()
    }


class Run:
    """What an engine does with a ClusterIdentity, run by run."""

    def __init__(self):
        self.provider = ClusterIdentityProvider()
        self.inputs, self.outputs, self.replaced = {}, None, 0

    def up(self, text, *, several, known=True, **more):
        """A run; returns the cluster's name as the program and its preview see it."""
        given = as_given({"text": text if known else rpc.UNKNOWN, "several": several, **more})
        checked = as_sent(self.provider.check(dict(self.inputs), given).inputs)
        if self.outputs is not None:
            found = self.provider.diff("cluster", self.outputs, as_given(checked))
            if not found.changes:
                self.inputs = checked if known else self.inputs
                return self.outputs["generation"]
            assert found.replaces
            checked = as_sent(self.provider.check({}, given).inputs)
            self.replaced += known
        if known:
            self.inputs, self.outputs = checked, self.provider.create(dict(checked)).outs
        return checked["generation"]

    def goes_with_a_server(self):
        """Whether the engine takes it for one that can't live without the first server."""
        unknown = as_given({**self.inputs, "text": rpc.UNKNOWN})
        return bool(self.provider.diff("cluster", self.outputs, unknown).replaces)


def test_a_cluster_outlives_each_of_its_servers_but_not_the_only_one():
    run = Run()
    assert run.up("one", several=False) == "one"
    assert run.goes_with_a_server()
    assert run.up("two", several=False, known=False) == rpc.UNKNOWN
    assert run.up("two", several=False) == "two"
    assert run.replaced == 1
    assert run.up("two", several=True) == "two"
    assert not run.goes_with_a_server()
    assert run.up("three", several=True, known=False) == "two"
    assert run.up("three", several=True) == "two"
    assert run.up("three", several=False) == "two"
    assert run.goes_with_a_server()
    assert run.up("three", several=False) == "two"
    assert run.replaced == 1
    assert run.up("four", several=False) == "four"
    assert run.replaced == 2


def test_the_only_server_is_lost_although_others_come():
    run = Run()
    run.up("one", several=False)
    assert run.up("two", several=True) == "two"
    assert run.replaced == 1


def test_a_cluster_outlives_its_only_server_where_it_comes_out_of_a_snapshot():
    run = Run()
    run.up("one", several=False, snapshots=True)
    assert not run.goes_with_a_server()
    assert run.up("two", several=False, known=False, snapshots=True, restores=True) == "one"
    assert run.up("two", several=False, snapshots=True, restores=True) == "one"
    assert run.up("two", several=False, snapshots=True) == "one"
    assert run.replaced == 0
    # without a word of a snapshot it is a new one
    assert run.up("three", several=False, snapshots=True) == "three"
    assert run.replaced == 1


def test_a_snapshot_is_of_the_cluster_that_it_was():
    made = {"clusterName": "a", "clusterCidr": "b"}
    provider = ClusterIdentityProvider()
    given_before = {"text": "t", "several": False, "snapshots": True, "settings": made}
    before = provider.check({}, as_given(given_before)).inputs
    news = as_given({**given_before, "restores": True, "settings": {**made, "clusterCidr": "c"}})
    with pytest.raises(AnotherClusterError, match="clusterCidr"):
        provider.check(before, news)
    server = {**PROPS, "snapshots": FLAGS}
    named = {**server, "restore_from": "taken"}
    with pytest.raises(AnotherClusterError, match="clusterCidr"):
        K3sServerProvider().diff("1", server, {**named, "cluster_cidr": "10.0.0.0/9"})
    with pytest.raises(AnotherTokenError):
        K3sServerProvider().diff("1", server, {**named, "token": "another"})
    assert K3sServerProvider().diff("1", server, {**named, "server_id": "8"}).replaces == ["server_id"]


def test_what_is_in_a_cluster_goes_with_its_only_server_unless_that_takes_snapshots(single):
    for wanted, gone_with, upsert in (
        ({}, "K3sServer::control", None),
        ({"etcdSnapshots": json.dumps(SNAPSHOTS)}, "SharedSecret::k3s-token", "true"),
    ):
        declared = single(**wanted)
        deployment = of(declared, "kubernetes:apps/v1:Deployment")["deployment-ccm-from-scratch"]
        assert deployment.options.deletedWith.endswith(gone_with)
        provider = of(declared, "pulumi:providers:kubernetes")["kubernetes"]
        assert provider.inputs.get("upsertExistingObjects") == upsert
        agents = of(declared, f"{DYNAMIC}K3sAgent").values()
        assert all(bool(agent.inputs.get("several")) is bool(wanted) for agent in agents)


@given(runs=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8))
def test_the_name_stays_exactly_as_long_as_a_server_stays(runs):
    run, before = Run(), None
    for text, several in runs:
        name = run.up(str(text), several=several)
        if before is not None:
            same = before[1] or before[0] == text
            assert (name == before[2]) is (same or before[2] == str(text))
        assert run.up(str(text), several=several) == name
        before = (text, several, name)


@pytest.mark.parametrize("key", ["clusterName", "clusterCidr", "serviceCidr", "subnetCidr"])
@pytest.mark.parametrize("several", [True, False])
def test_what_several_control_servers_have_is_not_made_another_cluster(key, several):
    provider, made_with = ClusterIdentityProvider(), {"clusterName": "a", "subnetCidr": "b", key: "old"}
    before = provider.check({}, as_given({"text": "t", "several": True, "settings": made_with})).inputs
    # the server may be replaced, lost or attached anew in the same run, or others go
    news = as_given({"text": rpc.UNKNOWN, "several": several, "settings": made_with})
    assert provider.check(before, news).inputs["generation"] == "t"
    other = as_given({**news, "text": rpc.UNKNOWN, "settings": {**made_with, key: "new"}})
    with pytest.raises(AnotherClusterError, match=rf"{key}: 'new' is not possible .* with 'old'"):
        provider.check(before, other)
    # with one control server it is another cluster; earlier versions noted nothing
    provider.check({**before, "several": False}, other)
    provider.check({name: value for name, value in before.items() if name != "settings"}, other)


def test_the_program_says_what_the_cluster_is_made_with(three):
    identity = of(three(), f"{DYNAMIC}ClusterIdentity")["cluster"]
    assert set(identity.inputs["settings"]) == {"clusterName", "clusterCidr", "serviceCidr", "subnetCidr"}


def test_an_agent_stays_in_the_cluster_whose_first_server_is_another():
    was = {"cluster": "one", "server_ip": "10.0.0.2"}
    assert is_another_cluster(was, {**was, "server_ip": "10.0.0.9"})
    assert not is_another_cluster(was, {**was, "server_ip": "10.0.0.9", "several": True})
    assert is_another_cluster(was, {**was, "cluster": "two", "several": True})


# --- settings and program


@pytest.mark.parametrize("count", ["2", "4", "0", "7", "x"])
def test_an_even_number_survives_no_more(defaults, count):
    with pytest.raises(ConfigurationError, match=r"controlCount.*give 1, 3 or 5; an even number survives"):
        read_settings({**defaults, "ccm-from-scratch:controlCount": count})


@pytest.mark.parametrize("said", ["1", "[1]", '["a b"]', '["a","a","a","a","a","a"]', "{}"])
def test_locations_are_names(defaults, said):
    raw = {**defaults, "ccm-from-scratch:controlLocations": said}
    if said == "1":
        assert read_settings(raw).control_locations == ("1",)
    else:
        with pytest.raises(ConfigurationError, match="controlLocations"):
            read_settings(raw)


def test_control_servers_are_spread_in_order(defaults):
    raw = {
        **defaults,
        "ccm-from-scratch:controlCount": "5",
        "ccm-from-scratch:controlLocations": '["a", "b"]',
    }
    assert read_settings(raw).control_members == {
        "control": "a",
        "control-2": "b",
        "control-3": "a",
        "control-4": "b",
        "control-5": "a",
    }


@pytest.fixture(scope="module")
def three(engine, defaults):
    """What the program declares with three control servers, a fresh one or one that is there."""

    def declare(existing=()):
        changes = {"controlCount": "3", "workerCount": "1"}
        raw = {**defaults, **{f"ccm-from-scratch:{key}": value for key, value in changes.items()}}
        program = importlib.import_module("infra.__main__")
        return engine(lambda: program.declare(read_settings(raw), "T" * 64, existing=existing))

    return declare


@pytest.fixture
def single(engine, defaults):
    """What the program declares with one control server and these settings."""

    def declare(**changes):
        raw = {**defaults, **{f"ccm-from-scratch:{key}": value for key, value in changes.items()}}
        program = importlib.import_module("infra.__main__")
        return engine(lambda: program.declare(read_settings(raw), "T" * 64))

    return declare


def of(registered, kind):
    return {item.name: item for item in registered if item.type == kind}


def waits_for(item):
    return {urn.rpartition("::")[2] for urn in item.options.dependencies if "K3sServer" in urn}


def test_new_servers_boot_together_and_join_one_by_one(three):
    fresh = three()
    assert set(of(fresh, SERVER)) == {*ROLES, "worker-1"}
    assert not any(waits_for(item) for item in of(fresh, SERVER).values())
    installed = of(fresh, f"{DYNAMIC}K3sServer")
    assert [waits_for(installed[role]) for role in ROLES] == [set(), {"control"}, {"control-2"}]
    assert [installed[role].inputs["member"]["first"] for role in ROLES] == [True, False, False]
    assert waits_for(of(fresh, f"{DYNAMIC}K3sAgent")["worker-1"]) == set(ROLES)
    assert waits_for(of(fresh, f"{DYNAMIC}ClusterIdentity")["cluster"]) == set(ROLES)
    assert {item.inputs["labels"]["role"] for name, item in of(fresh, SERVER).items() if name in ROLES} == {
        "control"
    }


def test_servers_that_exist_change_one_by_one(defaults):
    changes = {"ccm-from-scratch:controlCount": "3", "ccm-from-scratch:workerCount": "1"}
    settings = read_settings({**defaults, **changes})
    found = turns_of(settings, {*ROLES, "worker-1"})
    assert found == {"control-2": ["control"], "control-3": ["control-2"], "worker-1": ROLES}
    # one that was deleted comes at once
    assert turns_of(settings, {"control", "control-3"}) == {"control-3": ["control-2"]}


@pytest.mark.parametrize("existing", [(), ("control",), ROLES, ("control-2",)])
def test_another_type_turns_none_off_without_asking_the_others(three, existing):
    found = of(three(existing=existing), SERVER)
    # the only one would take the cluster with it, although others come
    anew = "control-2" in existing
    for role in ROLES:
        assert ("serverType" in found[role].options.replaceOnChanges) is anew, role


def test_a_control_server_leaves_unless_all_goes(three):
    registered = three()
    for role, item in of(registered, f"{DYNAMIC}K3sServer").items():
        assert item.options.deletedWith.endswith("SharedSecret::k3s-token"), role
    gone_with_one = [
        item.name
        for item in registered
        if item.options.deletedWith.endswith("Server::control") and item.name not in ("control", "ccm-image")
    ]
    assert gone_with_one == []


@pytest.mark.parametrize("remain", [True, False])
def test_the_first_leaves_as_long_as_others_are_in_the_cluster(engine, defaults, remain):
    raw = {**defaults, "ccm-from-scratch:controlCount": "1"}
    program = importlib.import_module("infra.__main__")
    existing = {"control", "worker-1", *(["control-3"] if remain else [])}
    registered = engine(lambda: program.declare(read_settings(raw), "T" * 64, existing=existing))
    first = of(registered, f"{DYNAMIC}K3sServer")["control"]
    assert first.options.deletedWith.endswith("k3s-token" if remain else "Server::control")
    member = (
        {"node": "ccm-from-scratch-control", "first": True, "labels": first.inputs["leaver"]["labels"]}
        if remain
        else None
    )
    assert first.inputs.get("leaver") == member
    assert not first.inputs.get("member")
    agent = of(registered, f"{DYNAMIC}Membership")["worker-1"]
    assert agent.options.deletedWith.endswith("k3s-token" if remain else "Server::control")
    # once they have left it is noticed by nobody
    again = {name: value for name, value in first.inputs.items() if name not in ("leaver", "drain_seconds")}
    assert not K3sServerProvider().diff("1", first.inputs, again).changes
    assert not K3sServerProvider().diff("1", again, first.inputs).changes


def test_a_vote_is_noted_before_its_control_server_joins(three):
    registered = three()
    votes, installed = of(registered, f"{DYNAMIC}Vote"), of(registered, f"{DYNAMIC}K3sServer")
    assert set(votes) == {"control-2", "control-3"}
    for before, role in itertools.pairwise(ROLES):
        depends = installed[role].options.dependencies
        assert any(urn.endswith(f"Vote::{role}") for urn in depends)
        # one that has not joined has no others to ask, and they leave one by one
        assert waits_for(votes[role]) == {before}
        assert votes[role].options.deletedWith.endswith("SharedSecret::k3s-token")
        assert votes[role].inputs["member"] == installed[role].inputs["member"]
        assert "private_key" in votes[role].secrets


@pytest.mark.parametrize(("changed", "replaces"), [("server_id", ["server_id"]), ("private_ip", [])])
def test_only_another_server_has_another_vote(changed, replaces):
    state = {"server_id": "1", "private_ip": "10.0.0.2", "host_key": "H", "drain_seconds": 60}
    result = VoteProvider().diff("1", state, {**state, changed: "9"})
    assert (result.changes, result.replaces) == (True, replaces)
    assert not VoteProvider().diff("1", state, {**state, "host_key": "I", "drain_seconds": 0}).changes


def test_what_is_in_the_cluster_reaches_it_by_every_control_server(three):
    registered = three()
    for kind in ("Membership", "Departure", "ReadyNodes", "PodNetwork", "Kubeconfig", "Sweep", "ReadyAgain"):
        for item in of(registered, DYNAMIC + kind).values():
            assert set(item.inputs["others"]) == {"control-2", "control-3"}, kind
    assert set(of(registered, f"{DYNAMIC}PodNetwork")) == {*ROLES, "worker-1"}
    assert set(of(registered, f"{DYNAMIC}K3sAgent")["worker-1"].inputs["controls"]) == set(ROLES)
    nodes = of(registered, f"{DYNAMIC}ReadyNodes")["nodes"].inputs["nodes"]
    assert len(nodes) == 4
    assert len(of(registered, f"{DYNAMIC}ImportedImage")) == 3


def test_no_placement_group_is_too_full(engine, defaults):
    raw = {**defaults, "ccm-from-scratch:controlCount": "5", "ccm-from-scratch:workerCount": "12"}
    program = importlib.import_module("infra.__main__")
    registered = engine(lambda: program.declare(read_settings(raw), "T" * 64))
    groups = Counter(item.inputs["placementGroupId"] for item in of(registered, SERVER).values())
    assert sorted(groups.values()) == [3, 4, 10]


def test_one_host_takes_no_majority_of_five_and_none_of_three_in_as_many_locations(defaults):
    # two servers of a group stand on two hosts, and so do two in different locations
    assert [control_group(index) for index in range(5)] == ["", *["-control-1"] * 4]
    raw = {**defaults, "ccm-from-scratch:controlCount": "3"}
    raw["ccm-from-scratch:controlLocations"] = '["nbg1", "fsn1", "hel1"]'
    assert len(set(read_settings(raw).control_members.values())) == 3


def test_control_servers_stand_in_the_locations_that_are_named_in_turn(engine, defaults):
    raw = {**defaults, "ccm-from-scratch:controlCount": "5", "ccm-from-scratch:workerCount": "1"}
    raw["ccm-from-scratch:controlLocations"] = '["nbg1", "fsn1", "hel1"]'
    program = importlib.import_module("infra.__main__")
    registered = engine(lambda: program.declare(read_settings(raw), "T" * 64))
    locations = {name: item.inputs["location"] for name, item in of(registered, SERVER).items()}
    worker = locations.pop("worker-1")
    assert worker == defaults["ccm-from-scratch:location"]
    assert locations == {
        "control": "nbg1",
        "control-2": "fsn1",
        "control-3": "hel1",
        "control-4": "nbg1",
        "control-5": "fsn1",
    }


def test_the_state_holds_no_secret_of_a_member(three):
    for item in of(three(), f"{DYNAMIC}K3sServer").values():
        assert {"token", "agent_token", "private_key"} <= item.secrets
        assert "S" * 64 not in json.dumps(item.inputs["member"])


# --- the address of the Kubernetes API

BALANCER = "hcloud:index/loadBalancer:LoadBalancer"


def with_endpoint(engine, defaults, endpoint, count="3"):
    raw = {**defaults, "ccm-from-scratch:apiEndpoint": endpoint, "ccm-from-scratch:controlCount": count}
    program = importlib.import_module("infra.__main__")
    return engine(lambda: program.declare(read_settings(raw), "T" * 64))


@pytest.mark.parametrize("endpoint", ["load-balancer", "private-load-balancer"])
def test_a_load_balancer_before_the_control_servers(engine, defaults, endpoint):
    registered = with_endpoint(engine, defaults, endpoint)
    (balancer,) = of(registered, BALANCER).values()
    assert balancer.inputs["name"] == "ccm-from-scratch-api"
    (place,) = of(registered, "hcloud:index/loadBalancerNetwork:LoadBalancerNetwork").values()
    public = endpoint == "load-balancer"
    assert place.inputs["enablePublicInterface"] is public
    (target,) = of(registered, "hcloud:index/loadBalancerTarget:LoadBalancerTarget").values()
    wanted = dict(part.split("==") for part in target.inputs["labelSelector"].split(","))
    servers = of(registered, SERVER)
    assert {name for name, item in servers.items() if wanted.items() <= item.inputs["labels"].items()} == {
        *ROLES
    }
    assert target.inputs["usePrivateIp"] is True
    (service,) = of(registered, "hcloud:index/loadBalancerService:LoadBalancerService").values()
    assert service.inputs["healthCheck"]["http"]["path"] == "/readyz"
    for item in of(registered, f"{DYNAMIC}K3sServer").values():
        names = item.inputs["names"]
        assert [name.rpartition(".")[0] for name in names] == ["10.0.0", *(["203.0.113"] if public else [])]
    assert ("endpoint" in of(registered, f"{DYNAMIC}Kubeconfig")["kubeconfig"].inputs) is public


def test_without_one_nothing_is_as_it_was_not(engine, defaults):
    registered = with_endpoint(engine, defaults, "server", "1")
    assert not of(registered, BALANCER)
    assert "names" not in of(registered, f"{DYNAMIC}K3sServer")["control"].inputs
    assert "member" not in of(registered, f"{DYNAMIC}K3sServer")["control"].inputs
    assert of(registered, f"{DYNAMIC}Membership")["worker-1"].inputs["others"] == {}
    deployment = of(registered, "kubernetes:apps/v1:Deployment")["deployment-ccm-from-scratch"]
    assert deployment.inputs["spec"]["replicas"] == 1


def test_names_of_the_api_are_in_its_certificate():
    script = server_script({**PROPS, "names": ["10.0.0.9", "203.0.113.9"]}, Start(), cluster=None)
    assert "--tls-san=203.0.113.7 --tls-san=10.0.0.9 --tls-san=203.0.113.9" in script


def test_two_of_the_manager_run_on_two_control_servers(three):
    deployment = of(three(), "kubernetes:apps/v1:Deployment")["deployment-ccm-from-scratch"].inputs["spec"]
    assert deployment["replicas"] == 2
    (rule,) = deployment["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    labels = deployment["template"]["metadata"]["labels"]
    assert rule["labelSelector"]["matchLabels"].items() <= labels.items()


# --- snapshots

SNAPSHOTS = {"schedule": "0 */6 * * *", "retention": "9"}
FLAGS = {"etcd-snapshot-schedule-cron": "0 */6 * * *", "etcd-snapshot-retention": "9"}
S3 = {
    "endpoint": "s3.example.com",
    "bucket": "backups",
    "accessKey": "ME",
    "secretKey": "hush",
    "insecure": True,
}


def test_a_single_control_server_without_snapshots_has_none_to_begin_from(defaults, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("x")
    wanted = {**defaults, "ccm-from-scratch:restoreFrom": str(taken)}
    with pytest.raises(ConfigurationError) as caught:
        read_settings(wanted)
    assert [problem.key for problem in caught.value.problems] == ["ccm-from-scratch:restoreFrom"]
    assert "set ccm-from-scratch:etcdSnapshots, too" in str(caught.value)
    assert read_settings({**wanted, "ccm-from-scratch:controlCount": "3"}).restore_from == str(taken)
    with_snapshots = {**wanted, "ccm-from-scratch:etcdSnapshots": json.dumps(SNAPSHOTS)}
    assert read_settings(with_snapshots).restore_from == str(taken)
    assert read_settings(with_snapshots).etcd_snapshots == Backups(FLAGS)


@pytest.mark.parametrize(
    "said",
    [
        {"schedule": "0 */6 * *"},
        {"schedule": "0 0 * * *; reboot"},
        {"retention": 0},
        {"keep": 3},
        ["0 0 * * *"],
    ],
)
def test_what_is_no_wish_for_snapshots(defaults, said):
    changed = {"ccm-from-scratch:etcdSnapshots": json.dumps(said), "ccm-from-scratch:controlCount": "3"}
    with pytest.raises(ConfigurationError, match=r"etcdSnapshots: .* is not possible: give schedule"):
        read_settings({**defaults, **changed})


def test_what_k3s_is_told_about_snapshots():
    script = server_script({**SEVERAL, "snapshots": FLAGS}, Start(), cluster="c")
    assert "'--etcd-snapshot-schedule-cron=0 */6 * * *' --etcd-snapshot-retention=9" in script
    assert "--etcd-snapshot" not in server_script({**SEVERAL, "snapshots": None}, Start(), cluster="c")


def test_a_single_control_server_has_etcd_for_snapshots_alone():
    for wanted in ({"snapshots": FLAGS}, {"store": {"etcd-s3": "true"}}):
        for cluster in ("c", None):
            assert "--cluster-init" in server_script({**PROPS, **wanted}, Start(), cluster=cluster)
    # one that joined others which have left since asks nobody
    again = server_script({**PROPS, "snapshots": FLAGS}, Start("10.0.0.9"), cluster=None)
    assert "--cluster-init" in again
    assert "--server=" not in again
    assert "--cluster-init" not in server_script({**PROPS, "snapshots": None}, Start(), cluster=None)


def test_an_only_server_that_takes_no_snapshots_is_told_nothing_new(single):
    (told,) = of(single(), f"{DYNAMIC}K3sServer").values()
    assert not any(told.inputs.get(name) for name in ("snapshots", "store", "restore_from"))
    provider, old = K3sServerProvider(), {"__provider": "p", **PROPS}
    assert not provider.diff(
        "1", old, {**PROPS, "snapshots": None, "store": None, "restore_from": None}
    ).changes
    assert provider.diff("1", old, {**PROPS, "snapshots": FLAGS}).changes


def test_only_who_begins_a_cluster_anew_restores_it(tmp_path):
    (tmp_path / "taken").write_text("x")
    given = {**SEVERAL, "restore_from": str(tmp_path / "taken")}
    begins = server_script(given, Start(), cluster="c")
    assert "--cluster-init" in begins
    path = "--cluster-reset-restore-path=/root/ccm-from-scratch-snapshot --etcd-s3=false"
    assert f"--cluster-reset {path}" in begins
    named = server_script({**SEVERAL, "restore_from": "taken-1"}, Start(), cluster="c")
    assert "--cluster-reset-restore-path=taken-1 " in named
    assert "--etcd-s3=false" not in named
    assert begins.index("INSTALL_K3S_SKIP_START=true") < begins.index("--cluster-reset ")
    for start, cluster in ((Start("10.0.0.3"), "c"), (Start(), None)):
        assert "--cluster-reset" not in server_script(given, start, cluster=cluster)
    assert "--cluster-reset" not in server_script(SEVERAL, Start(), cluster="c")


def test_a_snapshot_that_is_named_changes_nothing_that_is_there():
    old = {"__provider": "p", **SEVERAL}
    diff = K3sServerProvider().diff("1", old, {**SEVERAL, "restore_from": "/a/snapshot", "snapshots": None})
    assert not diff.changes
    assert K3sServerProvider().diff("1", old, {**SEVERAL, "snapshots": FLAGS}).changes


def test_a_restoration_is_begun_once_and_gone_on_with(tmp_path):
    # Each command of the machine writes down that it was called.
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("k3s", "systemctl"):
        program = programs / name
        program.write_text(
            f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/calls\n'
            'case "$*" in *"get nodes"*) echo node/c-1;; esac\n'
        )
        program.chmod(0o755)
    folder, data = tmp_path / "etc", tmp_path / "db"
    (folder / "config.yaml.d").mkdir(parents=True)
    script = k3s_scripts.restore(["--cluster-init"], folder=str(folder))
    for place, here in (
        (k3s.DATASTORE, data),
        (k3s.SNAPSHOT, tmp_path / "taken"),
        ("/var/log/", f"{tmp_path}/"),
    ):
        script = script.replace(place, str(here))

    def run():
        (tmp_path / "calls").write_text("")
        environment = {"PATH": f"{programs}:/usr/bin:/bin"}
        subprocess.run(["sh", "-euc", script], env=environment, check=True, timeout=60)
        return (tmp_path / "calls").read_text()

    first = run()
    assert "k3s server --cluster-init --cluster-reset" in first
    assert "k3s kubectl delete node/c-1 --wait=false" in first
    assert "delete secret --ignore-not-found c-1.node-password.k3s" in first
    assert first.rstrip().endswith("systemctl restart k3s")
    assert not list((folder / "config.yaml.d").iterdir())
    (data / "etcd").mkdir(parents=True)
    assert run() == ""
    (folder / "restoring").touch()
    assert run() == first


def with_s3(defaults, **changes):
    said = {"controlCount": "3", "etcdSnapshots": json.dumps({"s3": {**S3, **changes}})}
    return {**defaults, **{f"ccm-from-scratch:{key}": value for key, value in said.items()}}


def test_snapshots_in_s3_are_told_in_a_file_for_root_alone(defaults, tmp_path):
    wanted = read_settings(with_s3(defaults)).etcd_snapshots
    assert "hush" not in repr(wanted)
    told = yaml.safe_load(settings_file(wanted.s3))
    assert told == {
        "etcd-s3": True,
        "etcd-s3-endpoint": "s3.example.com",
        "etcd-s3-bucket": "backups",
        "etcd-s3-access-key": "ME",
        "etcd-s3-secret-key": "hush",
        "etcd-s3-insecure": True,
    }
    script = server_script({**SEVERAL, "store": wanted.s3}, Start(), cluster="c")
    assert "hush" not in "".join(line for line in script.splitlines() if "installer" in line)
    file = tmp_path / "etc" / "etcd-s3.yaml"

    def keep(content):
        script = f"set -eu; umask 077\n{k3s_scripts.keep_store(content, str(file))}"
        subprocess.run(["sh"], input=script, capture_output=True, text=True, check=True, timeout=60)

    for _ in range(2):
        keep(settings_file(wanted.s3))
        assert file.stat().st_mode & 0o777 == 0o600
        assert yaml.safe_load(file.read_text()) == told
    for _ in range(2):
        keep("")
        assert not file.exists()


def test_k3s_starts_anew_for_another_store_and_one_that_is_taken_away(defaults):
    store = read_settings(with_s3(defaults)).etcd_snapshots.s3
    for had, has in ((False, store), (True, store), (True, None)):
        script = server_script({**SEVERAL, "store": has}, Start(), cluster=None, had_store=had)
        assert script.index("etcd-s3.yaml") < script.index("INSTALL_K3S_FORCE_RESTART=true")
    assert "etcd-s3" not in server_script(SEVERAL, Start(), cluster=None)


@pytest.mark.parametrize(
    "changes",
    [{"bucket": ""}, {"secretKey": None}, {"endpoint": "https://x"}, {"kind": "x"}, {"insecure": "so"}],
)
def test_a_wrong_store_is_told_without_its_secrets(defaults, changes):
    with pytest.raises(ConfigurationError, match=r"etcdSnapshots: .*not shown") as caught:
        read_settings(with_s3(defaults, **changes))
    assert "hush" not in str(caught.value)


def test_a_snapshot_in_s3_is_named(defaults, tmp_path):
    key = "ccm-from-scratch:restoreFrom"
    assert read_settings({**with_s3(defaults), key: "etcd-snapshot-a-1"}).restore_from == "etcd-snapshot-a-1"
    for wanted in (with_s3(defaults), {**defaults, "ccm-from-scratch:controlCount": "3"}):
        with pytest.raises(ConfigurationError, match="restoreFrom"):
            read_settings({**wanted, key: "no/such; file"})


def test_the_state_keeps_what_opens_the_store_secret(engine, defaults):
    program = importlib.import_module("infra.__main__")
    registered = engine(lambda: program.declare(read_settings(with_s3(defaults)), "T" * 64))
    servers = [item for item in registered if item.type == f"{DYNAMIC}K3sServer"]
    assert len(servers) == 3
    assert all("store" in item.secrets and item.inputs["store"] for item in servers)
