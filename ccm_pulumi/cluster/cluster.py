"""k3s on all servers as one component: control servers one by one, then any number of agents at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from ..config.settings import POD_SECURITY, Settings
from ..servers.keys import SharedSecret
from ..servers.rollout import deletion_order
from ..servers.server import Server
from ..servers.servers import Servers
from .drain_on_delete import DrainOnDelete
from .etcd_member_guard import EtcdMemberGuard
from .identity import ClusterIdentity
from .k3s_installation import K3sAgent, K3sServer, generation_of
from .node_readiness_gate import NodeReadinessGate
from .node_registration import NodeRegistration
from .peers import labels_of
from .pod_network import PodNetwork


class Cluster(pulumi.ComponentResource):
    """k3s on control servers and workers."""

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
        """Declares it. ``token`` is deleted only with the whole cluster: then no node is drained."""
        super().__init__("ccm-from-scratch:index:Cluster", name, None, opts)
        self._settings, self._servers, self._token = settings, servers, token
        stays = settings.outlives_servers or servers.others_remain
        release = release_inputs(settings)
        tokens = {"token": token.value, "agent_token": agent_token.value}
        self.servers: list[K3sServer] = []  # the Kubernetes API answers once the first of them is there
        for server in servers.controls:
            self.servers.append(self._server(server, {**release, **self._shared(), **tokens}))
        installed = {
            server.role: (one.server_id, one.installation)
            for server, one in zip(servers.controls, self.servers, strict=True)
        }
        first = self.servers[0]
        started_empty = pulumi.Output.all(first.joined, first.restored, first.installation).apply(
            lambda of_it: None if of_it[0] or of_it[1] else of_it[2]
        )
        guard = servers.guard_installations(installed, pulumi.ResourceOptions(parent=self), started_empty)
        self._installed: list[pulumi.Resource] = [*self.servers, guard]
        # A server that is replaced takes nothing with it where the cluster may stay. Where it does not, it is
        # not the server's own resource: an engine deletes what goes with a resource that is replaced, and
        # spares what goes with one deleted for that.
        # resources on the other servers of the cluster are deleted with this one
        self.gone_with: pulumi.Resource = token if stays else self.servers[0]
        # Pulumi's objects in the cluster are deleted with it; it is replaced when the cluster is another one
        self.identity = self._identity(name)
        # known once the API is ready; another one when the cluster is another one
        self.generation = self.identity.generation
        # the native network on each server; none with another network
        self.pod_networks: list[pulumi.Resource] = []
        for server, installed in zip(servers.controls, self.servers, strict=True):
            servers.rollout.done_when(server.role, installed)
            self.pod_networks += self._pod_network(server, installed)
        join = {
            "server_ip": servers.control.private_ip,
            "cluster": self.generation,
            "token": agent_token.value,
            "several": stays or None,
        }
        self.agents: list[K3sAgent] = []
        self._drained: dict[str, DrainOnDelete] = {}
        self._deletion_order = deletion_order(settings.servers)
        for worker in servers.workers:
            self._worker(worker, {**release, **join})
        self.register_outputs({})

    def _shared(self) -> dict[str, Any]:
        """Inputs that all control servers share, besides release and tokens."""
        settings, endpoint = self._settings, self._servers.endpoint
        return {
            "cluster_cidr": str(settings.cluster_cidr),
            "service_cidr": str(settings.service_cidr),
            "disable": list(settings.k3s_disable),
            # Cilium enforces network policies itself.
            "network_policy": settings.cni != "cilium",
            **({"names": endpoint.addresses} if endpoint else {}),
            # an unset setting is no input, so the state of an earlier version has no change
            **({"pod_security": settings.pod_security} if settings.pod_security != POD_SECURITY[0] else {}),
            **({"tainted": True} if settings.taint_control_servers else {}),
        }

    def _identity(self, name: str) -> ClusterIdentity:
        """The identity of the cluster: all objects in it are recreated if it changes."""
        settings = self._settings
        cidrs = str(settings.cluster_cidr), str(settings.service_cidr)
        facts = self.servers[0].server_id, *cidrs, self._servers.control.private_ip, self._token.value
        known = pulumi.Output.all(*facts).apply(lambda all_of_them: generation_of(*all_of_them))
        made_with = {
            "clusterName": settings.cluster_name,
            "clusterCidr": str(settings.cluster_cidr),
            "serviceCidr": str(settings.service_cidr),
            "subnetCidr": str(settings.subnet_cidr),
        }
        return ClusterIdentity(
            name,
            pulumi.ResourceOptions(parent=self, depends_on=self._installed),
            text=pulumi.Output.unsecret(known),
            several=len(self.servers) > 1,
            begun=self.servers[0].joined.apply(lambda joined: not joined),
            provider=settings.cloud_provider_name,
            settings=made_with,
            snapshots=bool(settings.etcd_snapshots) or None,
            restores=bool(settings.restore_from) or None,
        )

    def _worker(self, worker: Server, props: Mapping[str, Any]) -> None:
        """All that a worker needs, and what drains it."""
        agent = self._agent(worker, props)
        network = self._pod_network(worker, agent)
        gate = self._readiness_gate(worker, agent, network)
        self._drain_on_delete(worker, [agent, *network, gate])
        self.agents.append(agent)
        self.pod_networks += network

    def _server(self, server: Server, props: Mapping[str, Any]) -> K3sServer:
        """One of the control servers, after those before it: etcd changes its members one by one."""
        # The provider sets this, too, but with --replace Pulumi doesn't ask it. Without this, the deletion of
        # the old one would then remove the new one from the cluster.
        in_place = pulumi.ResourceOptions(delete_before_replace=True)
        servers, options = self._servers, pulumi.ResourceOptions.merge(self._on(server), in_place)
        inputs = {**props, **_node_inputs(server), **backup_inputs(self._settings)}
        member = {"node": server.name, "first": not self.servers, "labels": labels_of(servers.labels)}
        if len(servers.controls) == 1 and servers.others_remain:
            # the others leave at the end of the run, and need it for quorum until then
            remaining = {"leaver": member, "drain_seconds": self._settings.drain_seconds}
            options = pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(deleted_with=self._token))
            return K3sServer(server.role, options, **inputs, **remaining)
        if len(servers.controls) == 1:
            return K3sServer(server.role, options, **inputs)
        of_several = {"member": member, "drain_seconds": self._settings.drain_seconds}
        # it leaves before its server goes, unless all of the cluster goes
        last = pulumi.ResourceOptions(deleted_with=self._token, depends_on=self.servers[-1:])
        if self.servers:
            # not the first: it stays as long as the cluster, and may become its only one again
            mine = pulumi.ResourceOptions.merge(pulumi.ResourceOptions(parent=self), last)
            noted = EtcdMemberGuard(server.role, mine, **_node_inputs(server), **of_several)
            last = pulumi.ResourceOptions.merge(last, pulumi.ResourceOptions(depends_on=[noted]))
        return K3sServer(server.role, pulumi.ResourceOptions.merge(options, last), **inputs, **of_several)

    def _agent(self, worker: Server, props: Mapping[str, Any]) -> K3sAgent:
        servers = self._servers
        # k3s wants servers upgraded before agents; a new agent token is known to the servers first
        after = pulumi.ResourceOptions(depends_on=self._installed)
        options = pulumi.ResourceOptions(parent=self, deleted_with=self.gone_with)
        labels = {"node_labels": worker.node_labels, "node_taints": worker.node_taints}
        member = NodeRegistration(
            worker.role,
            pulumi.ResourceOptions.merge(options, after),
            **servers.member_inputs(worker),
            **labels,
        )
        after = pulumi.ResourceOptions(depends_on=[member, *self._installed])
        return K3sAgent(
            worker.role,
            pulumi.ResourceOptions.merge(self._on(worker), after),
            **props,
            **_node_inputs(worker),
            **labels,
            node=worker.name,
            controls={server.role: server.access.way() for server in servers.controls},
            # without a rollout order all of them would be drained at the same time
            drain_seconds=self._settings.drain_seconds if servers.rollout.existed(worker.role) else 0,
        )

    def _drain_on_delete(self, worker: Server, there: Sequence[pulumi.Resource]) -> None:
        # deleted_with is not the control server: its replacement would skip the drain, and it may stay when
        # the cluster is deleted. The token is never replaced.
        followed = self._drained.get(self._deletion_order.get(worker.role, ""))
        drained_first = pulumi.ResourceOptions(
            parent=self, deleted_with=self._token, depends_on=[*there, *([followed] if followed else [])]
        )
        inputs = {**self._servers.member_inputs(worker), "drain_seconds": self._settings.drain_seconds}
        self._drained[worker.role] = DrainOnDelete(worker.role, drained_first, **inputs)

    def _pod_network(self, server: Server, installed: K3sServer | K3sAgent) -> list[pulumi.Resource]:
        """The native network on a server, if the settings choose it."""
        if self._settings.cni != "native":
            return []
        after = pulumi.ResourceOptions(depends_on=[installed])
        network = PodNetwork(
            server.role,
            pulumi.ResourceOptions.merge(self._on(server), after),
            **self._servers.member_inputs(server),
            reached=server.access.way(),
            cluster_cidr=str(self._settings.cluster_cidr),
            metadata=self._settings.pods_reach_metadata,
            generation=self.generation,
            installation=installed.installation,
        )
        return [network]

    def _readiness_gate(
        self, worker: Server, agent: K3sAgent, network: list[pulumi.Resource]
    ) -> NodeReadinessGate:
        rollout = self._servers.rollout
        # Never replaced with the worker or a control server: a new one would have nothing to compare with.
        options = pulumi.ResourceOptions(parent=self, deleted_with=self._token, depends_on=[agent, *network])
        gate = NodeReadinessGate(
            worker.role,
            options,
            **self._servers.member_inputs(worker),
            installed=agent.installed,
            release=agent.release,
            existed=rollout.existed(worker.role),
        )
        rollout.done_when(worker.role, gate)
        return gate

    def _on(self, server: Server) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, deleted_with=server.server)


def release_inputs(settings: Settings) -> dict[str, str]:
    """Which k3s, as inputs; ``release_of`` reads them."""
    return {
        "install_url": settings.k3s_install_url,
        "channel": settings.k3s_channel,
        "version": settings.k3s_version,
    }


def backup_inputs(settings: Settings) -> dict[str, Any]:
    """Inputs of control servers for etcd snapshots; the credentials of S3 are secret."""
    backups = settings.etcd_snapshots
    return {
        "snapshots": dict(backups.flags) or None,
        "store": pulumi.Output.secret(dict(backups.s3)) if backups.s3 else None,
        "restore_from": settings.restore_from or None,
    }


def _node_inputs(server: Server) -> dict[str, Any]:
    return {**server.access.inputs(), "private_ip": server.private_ip}
