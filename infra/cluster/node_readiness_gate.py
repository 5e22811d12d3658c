"""What tells that a worker's turn is over: after it was made anew or upgraded, its Node takes Pods again.

Nothing is waited for on a worker that is new: that goes on until the cloud-controller-manager is there, which
comes after it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pulumi.dynamic import CreateResult, DiffResult, UpdateResult

from ..lib.cloud_api import everything, fetcher
from ..lib.dynamic import ProviderResource, is_unknown
from ..lib.errors import InfraError
from ..lib.ssh import connect_first
from ..servers.server import hosts_of
from .drain import Traffic, healthy_targets, readmit
from .drain_on_delete import DrainingProvider
from .ready_nodes import POLL_SECONDS, NodeView, lacking, read_nodes

WAIT_SECONDS = 180.0
_TRAFFIC_POLLS = 30
_TOLD = ("installed", "release")
"""Inputs that the agent tells."""


class ReadyAgainProvider(DrainingProvider):
    """Waits for a Node, and lets it take Pods and traffic again."""

    unheeded = ("private_key", "host_key", "address", "jump", "server_id", "others", "existed")

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compares. What an agent of an earlier version never told is unknown in a preview, and no change."""
        untold = {name for name in _TOLD if is_unknown(_news.get(name)) and not _olds.get(name)}
        return super().diff(_id, _olds, {name: value for name, value in _news.items() if name not in untold})

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Waits for a worker that was there before the run: an earlier version left none to compare with."""
        if props["existed"]:
            asyncio.run(_await(props, self._traffic(props), spare_silent=True))
        return CreateResult(props["node"], dict(props))

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Waits for the worker that is another one now, or on which k3s was installed from another release.

        It was drained for that, also where the release led to the version that it had.

        Raises:
            InfraError: It lacks something after ``WAIT_SECONDS``.
        """
        asyncio.run(_await(_news, self._traffic(_news), spare_silent=False))
        return UpdateResult(dict(_news))

    def _traffic(self, props: Mapping[str, Any]) -> Callable[[Collection[str]], Traffic]:
        def past(peers: Collection[str]) -> Traffic:
            def senders() -> list[str]:
                balancers = everything(fetcher(self.cloud()), "load_balancers", "")
                return senders_past(props["member_id"], peers, balancers)

            return Traffic(senders, polls=_TRAFFIC_POLLS)

        return past


class ReadyAgain(ProviderResource, provider=ReadyAgainProvider):
    """A worker whose Node takes Pods, as it did before the run, if it ``existed`` then.

    ``installed`` and ``release`` are those of its agent.
    """


def still_lacks(
    node: NodeView | None, controls: Collection[NodeView], server_id: str, installed: str | None
) -> str:
    """What a worker's Node lacks until it is as it was, for a person; empty when nothing is. Pure.

    Nothing is while the Nodes of the control servers are not initialised: then there is no
    cloud-controller-manager yet, because a first run was interrupted or the cluster is another one.

    Args:
        node: Of the worker; None: there is none.
        controls: Of the control servers.
        server_id: Of the worker.
        installed: The version of k3s on it, if it is known.
    """
    if not any(control.initialised for control in controls):
        return ""
    missing = lacking({"": server_id}, {"": node} if node else {})
    if missing or node is None:
        return missing[""]
    if any(control.has_route for control in controls) and not node.has_route:
        return "the cloud-controller-manager has made no route to its Pods"
    # k3s's kubelet has the version of k3s, another one that of Kubernetes, which is its first part
    if installed and node.version not in (installed, installed.partition("+")[0]):
        return f"its kubelet is still {node.version}, and {installed} is installed"
    return ""


def senders_past(server_id: str, peers: Collection[str], balancers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of load balancers that send to peers of a server, and do not find it healthy. Pure."""
    found = {item["name"]: healthy_targets(item["targets"]) for item in balancers}
    return [
        name
        for name, healthy in found.items()
        if not {str(target) for target in healthy}.isdisjoint(peers) and not healthy.get(int(server_id))
    ]


def peers_of(node: str, nodes: Mapping[str, NodeView]) -> set[str]:
    """Ids of the servers of the same pool, by the names of their Nodes. Pure."""
    pool = re.compile(re.escape(node.rpartition("-")[0]) + "-[0-9]+")
    return {item.server_id for name, item in nodes.items() if name != node and pool.fullmatch(name)}


async def _await(
    props: dict[str, Any], traffic: Callable[[Collection[str]], Traffic], *, spare_silent: bool
) -> None:
    name = props["node"]
    deadline = time.monotonic() + WAIT_SECONDS
    async with connect_first(hosts_of(props)) as shell:
        while True:
            nodes = await read_nodes(shell)
            node, others = nodes.get(name), [item for item in nodes.values() if item.is_control]
            lacks = still_lacks(node, others, props["member_id"], props.get("installed"))
            if not lacks:
                break
            if spare_silent and node and node.is_silent:
                print(f"the node {name} is not waited for: its kubelet was silent before the run")
                return
            if time.monotonic() > deadline:
                raise InfraError(
                    f"{WAIT_SECONDS:.0f} s after its server was replaced or upgraded, the node {name} does "
                    f"not take Pods: {lacks}\nServers whose turn comes after it are as they were. Look at it "
                    f"with: kubectl describe node {name}; when that is mended, repeat the command, which "
                    "goes on with it"
                )
            await asyncio.sleep(POLL_SECONDS)
        if node and await readmit(shell, name):
            await _await_traffic(name, traffic(peers_of(name, nodes)))


async def _await_traffic(node: str, traffic: Traffic) -> None:
    """Gives load balancers some time to see that it is back: the next one leaves them as soon as it goes.

    With ``externalTrafficPolicy: Local`` they may never find it healthy, because none of the Pods is there.
    """
    try:
        for _ in range(traffic.polls):
            missing = await asyncio.to_thread(traffic.senders)
            if not missing:
                return
            await asyncio.sleep(traffic.pause)
    except InfraError as error:
        print(f"whether load balancers see {node} again is unknown: {error}")
        return
    print(f"after {traffic.polls * traffic.pause:.0f} s {', '.join(missing)} do not find {node} healthy")
