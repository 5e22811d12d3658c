"""k3s on the servers: one server, then any number of agents at once; upgrades go in that order, too."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, Resource, UpdateResult

from . import k3s
from .departure import Departure
from .dynamic import Provider
from .inventory import Servers
from .keys import SharedSecret
from .membership import Membership
from .remote import Host, connect
from .server import Server, host_of
from .settings import Settings
from .turns import CONTROL

_INSTALLING_SERVER = "installing the k3s server"
_INSTALLING_AGENT = "installing the k3s agent"
_HOW_TO_REACH = ("private_key", "host_key")
_TOKEN_OF_EARLIER_VERSIONS = re.compile(r"[0-9a-f]{64}")


class K3sServerProvider(Provider):
    """Installs ``k3s server``. Deleting it is nothing: it goes with its server, and a new one replaces it."""

    replaced_by = ("server_id", "cluster_cidr", "service_cidr", "token", "private_ip")
    """What makes the cluster another one; see `generation_of`."""

    unheeded = _HOW_TO_REACH

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Ends when the Kubernetes API answers on the server.

        Goes on where an interrupted run stopped; begins anew where another cluster is installed.
        """
        asyncio.run(
            run_on(host_of(props), server_script(props, cluster=identity_of(props)), _INSTALLING_SERVER)
        )
        return CreateResult(props["server_id"], dict(props))

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Installs again over what is there: another version, another token for agents."""
        asyncio.run(run_on(host_of(_news), server_script(_news, cluster=None), _INSTALLING_SERVER))
        return UpdateResult(dict(_news))


class K3sAgentProvider(Provider):
    """Installs ``k3s agent``. Deleting it is nothing, as with the server."""

    replaced_by = ("server_id",)
    unheeded = _HOW_TO_REACH

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Ends when the agent was started; it joins within seconds."""
        asyncio.run(run_on(host_of(props), agent_script(props, anew=True), _INSTALLING_AGENT))
        return CreateResult(props["server_id"], dict(props))

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Installs again; joins anew when the cluster is another one."""
        anew = is_another_cluster(_olds, _news)
        asyncio.run(run_on(host_of(_news), agent_script(_news, anew=anew), _INSTALLING_AGENT))
        return UpdateResult(dict(_news))


class K3sServer(Resource, module="ccm-from-scratch", name="K3sServer"):
    """``k3s server`` on a server."""

    server_id: pulumi.Output[str]

    def __init__(
        self, name: str, props: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(K3sServerProvider(), name, dict(props), opts)


class K3sAgent(Resource, module="ccm-from-scratch", name="K3sAgent"):
    """``k3s agent`` on a server."""

    server_id: pulumi.Output[str]

    def __init__(
        self, name: str, props: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(K3sAgentProvider(), name, dict(props), opts)


class Cluster(pulumi.ComponentResource):
    """k3s on a control server and workers.

    Attributes:
        server: The installed k3s server; the Kubernetes API answers once it is there.
        agents: The started agents.
        generation: Known once the API is ready; another one when the cluster is another one.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        servers: Servers,
        *,
        token: SharedSecret,
        agent_token: SharedSecret,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declares it.

        Args:
            name: Of the component.
            settings: Which k3s, and how long a worker is drained.
            servers: On which it is installed.
            token: Of k3s servers. It is there as long as the cluster is wanted: with it, nobody is drained.
            agent_token: Of k3s agents.
            opts: Of the component.
        """
        super().__init__("ccm-from-scratch:index:Cluster", name, None, opts)
        release = {
            "install_url": settings.k3s_install_url,
            "channel": settings.k3s_channel,
            "version": settings.k3s_version,
        }
        ranges = {"cluster_cidr": str(settings.cluster_cidr), "service_cidr": str(settings.service_cidr)}
        # Cilium enforces network policies itself.
        parts = {"disable": list(settings.k3s_disable), "network_policy": settings.cni != "cilium"}
        tokens = {"token": token.value, "agent_token": agent_token.value}
        control = servers.control
        self.server = K3sServer(
            control.role,
            {**release, **ranges, **parts, **tokens, **_node_inputs(control)},
            opts=self._on(control),
        )
        # resources in the cluster hang on the server being there, and begin anew with another cluster
        self.generation = pulumi.Output.unsecret(
            pulumi.Output.all(self.server.server_id, *ranges.values(), control.private_ip, token.value).apply(
                lambda facts: generation_of(*facts)
            )
        )
        self._drain_seconds = settings.drain_seconds
        # Not with the control server: one that is replaced spares nobody who goes with it, and it may stay
        # when the cluster goes. This one is never replaced.
        self._drained_unless_gone = token
        join = {"server_ip": control.private_ip, "cluster": self.generation, "token": agent_token.value}
        self.agents = [self._agent(control, worker, {**release, **join}) for worker in servers.workers]
        servers.turns.over_with(CONTROL, self.server)
        for worker, agent in zip(servers.workers, self.agents, strict=True):
            servers.turns.over_with(worker.role, agent)
        self.register_outputs({})

    def _agent(self, control: Server, worker: Server, props: Mapping[str, Any]) -> K3sAgent:
        options = pulumi.ResourceOptions(parent=self, deleted_with=control.server)
        member = Membership(worker.role, control, worker, opts=options)
        # k3s wants servers upgraded before agents; a new agent token is known to the server first
        after = pulumi.ResourceOptions(depends_on=[member, self.server])
        agent = K3sAgent(
            worker.role,
            {
                **props,
                **_node_inputs(worker),
                "node_labels": worker.node_labels,
                "node_taints": worker.node_taints,
            },
            opts=pulumi.ResourceOptions.merge(self._on(worker), after),
        )
        drained_first = pulumi.ResourceOptions(
            parent=self, deleted_with=self._drained_unless_gone, depends_on=[agent]
        )
        Departure(worker.role, control, worker, drain_seconds=self._drain_seconds, opts=drained_first)
        return agent

    def _on(self, server: Server) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, deleted_with=server.server)


def generation_of(server_id: str, cluster_cidr: str, service_cidr: str, private_ip: str, token: str) -> str:
    """A text without secrets that is another one when the cluster is another one.

    It is in the state of everything that lies in the cluster. So for a cluster that an earlier version of
    this program made, which its lower-case token tells, it is what that version wrote: without the last two.

    Args:
        server_id: Of the control server.
        cluster_cidr: Range of the Pods.
        service_cidr: Range of the Services.
        private_ip: Of the control server.
        token: Of k3s servers.
    """
    known = f"{server_id}/{cluster_cidr}/{service_cidr}"
    if _TOKEN_OF_EARLIER_VERSIONS.fullmatch(token):
        return known
    return f"{known}/{private_ip}/{hashlib.sha256(token.encode()).hexdigest()[:16]}"


def release_of(props: Mapping[str, Any]) -> k3s.Release:
    """The release that the properties of a k3s resource name."""
    return k3s.Release(props["install_url"], props["channel"], props["version"])


def addresses_of(props: Mapping[str, Any]) -> k3s.Addresses:
    """The addresses that the properties of a k3s resource name."""
    return k3s.Addresses(props["address"], props["private_ip"])


def identity_of(props: Mapping[str, Any]) -> str:
    """A word that is another one when any of a K3sServer's properties is another that replaces it."""
    replacing = [props[name] for name in K3sServerProvider.replaced_by]
    return hashlib.sha256(json.dumps(replacing).encode()).hexdigest()


def is_another_cluster(olds: Mapping[str, Any], news: Mapping[str, Any]) -> bool:
    """Whether an agent must leave its cluster before it joins the one that is wanted.

    Another token alone is no reason: it is the one for agents, and earlier versions gave them the server's.

    Args:
        olds: Properties of the K3sAgent as they were.
        news: As they are wanted.
    """
    return any(olds.get(name) != news[name] for name in ("cluster", "server_ip"))


def server_script(props: Mapping[str, Any], *, cluster: str | None) -> str:
    """The script for the properties of a K3sServer."""
    at = addresses_of(props)
    flags = k3s.server_flags(
        at,
        props["cluster_cidr"],
        props["service_cidr"],
        disable=props["disable"],
        network_policy=props["network_policy"],
    )
    tokens = k3s.Tokens(props["token"], props["agent_token"])
    return k3s.server_script(release_of(props), at, flags, tokens, cluster=cluster)


def agent_script(props: Mapping[str, Any], *, anew: bool) -> str:
    """The script for the properties of a K3sAgent."""
    release, at = release_of(props), addresses_of(props)
    # state of earlier versions has neither
    flags = k3s.pool_flags(props.get("node_labels") or {}, props.get("node_taints") or [])
    return k3s.agent_script(release, at, props["server_ip"], props["token"], flags=flags, anew=anew)


async def run_on(host: Host, script: str, what: str) -> None:
    """Runs an installation script."""
    async with connect(host) as shell:
        await shell.run(script, what=what, timeout=k3s.INSTALL_SECONDS)


def _node_inputs(server: Server) -> dict[str, Any]:
    return {**server.access.inputs(), "private_ip": server.private_ip}
