"""Removes a control server from its cluster: drains its Node, then deletes the Node.

k3s removes the etcd member of a server when its Node is deleted. A member that the others need for quorum is
not removed (quorum.py). A server that is down is removed in the same way. So is a previous member of the same
name that is in no state, before a new server joins: k3s refuses that one otherwise ("duplicate node name
found").
"""

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..config.k3s import DATASTORE, NOTE
from ..lib.cloud_api import Cloud, everything, fetcher, power_off, server_runs
from ..lib.errors import InfraError, QuorumError
from ..lib.ssh import CONNECT_SECONDS, Host, Shell, connect, run_once
from ..servers.api_load_balancer import ROLE as BALANCER_ROLE
from .drain import Report, Traffic, empty, senders_to
from .k3s_scripts import FORGET_NOTE
from .node_registration import unregister_script
from .peers import Peer
from .quorum import ASK_SECONDS, check_quorum, other_members_ready, read_members

_CONNECT_SECONDS = 20.0
_NODE_SECONDS = 120.0
_DROP_IN = "/run/systemd/system/k3s.service.d"
_END_FOR_GOOD = f"""set -eu
mkdir -p {_DROP_IN}
printf '[Service]\\nRestart=no\\n' > {_DROP_IN}/leaving.conf
systemctl daemon-reload"""
"""k3s exits when its etcd member is removed. systemd must not start k3s again, because k3s would rejoin."""
_END = f"""set -eu
systemctl stop k3s
{FORGET_NOTE}
rm -f {_DROP_IN}/leaving.conf
systemctl daemon-reload"""


@dataclass(frozen=True)
class LeavingServer:
    """The control server to remove."""

    server_id: str
    node: str
    host: Host
    drain_seconds: int  # timeout of the drain; 0: no drain


@dataclass(frozen=True)
class PeerView:
    """The members of the cluster as another control server reports them."""

    peer: Peer
    members: Mapping[str, str]  # addresses of the control servers by node name; empty: it has no cluster
    reason: str = ""  # why it did not answer; empty: it did


async def leave(cloud: Cloud, leaver: LeavingServer, peers: Sequence[Peer], report: Report) -> None:
    """Removes a control server from its cluster. Does nothing if it is not a member, or the only one. On a
    QuorumError (the others need it, or don't answer) nothing was changed; on a DrainError Pods are left on
    it.
    """
    views = await _views(peers, leaver.host.private_key, _CONNECT_SECONDS)
    try:
        survivor = survivor_of(leaver.node, views)
    except QuorumError:
        # After the loss of all control servers, the peers are new servers, which may still boot.
        views = await _views(peers, leaver.host.private_key, CONNECT_SECONDS)
        survivor = survivor_of(leaver.node, views)
    if survivor is None:
        return
    async with _on(survivor.peer, leaver.host.private_key) as shell:
        await _check_quorum_without(shell, leaver.node, survivor.members)
        runs = await asyncio.to_thread(server_runs, cloud, leaver.server_id)
        if runs and leaver.drain_seconds:
            await empty(shell, leaver.node, leaver.drain_seconds, _traffic(cloud, leaver), report)
        stopped = runs and await _stop(leaver, _END_FOR_GOOD, report)
        await _remove(shell, leaver.node)
        if not runs:
            return
        if not (stopped and await _stop(leaver, _END, report)):
            # Its k3s has exited and would join again some seconds later. It is not powered off earlier: of
            # two members, the one that leaves is needed for quorum until it is removed.
            await asyncio.to_thread(power_off, cloud, leaver.server_id)
        # it may have registered again before it stopped
        await _remove(shell, leaver.node)


async def remove_previous_member(node: str, newcomer: Host, identity: str, joined: Peer) -> None:
    """Removes the previous control server of the same name from the cluster that a new one joins. If the new
    one has etcd data of this installation with a member's name, it has started to join: then the member is
    its own, and stays. k3s deletes the file with the name when it refuses a duplicate (``join`` in its
    pkg/etcd). On a QuorumError nothing was changed.
    """
    what = "looking for etcd's data"
    said = await run_once([newcomer], has_begun(identity), what=what, timeout=ASK_SECONDS)
    if said.strip():
        return
    async with _on(joined, newcomer.private_key) as shell:
        members = await read_members(shell)
        if node in members:
            await _check_quorum_without(shell, node, members)
        await _remove(shell, node)


def is_removed_member(node: str, peers: Sequence[Peer], private_key: str) -> bool:
    """Whether the others have a cluster and the control server isn't a member: its Node was deleted."""
    return is_unknown_member(node, asyncio.run(_views(peers, private_key, _CONNECT_SECONDS)))


def is_unknown_member(node: str, views: Sequence[PeerView]) -> bool:
    """Whether no peer that is in a cluster reports the node as a member."""
    inside = [view for view in views if view.peer.name in view.members]
    return bool(inside) and all(node not in view.members for view in inside)


def has_begun(identity: str) -> str:
    """A script that prints a word on a server on which that installation has an etcd member."""
    has_note = f'[ "$(cat {NOTE} 2>/dev/null)" = {shlex.quote(identity)} ]'
    return f"if [ -e {DATASTORE}/etcd/name ] && {has_note}; then echo begun; fi"


async def _check_quorum_without(shell: Shell, node: str, members: Mapping[str, str]) -> None:
    """Raises QuorumError if the other members need this one."""
    check_quorum(node, await other_members_ready(shell, node, members))


def survivor_of(node: str, views: Sequence[PeerView]) -> PeerView | None:
    """A peer whose cluster has the node as a member; None if there is none. A control server in the cluster
    knows all members, so one answer is enough to know that a node has left. A QuorumError means that no peer
    that answered is in the cluster, and that some did not answer.
    """
    for view in views:
        if node in view.members:
            return view
    if any(view.peer.name in view.members for view in views):
        return None
    silent = [f"{view.peer.name}: {view.reason}" for view in views if view.reason]
    if silent:
        raise QuorumError(node, silent)
    return None


def _on(peer: Peer, private_key: str, seconds: float = _CONNECT_SECONDS) -> Any:
    # any host key is accepted, as that of the new server is; see etcd_join.py
    return connect(peer.host(private_key), timeout=seconds)


async def _views(peers: Sequence[Peer], private_key: str, seconds: float) -> list[PeerView]:
    return await asyncio.gather(*(_view(peer, private_key, seconds) for peer in peers))


async def _view(peer: Peer, private_key: str, seconds: float) -> PeerView:
    if peer.unreachable:
        return PeerView(peer, {}, peer.unreachable)
    try:
        async with _on(peer, private_key, seconds) as shell:
            return PeerView(peer, await read_members(shell))
    except InfraError as error:
        return PeerView(peer, {}, str(error))


def _traffic(cloud: Cloud, leaver: LeavingServer) -> Traffic:
    server_id = int(leaver.server_id)

    def senders() -> list[str]:
        found = everything(fetcher(cloud), "load_balancers", "")
        # the API's load balancer sends until the server is deleted
        return senders_to(server_id, [item for item in found if item["labels"].get("role") != BALANCER_ROLE])

    return Traffic(senders)


async def _stop(leaver: LeavingServer, script: str, report: Report) -> bool:
    try:
        what = f"ending k3s on {leaver.node}"
        await run_once([leaver.host], script, what=what, timeout=_NODE_SECONDS, within=_CONNECT_SECONDS)
    except InfraError as error:
        report(f"k3s on {leaver.node} could not be stopped, so the program powers off the server: {error}")
        return False
    return True


async def _remove(shell: Shell, node: str) -> None:
    await shell.run(unregister_script(node), what=f"deleting the node {node}", timeout=_NODE_SECONDS)
