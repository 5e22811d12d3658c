"""Assembles a cluster: at the top of our own stack, or below a component in another program."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from .addons.autoscaler import Autoscaler
from .addons.cilium import Cilium, MetadataPolicy
from .addons.controller_manager import ControllerManager, ControllerManagerArgs
from .addons.kured import Kured
from .addons.load_balancer_cleanup import LoadBalancerCleanup, cleanup_inputs
from .addons.security_updates import SecurityUpdates
from .cluster.cluster import Cluster
from .cluster.kubeconfig import Kubeconfig
from .cluster.ready_nodes import ReadyNodes, node_inputs
from .config.settings import Settings
from .servers.keys import SharedSecret
from .servers.servers import Servers

HOW_TO_REACH: Mapping[str, Any] = {"skip_update_unreachable": True}
"""Arguments of each Kubernetes provider. ``skip_update_unreachable`` keeps the cluster's objects in the state
if the cluster doesn't answer during a refresh. Don't set ``delete_unreachable``: it takes precedence, and
removes the objects from the state (``Read`` in provider/pkg/provider/provider.go of pulumi-kubernetes)."""


@dataclass(frozen=True)
class Place:
    """Where resources are declared: below ``parent`` (None: the stack itself), with names that begin with
    ``prefix``, so that a program may have several of the same kind.
    """

    parent: pulumi.Resource | None = None
    prefix: str = ""

    def named(self, name: str) -> str:
        """A resource's name here."""
        return self.prefix + name

    def options(self, options: pulumi.ResourceOptions | None = None) -> pulumi.ResourceOptions:
        """A resource's options here."""
        return pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(parent=self.parent))


@dataclass(frozen=True)
class RunningCluster:
    """k3s on servers, with a network for Pods."""

    servers: Servers
    cluster: Cluster
    agent_token: pulumi.Output[str]  # secret; lets an agent join
    kubeconfig: pulumi.Output[str]  # secret; for access from where the program runs
    provider: kubernetes.Provider
    in_cluster: pulumi.ResourceOptions  # options of all objects in the cluster, which are deleted with it
    pod_network: Sequence[pulumi.Resource]  # the program waits for nodes after these


def running_cluster(place: Place, settings: Settings, servers: Servers) -> RunningCluster:
    """k3s on the servers."""
    opts = place.options()
    token = SharedSecret(place.named("k3s-token"), opts)
    agent_token = SharedSecret(place.named("k3s-agent-token"), opts)
    cluster = Cluster(
        place.named("cluster"), settings, servers, token=token, agent_token=agent_token, opts=opts
    )
    endpoint = servers.endpoint
    kubeconfig = Kubeconfig(
        place.named("kubeconfig"),
        place.options(pulumi.ResourceOptions(depends_on=[endpoint] if endpoint else None)),
        **servers.control_inputs(),
        context=settings.cluster_name,
        endpoint=endpoint.public_ip if endpoint else None,
        generation=cluster.generation,
    ).kubeconfig
    provider = kubernetes.Provider(
        place.named("kubernetes"),
        kubeconfig=kubeconfig,
        # a changed kubeconfig of the same cluster must not replace everything in it
        cluster_identifier=cluster.generation,
        **HOW_TO_REACH,
        # objects that a killed run or an earlier version left out of the state are ours
        upsert_existing_objects=True,
        # Their fields belong to a field manager that is in no state, and a change would conflict with it.
        enable_patch_force=True,
        opts=place.options(pulumi.ResourceOptions(deleted_with=cluster.identity)),
    )
    in_cluster = pulumi.ResourceOptions(provider=provider, deleted_with=cluster.identity)
    if settings.cni == "cilium":
        network: Sequence[pulumi.Resource] = [
            Cilium(place.named("cni"), settings, in_cluster, opts=place.options())
        ]
    else:
        network = cluster.pod_networks
    return RunningCluster(servers, cluster, agent_token.value, kubeconfig, provider, in_cluster, network)


def managed(
    place: Place, arguments: ControllerManagerArgs, running: RunningCluster
) -> tuple[list[pulumi.Resource], LoadBalancerCleanup]:
    """The cloud-controller-manager, and the cleanup of its load balancers, which is deleted first."""
    settings, cluster = arguments.settings, running.cluster
    manager = ControllerManager(
        place.named("ccm"), arguments, running.in_cluster, prefix=place.prefix, opts=place.options()
    )
    after: list[pulumi.Resource] = [*manager.deployments, *cluster.agents]
    scaled: list[pulumi.Resource] = []
    if settings.autoscaled_pools:
        scaled = Autoscaler(
            place.named("autoscaler"),
            settings,
            running.servers,
            network_id=arguments.network_id,
            cluster=cluster,
            agent_token=running.agent_token,
            cloud_token=arguments.token,
            in_cluster=running.in_cluster,
            after=after,
            opts=place.options(),
        ).all
    cleanup = LoadBalancerCleanup(
        place.named("sweep"),
        # its deletion may fail: then nothing that is deleted later is touched
        place.options(pulumi.ResourceOptions(depends_on=[*after, *scaled])),
        **cleanup_inputs(settings, arguments.network_id, running.servers),
        generation=cluster.generation,
    )
    upgrade_systems(place, settings, running, after)
    return after, cleanup


def upgrade_systems(
    place: Place, settings: Settings, running: RunningCluster, after: Sequence[pulumi.Resource]
) -> None:
    """Upgrades of the servers' operating systems, where they are asked for: updates, and reboots."""
    if settings.os_upgrades is None:
        return
    nat = [running.servers.nat] if running.servers.nat else []
    for server in [*running.servers.controls, *running.servers.workers, *nat]:
        on_it = pulumi.ResourceOptions(deleted_with=server.server, depends_on=[*after])
        SecurityUpdates(server.role, place.options(on_it), **server.access.inputs())
    Kured(
        place.named("kured"),
        settings.kured_image,
        settings.os_upgrades,
        drain_seconds=settings.drain_seconds,
        in_cluster=running.in_cluster,
        after=after,
        opts=place.options(),
    )


def ready_nodes(
    place: Place, arguments: ControllerManagerArgs, running: RunningCluster, after: Sequence[pulumi.Resource]
) -> list[pulumi.Resource]:
    """All servers as nodes that take Pods, and what can be declared only after that."""
    settings = arguments.settings
    image = "" if arguments.image is None else arguments.image
    release = settings.k3s_version or settings.k3s_channel
    ready = ReadyNodes(
        place.named("nodes"),
        place.options(
            pulumi.ResourceOptions(
                depends_on=[*after, *running.pod_network], deleted_with=running.cluster.gone_with
            )
        ),
        **running.servers.control_inputs(),
        nodes=node_inputs(running.servers),
        revision=pulumi.Output.concat(running.cluster.generation, " ", release, " ", image),
    )
    if settings.cni != "cilium" or settings.pods_reach_metadata:
        return [ready]
    name = place.named("cni-metadata")
    return [ready, MetadataPolicy(name, running.in_cluster, ready, opts=place.options())]
