import asyncio
import subprocess
import time

import asyncssh
import pytest
from control_servers import PROPS, peer
from fake_programs import programs
from hypothesis import given
from hypothesis import strategies as st

from ccm_pulumi.cluster.etcd_leave import LeavingServer, PeerView, leave, remove_previous_member, survivor_of
from ccm_pulumi.cluster.k3s_installation import K3sServerProvider
from ccm_pulumi.cluster.k3s_scripts import rejoin
from ccm_pulumi.cluster.quorum import check_quorum, check_restart, members_of
from ccm_pulumi.lib.errors import InfraError, QuorumError

others = st.dictionaries(st.sampled_from(["b", "c", "d", "e"]), st.booleans(), max_size=4)


def refusal(check, states):
    try:
        check("a", states)
    except InfraError as error:
        return str(error)
    return ""


@given(states=others)
def test_no_member_leaves_or_restarts_if_that_loses_quorum(states):
    leaves, restarts = refusal(check_quorum, states), refusal(check_restart, states)
    members, ready = len(states) + 1, sum(states.values())
    assert bool(leaves) is (2 * ready <= len(states))
    assert bool(restarts) is (members > 2 and 2 * ready <= members)
    assert all(name in said for said in (leaves, restarts) if said for name in states)


def test_who_is_asked_about_a_leaver():
    knows = PeerView(peer(2), {"c-1": "10.0.0.1", "c-2": "10.0.0.2"})
    stranger, silent = PeerView(peer(3), {"x": "10.0.0.3"}), PeerView(peer(4), {}, "it is off")
    assert survivor_of("c-1", [silent, stranger, knows]) is knows
    assert survivor_of("c-1", [stranger, PeerView(peer(5), {})]) is None
    with pytest.raises(QuorumError, match="c-4: it is off"):
        survivor_of("c-1", [stranger, silent])
    # who is in the cluster knows that it has left, or never joined
    assert survivor_of("c-9", [silent, knows]) is None


async def test_a_peer_that_boots_is_waited_for(host, monkeypatch):
    real, ready = asyncssh.connect, time.monotonic() + 0.3

    def connect(*arguments, **options):
        if time.monotonic() < ready:
            raise ConnectionRefusedError
        return real(*arguments, **options)

    monkeypatch.setattr(asyncssh, "connect", connect)
    monkeypatch.setattr("ccm_pulumi.cluster.etcd_leave._CONNECT_SECONDS", 0.1)
    await leave(None, LeavingServer("1", "c-1", host, 0), [peer(2, public=host.address)], print)
    assert time.monotonic() >= ready


# Knows c-1 of a lost server, c-2 and c-3, of which those answer that are named in a file.
CLUSTER = """cd {there}
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
    monkeypatch.setenv("PATH", programs(there, k3s=CLUSTER.format(there=there)))
    (there / "c-1").touch()
    (there / "ready").write_text("--server=https://10.0.0.2:6443 --server=https://10.0.0.3:6443")
    monkeypatch.setattr("ccm_pulumi.cluster.etcd_leave.DATASTORE", there / "db")
    monkeypatch.setattr("ccm_pulumi.cluster.etcd_leave.NOTE", there / "note")

    async def make() -> list[str]:
        (there / "log").write_text("")
        await remove_previous_member("c-1", host, "mine", peer(2, public=host.address))
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
    data = named.there / "db" / "etcd"
    data.mkdir(parents=True)
    (named.there / "note").write_text(note)
    assert await named()  # k3s deletes the name where it refuses a duplicate
    (data / "name").write_text("c-1-0a1b2c3d")
    assert bool(await named()) is not own


@pytest.mark.parametrize(("waits", "joins"), [(True, True), (False, True), (True, False)])
def test_a_removed_member_joins_again_by_itself(tmp_path, monkeypatch, waits, joins):
    """k3s leaves a tombstone and waits for a restart, unless it has already begun again."""
    tombstone = tmp_path / "db" / "etcd" / "tombstone"
    tombstone.parent.mkdir(parents=True)
    if waits:
        tombstone.touch()
    restart = f"case $1 in restart) rm -f {tombstone} ;; esac"
    node = f"[ -e {tombstone} ] || echo true" if joins else "exit 1"
    monkeypatch.setenv("PATH", programs(tmp_path, systemctl=restart, k3s=node, sleep=""))
    monkeypatch.setattr("ccm_pulumi.cluster.k3s_scripts.DATASTORE", tmp_path / "db")
    said = subprocess.run(["sh", "-c", rejoin("c-1")], capture_output=True, text=True, timeout=60, check=True)
    assert (said.stdout == "joined\n") is joins


@pytest.mark.parametrize("whose", ["member", "leaver"])
async def test_k3s_is_not_changed_on_one_whom_the_others_need_nor_on_one_whom_they_leave(named, host, whose):
    (named.there / "ready").write_text("--server=https://10.0.0.2:6443")
    reached = {"address": host.address, "host_key": "", "private_key": host.private_key}
    olds = {**PROPS, **reached, "version": "v1.35.4+k3s1"}
    news = {**olds, "version": "v1.36.3+k3s1", whose: {"node": "c-1", "labels": {}}}
    with pytest.raises(InfraError, match="c-3: does not answer"):
        await asyncio.to_thread(K3sServerProvider().update, "7", olds, news)


def test_addresses_of_members():
    public = {"type": "ExternalIP", "address": "203.0.113.1"}
    addresses = [public, {"type": "InternalIP", "address": "10.0.0.1"}]
    member = {"metadata": {"name": "c-1"}, "status": {"addresses": addresses}}
    assert members_of({"items": [member, {"metadata": {"name": "new"}}]}) == {"c-1": "10.0.0.1"}
