"""How a control server leaves the others: its Pods go elsewhere, then its Node, and with that its vote.

k3s takes a server out of etcd when its Node is deleted; nobody leaves whom the others need for their majority
(quorum.py). Who is dead is taken out by the others in the same way; and so is one of whom no state
knew, before another one joins under its name: k3s refuses that ("duplicate node name found").
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..config.k3s import DATASTORE, NOTE
from ..lib.cloud_api import Cloud, everything, fetcher, power_off, server_runs
from ..lib.errors import InfraError, QuorumError
from ..lib.ssh import Host, Shell, connect, run_once
from ..servers.api_load_balancer import ROLE as BALANCER_ROLE
from .drain import Report, Traffic, empty, senders_to
from .node_registration import leave_script
from .peers import Peer
from .quorum import ASK_SECONDS, check_quorum, read_members, ready_beside

_CONNECT_SECONDS = 20.0
_NODE_SECONDS = 120.0
_DROP_IN = "/run/systemd/system/k3s.service.d"
_END_FOR_GOOD = f"""set -eu
mkdir -p {_DROP_IN}
printf '[Service]\\nRestart=no\\n' > {_DROP_IN}/leaving.conf
systemctl daemon-reload"""
"""k3s ends once its member is gone, and must not come back and join."""
_END = f"""set -eu
systemctl stop k3s
rm -f {NOTE} {_DROP_IN}/leaving.conf
systemctl daemon-reload"""


@dataclass(frozen=True)
class Leaver:
    """The control server that leaves.

    Attributes:
        server_id: In the cloud.
        node: Its name.
        host: How it is reached.
        drain_seconds: In which its Pods have to be gone; 0: they are not waited for.
    """

    server_id: str
    node: str
    host: Host
    drain_seconds: int


@dataclass(frozen=True)
class Look:
    """What another control server sees.

    Attributes:
        peer: Which.
        members: Addresses of the cluster's control servers, by node; none where it has no cluster.
        reason: Why it could not be asked; empty when it answered.
    """

    peer: Peer
    members: Mapping[str, str]
    reason: str = ""


async def leave(cloud: Cloud, leaver: Leaver, peers: Sequence[Peer], report: Report) -> None:
    """Takes a control server out of its cluster; nothing where it is in none, or alone.

    Raises:
        QuorumError: The others would have no majority, or can't be asked; nothing was changed.
        DrainError: Pods are left on it.
        RemoteCommandError: Another command failed.
    """
    looks = await asyncio.gather(*(_look(peer, leaver.host.private_key) for peer in peers))
    survivor = survivor_of(leaver.node, looks)
    if survivor is None:
        return
    async with _on(survivor.peer, leaver.host.private_key) as shell:
        await _spare(shell, leaver.node, survivor.members)
        runs = await asyncio.to_thread(server_runs, cloud, leaver.server_id)
        if runs and leaver.drain_seconds:
            await empty(shell, leaver.node, leaver.drain_seconds, _traffic(cloud, leaver), report)
        told = runs and await _told(leaver, _END_FOR_GOOD, report)
        await _remove(shell, leaver.node)
        if not runs:
            return
        if not (told and await _told(leaver, _END, report)):
            # Its k3s has ended with its member, and some seconds later would join again. Not switched off
            # before: the last but one leaves by its own vote.
            await asyncio.to_thread(power_off, cloud, leaver.server_id)
        # until it ended it may have come back
        await _remove(shell, leaver.node)


async def make_room(node: str, newcomer: Host, identity: str, joined: Peer) -> None:
    """Takes a predecessor out of the cluster that a control server joins under its name, if there is one.

    Whoever has etcd's data of this installation has begun to join before: the name is its own.

    Raises:
        QuorumError: The others would have no majority; nothing was changed.
        InfraError: One of both could not be asked.
    """
    what = "looking for etcd's data"
    said = await run_once([newcomer], has_begun(identity), what=what, timeout=ASK_SECONDS)
    if said.strip():
        return
    async with _on(joined, newcomer.private_key) as shell:
        members = await read_members(shell)
        if node in members:
            await _spare(shell, node, members)
        await _remove(shell, node)


def is_expelled(node: str, peers: Sequence[Peer], private_key: str) -> bool:
    """Whether the others have a cluster of which a control server is no member: its Node was deleted."""

    async def looks() -> list[Look]:
        return list(await asyncio.gather(*(_look(peer, private_key) for peer in peers)))

    return is_left_out(node, asyncio.run(looks()))


def is_left_out(node: str, looks: Sequence[Look]) -> bool:
    """Whether those that are in a cluster all know it without a node. Pure."""
    inside = [look for look in looks if look.peer.name in look.members]
    return bool(inside) and all(node not in look.members for look in inside)


def has_begun(identity: str) -> str:
    """A script that says something on a server on which that installation has begun to work with etcd."""
    noted = f'[ "$(cat {NOTE} 2>/dev/null)" = {shlex.quote(identity)} ]'
    return f"if [ -e {DATASTORE}/etcd ] && {noted}; then echo begun; fi"


async def _spare(shell: Shell, node: str, members: Mapping[str, str]) -> None:
    """Raises QuorumError where the other members need this one."""
    check_quorum(node, await ready_beside(shell, node, members))


def survivor_of(node: str, looks: Sequence[Look]) -> Look | None:
    """One of the others that is in a cluster with a node; None where nobody is. Pure.

    A control server that is in the cluster knows all members, so one that has left needs nobody else's word.

    Raises:
        QuorumError: Those who could be asked know nothing of it, and some could not.
    """
    for look in looks:
        if node in look.members:
            return look
    if any(look.peer.name in look.members for look in looks):
        return None
    silent = [f"{look.peer.name}: {look.reason}" for look in looks if look.reason]
    if silent:
        raise QuorumError(node, silent)
    return None


def _on(peer: Peer, private_key: str) -> Any:
    # its host key is believed, as that of the server which takes the leaver's place; see etcd_join.py
    return connect(peer.host(private_key), timeout=_CONNECT_SECONDS)


async def _look(peer: Peer, private_key: str) -> Look:
    if peer.unreachable:
        return Look(peer, {}, peer.unreachable)
    try:
        async with _on(peer, private_key) as shell:
            return Look(peer, await read_members(shell))
    except InfraError as error:
        return Look(peer, {}, str(error))


def _traffic(cloud: Cloud, leaver: Leaver) -> Traffic:
    server_id = int(leaver.server_id)

    def senders() -> list[str]:
        found = everything(fetcher(cloud), "load_balancers", "")
        # the one before the control servers sends until the server is gone
        return senders_to(server_id, [item for item in found if item["labels"].get("role") != BALANCER_ROLE])

    return Traffic(senders)


async def _told(leaver: Leaver, script: str, report: Report) -> bool:
    try:
        what = f"ending k3s on {leaver.node}"
        await run_once([leaver.host], script, what=what, timeout=_NODE_SECONDS, within=_CONNECT_SECONDS)
    except InfraError as error:
        report(f"{leaver.node} leaves without being told, and is switched off: {error}")
        return False
    return True


async def _remove(shell: Shell, node: str) -> None:
    await shell.run(leave_script(node), what=f"deleting the node {node}", timeout=_NODE_SECONDS)
