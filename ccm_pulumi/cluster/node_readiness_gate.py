"""Waits until the Node of a replaced or upgraded worker accepts Pods again: then the rollout continues.

A new worker is not waited for: it is not ready before the cloud-controller-manager runs, which is deployed
later.
"""

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
_REPORTED = ("installed", "release")
"""Outputs of the agent."""


class NodeReadinessGateProvider(DrainingProvider):
    """Waits for a Node, and lets it take Pods and traffic again."""

    ignored_inputs = ("private_key", "host_key", "address", "jump", "server_id", "others", "existed")

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compares. An unknown output that an earlier version's agent did not have is no change."""
        unreported = {name for name in _REPORTED if is_unknown(_news.get(name)) and not _olds.get(name)}
        return super().diff(
            _id, _olds, {name: value for name, value in _news.items() if name not in unreported}
        )

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Waits for a worker that existed before the run: the state of an earlier version has no gate."""
        if props["existed"]:
            asyncio.run(_await(props, self._traffic(props), skip_silent=True))
        return CreateResult(props["node"], dict(props))

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Waits for the worker that was replaced, or on which k3s was installed from another release: it was
        drained for that, even if the release is of the same version.
        """
        asyncio.run(_await(_news, self._traffic(_news), skip_silent=False))
        return UpdateResult(dict(_news))

    def _traffic(self, props: Mapping[str, Any]) -> Callable[[Collection[str]], Traffic]:
        def past(peers: Collection[str]) -> Traffic:
            def senders() -> list[str]:
                balancers = everything(fetcher(self.cloud()), "load_balancers", "")
                return balancers_without(props["member_id"], peers, balancers)

            return Traffic(senders, polls=_TRAFFIC_POLLS)

        return past


class NodeReadinessGate(ProviderResource, provider=NodeReadinessGateProvider, type_name="ReadyAgain"):
    """A worker whose Node accepts Pods; ``installed`` and ``release`` are outputs of its agent."""


def still_lacks(
    node: NodeView | None, controls: Collection[NodeView], server_id: str, installed: str | None
) -> str:
    """Why a worker's Node is not ready for the rollout to continue; empty when it is.

    It counts as ready while no control server's Node is initialized: then there is no
    cloud-controller-manager yet, because a first run was interrupted or the cluster is new.
    """
    if not any(control.initialized for control in controls):
        return ""
    missing = lacking({"": server_id}, {"": node} if node else {})
    if missing or node is None:
        return missing[""]
    if any(control.has_route for control in controls) and not node.has_route:
        return "the cloud-controller-manager has not created a route to the Pods of the node"
    # k3s's kubelet has the version of k3s, another one that of Kubernetes, which is its first part
    if installed and node.version not in (installed, installed.partition("+")[0]):
        return f"the kubelet still has the version {node.version}, but k3s {installed} is installed"
    return ""


def balancers_without(
    server_id: str, peers: Collection[str], balancers: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Names of load balancers that send to peers of a server and do not report it as healthy."""
    found = {item["name"]: healthy_targets(item["targets"]) for item in balancers}
    return [
        name
        for name, healthy in found.items()
        if not {str(target) for target in healthy}.isdisjoint(peers) and not healthy.get(int(server_id))
    ]


def peers_of(node: str, nodes: Mapping[str, NodeView]) -> set[str]:
    """IDs of the other servers of the pool, by the names of their Nodes."""
    pool = re.compile(re.escape(node.rpartition("-")[0]) + "-[0-9]+")
    return {item.server_id for name, item in nodes.items() if name != node and pool.fullmatch(name)}


async def _await(
    props: dict[str, Any], traffic: Callable[[Collection[str]], Traffic], *, skip_silent: bool
) -> None:
    name = props["node"]
    deadline = time.monotonic() + WAIT_SECONDS
    async with connect_first(hosts_of(props)) as shell:
        while True:
            nodes = await read_nodes(shell, deadline)
            node, others = nodes.get(name), [item for item in nodes.values() if item.is_control]
            lacks = still_lacks(node, others, props["member_id"], props.get("installed"))
            if not lacks:
                break
            if skip_silent and node and node.is_silent:
                print(f"not waiting for the node {name}, because its kubelet did not respond before this run")
                return
            if time.monotonic() > deadline:
                raise InfraError(
                    f"the node {name} still doesn't accept Pods, {WAIT_SECONDS:.0f} s after the program "
                    f"replaced or upgraded its server: {lacks}\nThe remaining servers were not changed. See: "
                    f"kubectl describe node {name}. Fix the cause and repeat the command. The rollout then "
                    "continues with this node"
                )
            await asyncio.sleep(POLL_SECONDS)
        if node and await readmit(shell, name):
            await await_traffic(name, traffic(peers_of(name, nodes)))


async def await_traffic(node: str, traffic: Traffic) -> None:
    """Waits until load balancers report the node as healthy: the next node loses its traffic as soon as it
    drains. With ``externalTrafficPolicy: Local`` they may never do so, because none of the Pods is on the
    node.
    """
    try:
        missing = await traffic.left()
    except InfraError as error:
        print(f"could not check whether load balancers report the node {node} as healthy: {error}")
        return
    if missing:
        print(
            f"after {traffic.polls * traffic.pause:.0f} s, these load balancers still don't report the node "
            f"{node} as healthy: {', '.join(missing)}"
        )
