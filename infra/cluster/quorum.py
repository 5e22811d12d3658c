"""Which control servers a cluster has, and whether those that answer are a majority without one of them.

etcd decides by majority: whom the others need for theirs does not leave, and its k3s does not restart.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ..config.k3s import API_PORT
from ..lib.errors import InfraError, QuorumError, RemoteCommandError, listed
from ..lib.ssh import Host, Shell, connect, connect_first

ASK_SECONDS = 45.0
_START_SECONDS = 6.0
_READY_SECONDS = 90.0
_START = "systemctl start --no-block k3s"
_NONE = "none"
_LIST = f"""command -v k3s >/dev/null || {{ echo {_NONE}; exit 0; }}
k3s kubectl get nodes --selector=node-role.kubernetes.io/etcd=true --request-timeout=20s -o json"""


async def read_members(shell: Shell) -> dict[str, str]:
    """Addresses of the cluster's control servers, by node; none where there is no k3s.

    Raises:
        RemoteCommandError: Its cluster could not be asked.
    """
    said = await shell.run(_LIST, what="listing the control servers", timeout=ASK_SECONDS)
    return {} if said.strip() == _NONE else members_of(json.loads(said))


async def ready_beside(shell: Shell, node: str, members: Mapping[str, str]) -> dict[str, bool]:
    """Whether each of the other members answers, by node."""
    return {name: await _is_ready(shell, address) for name, address in members.items() if name != node}


async def _is_ready(shell: Shell, address: str) -> bool:
    server = shlex.quote(f"https://{address}:{API_PORT}")
    command = f"k3s kubectl --server={server} get --raw /readyz --request-timeout=10s"
    try:
        await shell.run(command, what=f"asking {address} whether it is ready", timeout=ASK_SECONDS)
    except RemoteCommandError:
        return False
    return True


def members_of(listing: Mapping[str, Any]) -> dict[str, str]:
    """Addresses of the control servers in a list of Nodes."""
    return {
        node["metadata"]["name"]: at["address"]
        for node in listing["items"]
        for at in node.get("status", {}).get("addresses", [])
        if at["type"] == "InternalIP"
    }


async def start_stopped(hosts: Sequence[Host]) -> int:
    """Starts k3s on control servers where it is installed and stopped, without waiting for it.

    Returns:
        On how many of them it runs or starts; one that can't be reached is none of these.
    """

    async def start(host: Host) -> bool:
        try:
            async with connect(host, timeout=_START_SECONDS) as shell:
                await shell.run(_START, what="starting k3s", timeout=ASK_SECONDS)
        except InfraError as error:
            print(f"k3s on the control server {host.address} was not started: {error}")
            return False
        return True

    return sum(await asyncio.gather(*map(start, hosts)))


async def wait_for_api(hosts: Sequence[Host]) -> None:
    """Waits until the API answers on one of several control servers.

    Raises:
        InfraError: On none of them in time.
    """
    async with connect_first(hosts, timeout=_READY_SECONDS):
        pass


def is_quorum(running: int, members: int) -> bool:
    """Whether so many members of etcd, of all, can elect a leader."""
    return running > members // 2


def check_quorum(node: str, others: Mapping[str, bool]) -> None:
    """Refuses to let a member leave whom the others need. Pure.

    Args:
        node: Of the member that leaves.
        others: Of all others, whether each answers.

    Raises:
        QuorumError: Too few do.
    """
    if sum(others.values()) < len(others) // 2 + 1:
        raise QuorumError(node, _states(others))


async def may_restart(host: Host, node: str) -> None:
    """Makes sure that the others have a majority while k3s on a control server restarts.

    One whose own API does not answer gives no vote that could be missed, and this may be what mends it.

    Raises:
        InfraError: They would not, or it could not be reached.
    """
    async with connect(host) as shell:
        try:
            members = await read_members(shell)
        except RemoteCommandError:
            return
        check_restart(node, await ready_beside(shell, node, members))


def check_restart(node: str, others: Mapping[str, bool]) -> None:
    """Refuses to restart a member without which the others have no majority of all. Pure.

    Of two each needs the other, whatever is done: they may, on their way to three or to one.

    Args:
        node: Of the member.
        others: Of all others, whether each answers.

    Raises:
        InfraError: Too few do.
    """
    members = len(others) + 1
    if members > 2 and sum(others.values()) < members // 2 + 1:
        raise InfraError(
            f"k3s on the control server {node} is left as it is: while it restarts, the others would have no "
            f"majority.\n{listed(_states(others))}\n"
            "Mend those that don't answer, or delete the server of one that is lost for good (hcloud server "
            "delete NAME) and repeat the command without this change first"
        )


def _states(others: Mapping[str, bool]) -> list[str]:
    return [f"{name}: {'ready' if ready else 'does not answer'}" for name, ready in others.items()]
