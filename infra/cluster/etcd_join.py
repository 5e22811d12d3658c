"""Whether a control server begins a cluster or joins one: the others are asked whether they have it.

A server that is made anew must never begin a second cluster beside one that runs. So the first begins one
only where all other control servers say that they have none; who can't be asked might have it.

The others are asked over SSH, and their host keys are believed: the run is about to believe that of the new
server, too, and to tell it the cluster's token. Nothing secret is asked for or told here.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..config.k3s import DATASTORE, NOTE
from ..lib.errors import InfraError, UnknownClusterError
from ..lib.ssh import connect
from .k3s_scripts import is_encrypted, tell_encryption, tell_version
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
class Said:
    """What a control server says of itself.

    Attributes:
        peer: Which.
        has: The cluster: ``ready``; ``down`` where its API does not answer; ``other`` where a datastore is
            there that can't be told to be the cluster's; ``none``; or it is ``silent``.
        encrypted: Whether its cluster's Secrets are.
        reason: Of its silence.
        version: Of k3s on it, if it has one.
    """

    peer: Peer
    has: str
    encrypted: bool = False
    reason: str = ""
    version: str = ""


@dataclass(frozen=True)
class Start:
    """How a control server starts.

    Attributes:
        join: Private address of the one that it joins; empty: it begins a cluster.
        encrypted: Whether the cluster's Secrets are.
        version: Of k3s on the one that it joins.
    """

    join: str = ""
    encrypted: bool = True
    version: str = ""


def question(identity: str) -> str:
    """A script that tells what a server has: whether an installation with that identity has begun to work.

    The identity has the server's private address in it: of one that lost it, nobody knows what it has. One
    that has left a cluster has no note any more, nor has one of an early version, which may run.
    """
    return f"""note=$(cat {NOTE} 2>/dev/null)
ready=
if timeout 10 k3s kubectl get --raw /readyz >/dev/null 2>&1; then ready=yes; fi
if [ ! -e {DATASTORE} ]; then echo {NONE}
elif [ "$note" = {shlex.quote(identity)} ]; then [ -n "$ready" ] && echo {READY} || echo {DOWN}
elif [ -n "$note$ready" ]; then echo {OTHER}
else echo {NONE}; fi
{tell_encryption()}
{tell_version()}"""


def start_of(node: str, answers: Sequence[Said], *, begins: bool) -> Start:
    """How a control server starts. Pure.

    Args:
        node: Its name, for errors.
        answers: Of all others.
        begins: Whether it is the one that may begin the cluster.

    Raises:
        UnknownClusterError: There may be a cluster, and it can't be joined; or there is none to join.
    """
    for said in answers:
        if said.has == READY and said.peer.private:
            return Start(said.peer.private, said.encrypted, said.version)
    if begins and all(said.has == NONE for said in answers):
        return Start()
    raise UnknownClusterError(node, [f"{said.peer.name}: {_why(said)}" for said in answers])


def _why(said: Said) -> str:
    if said.has == SILENT:
        return said.reason
    if said.has == NONE:
        return "it has no cluster"
    if said.has == DOWN:
        return "it has the cluster, and its API server is not ready"
    if said.has == OTHER:
        return "it has a cluster, perhaps this one: is it in the private network, at the address that it had?"
    return "it has the cluster, and no address in the private network"


async def ask(peers: Sequence[Peer], private_key: str, identity: Callable[[Peer], str]) -> list[Said]:
    """Asks all of them at the same time; the first that is ready is enough.

    Args:
        peers: All other control servers.
        private_key: Opens each.
        identity: Of the installation of this cluster on a server.
    """
    asked = [asyncio.ensure_future(_ask(peer, private_key, identity(peer))) for peer in peers]
    try:
        for answer in asyncio.as_completed(asked):
            if (await answer).has == READY:
                break
        return [one.result() for one in asked if one.done()]
    finally:
        for one in asked:
            one.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def _ask(peer: Peer, private_key: str, identity: str) -> Said:
    if peer.unreachable:
        return Said(peer, SILENT, reason=peer.unreachable)
    try:
        async with connect(peer.host(private_key), timeout=CONNECT_SECONDS) as shell:
            what = f"asking {peer.name} for the cluster"
            return read_answer(peer, await shell.run(question(identity), what=what, timeout=_ASK_SECONDS))
    except InfraError as error:
        return Said(peer, SILENT, reason=str(error))


def read_answer(peer: Peer, answer: str) -> Said:
    """What ``question`` printed."""
    has, *_ = answer.split() or [SILENT]
    reason = "" if has != SILENT else "it said nothing"
    return Said(peer, has, is_encrypted(answer), reason, installed_in(answer))
