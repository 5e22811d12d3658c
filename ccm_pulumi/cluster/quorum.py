"""The etcd members of a cluster, and whether quorum remains without one of them."""

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
    """Addresses of the cluster's control servers, by node name; empty if k3s is not installed."""
    said = await shell.run(_LIST, what="listing the control servers", timeout=ASK_SECONDS)
    return {} if said.strip() == _NONE else members_of(json.loads(said))


async def other_members_ready(shell: Shell, node: str, members: Mapping[str, str]) -> dict[str, bool]:
    """Whether each of the other members answers, by node name."""
    return {name: await _is_ready(shell, address) for name, address in members.items() if name != node}


async def _is_ready(shell: Shell, address: str) -> bool:
    server = shlex.quote(f"https://{address}:{API_PORT}")
    command = f"k3s kubectl --server={server} get --raw /readyz --request-timeout=10s"
    try:
        await shell.run(
            command, what=f"asking whether the API server at {address} is ready", timeout=ASK_SECONDS
        )
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
    """Starts k3s on control servers where it is installed and stopped, without waiting for it. Returns on how
    many of them it runs or starts; unreachable servers don't count.
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
    """Waits until the API answers on one of several control servers; fails if it answers on none in time."""
    async with connect_first(hosts, timeout=_READY_SECONDS):
        pass


def is_quorum(running: int, members: int) -> bool:
    """Whether this many running members, out of all members of etcd, can elect a leader."""
    return running > members // 2


def check_quorum(node: str, others: Mapping[str, bool]) -> None:
    """Refuses to remove a member that the others need for quorum; ``others``: whether each answers."""
    if sum(others.values()) < len(others) // 2 + 1:
        raise QuorumError(node, _states(others))


async def check_quorum_for_restart(host: Host, node: str) -> None:
    """Checks that the other members keep quorum while k3s on a control server restarts. If the API on that
    server does not answer, the member does not count, and the restart may repair it.
    """
    async with connect(host) as shell:
        try:
            members = await read_members(shell)
        except RemoteCommandError:
            return
        check_restart(node, await other_members_ready(shell, node, members))


def check_restart(node: str, others: Mapping[str, bool]) -> None:
    """Refuses to restart a member without which the cluster loses quorum. With two members every restart
    loses quorum: it is allowed, as a step towards three members or one.
    """
    members = len(others) + 1
    if members > 2 and sum(others.values()) < members // 2 + 1:
        raise InfraError(
            f"k3s on the control server {node} was not changed, because etcd would lose quorum while k3s "
            f"restarts.\n{listed(_states(others))}\nRepair the servers that don't answer. If a server is "
            "lost, first delete it (hcloud server delete NAME) and run pulumi up without this change"
        )


def _states(others: Mapping[str, bool]) -> list[str]:
    return [f"{name}: {'ready' if ready else 'does not answer'}" for name, ready in others.items()]
