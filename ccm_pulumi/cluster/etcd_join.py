"""Decides whether a control server starts a new cluster or joins an existing one.

A recreated server must never start a second cluster beside a running one. So the first control server starts
a cluster only if every other control server reports that it has none. One that does not answer may have it.

The program asks them over SSH and accepts any host key: it is about to accept the new server's, too, and to
send that server the cluster's token. These questions and answers contain no secrets.
"""

import asyncio
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..config.k3s import DATASTORE, NOTE
from ..lib.errors import InfraError, UnknownClusterError
from ..lib.ssh import connect
from .k3s_scripts import is_encrypted, print_encryption, print_version
from .k3s_upgrade import installed_in
from .peers import Peer

CONNECT_SECONDS = 120.0
_ASK_SECONDS = 30.0
READY = "ready"
DOWN = "down"
OTHER = "other"
NONE = "none"
SILENT = "silent"


@dataclass(frozen=True)
class PeerAnswer:
    """The state that a control server reports."""

    peer: Peer
    # ``ready``; ``down``: its API does not answer; ``other``: its datastore may be another cluster's;
    # ``none``; or ``silent``: the server does not answer
    has: str
    encrypted: bool = False  # whether the Secrets of its cluster are
    reason: str = ""
    version: str = ""  # of k3s, if it is installed


@dataclass(frozen=True)
class Start:
    """How a control server starts."""

    join: str = ""  # private address of the server that it joins; empty: it starts a cluster
    encrypted: bool = True  # whether the Secrets of the cluster are
    version: str = ""  # of k3s on the server that it joins


def question(identity: str) -> str:
    """A script that prints the state of an installation on a server.

    The identity contains the server's private address, so the state of a server that lost its address is
    unknown. A server that left its cluster has no note. Neither has one of an early version, which may be
    running.
    """
    return f"""note=$(cat {NOTE} 2>/dev/null)
ready=
if timeout 10 k3s kubectl get --raw /readyz >/dev/null 2>&1; then ready=yes; fi
if [ ! -e {DATASTORE} ]; then echo {NONE}
elif [ "$note" = {shlex.quote(identity)} ]; then [ -n "$ready" ] && echo {READY} || echo {DOWN}
elif [ -n "$note$ready" ]; then echo {OTHER}
else echo {NONE}; fi
{print_encryption()}
{print_version()}"""


def start_of(node: str, answers: Sequence[PeerAnswer], *, begins: bool) -> Start:
    """Whether a control server joins a cluster or, if ``begins`` allows that, starts one. An
    UnknownClusterError means that there may be a cluster that it can't join, or that there is none to join.
    """
    for said in answers:
        if said.has == READY and said.peer.private:
            return Start(said.peer.private, said.encrypted, said.version)
    if begins and all(said.has == NONE for said in answers):
        return Start()
    raise UnknownClusterError(node, [f"{said.peer.name}: {_why(said)}" for said in answers])


def _why(said: PeerAnswer) -> str:
    if said.has == SILENT:
        return said.reason
    if said.has == NONE:
        return "this server has no cluster"
    if said.has == DOWN:
        return "this server has the cluster's etcd data, but the API server on this server is not ready"
    if said.has == OTHER:
        return (
            "this server's etcd data belongs to another cluster, or the server's private address has "
            "changed. If the address has changed, restore the former address"
        )
    return "this server has the cluster's etcd data, but it has no address in the private network"


async def ask(peers: Sequence[Peer], private_key: str, identity: Callable[[Peer], str]) -> list[PeerAnswer]:
    """Asks all of them in parallel; returns as soon as one of them is ready."""
    asked = [asyncio.ensure_future(_ask(peer, private_key, identity(peer))) for peer in peers]
    try:
        for first in asyncio.as_completed(asked):
            if (await first).has == READY:
                break
        return [answer.result() for answer in asked if answer.done()]
    finally:
        for answer in asked:
            answer.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def _ask(peer: Peer, private_key: str, identity: str) -> PeerAnswer:
    if peer.unreachable:
        return PeerAnswer(peer, SILENT, reason=peer.unreachable)
    try:
        async with connect(peer.host(private_key), timeout=CONNECT_SECONDS) as shell:
            what = f"asking {peer.name} for the cluster"
            return read_answer(peer, await shell.run(question(identity), what=what, timeout=_ASK_SECONDS))
    except InfraError as error:
        return PeerAnswer(peer, SILENT, reason=str(error))


def read_answer(peer: Peer, answer: str) -> PeerAnswer:
    """What ``question`` printed."""
    has, *_ = answer.split() or [SILENT]
    reason = "" if has != SILENT else "it said nothing"
    return PeerAnswer(peer, has, is_encrypted(answer), reason, installed_in(answer))
