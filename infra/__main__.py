"""Wires the environment together."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes

from infra.cilium import Cilium
from infra.cluster import Cluster
from infra.controller_manager import ControllerManager, ControllerManagerArgs
from infra.errors import InfraError
from infra.files import ROOT
from infra.image import CcmImage, ImportedImage
from infra.ingress import Traefik
from infra.inventory import Servers
from infra.keys import KeyPair, SharedSecret
from infra.kubeconfig import Kubeconfig
from infra.labels import cluster_labels
from infra.network import Network
from infra.nodes import ReadyNodes
from infra.pod_network import PodNetwork
from infra.preflight import all_configuration, check_everything, stack_label
from infra.server import Server
from infra.settings import Settings
from infra.sweep import Sweep


def main() -> None:
    """Checks everything, then declares everything."""
    try:
        settings, cloud = check_everything(all_configuration())
    except InfraError as error:
        raise pulumi.RunError(str(error)) from None
    declare(settings, cloud.token)


def declare(settings: Settings, cloud_token: str) -> None:
    """Declares the environment's resources and outputs."""
    labels = cluster_labels(settings.cluster_name, stack_label(), settings.labels)
    key = KeyPair("key", comment=f"{settings.cluster_name} dev env")
    network = Network("network", settings, labels)
    servers = Servers("servers", settings, labels, network=network, key=key)
    if settings.kubeconfig_path:
        kubeconfig = declare_in_existing_cluster(settings, cloud_token, network)
    else:
        kubeconfig = declare_cluster(settings, cloud_token, network, servers)
    pulumi.export("clusterName", settings.cluster_name)
    pulumi.export("controlIp", servers.control.public_ip)
    pulumi.export("workerIps", [worker.public_ip for worker in servers.workers])
    pulumi.export("networkId", network.id)
    pulumi.export("kubeconfig", kubeconfig)


def declare_cluster(
    settings: Settings, cloud_token: str, network: Network, servers: Servers
) -> pulumi.Output[str]:
    """k3s on the servers, and the cloud-controller-manager in it. Returns the kubeconfig."""
    control = servers.control
    token, agent_token = SharedSecret("k3s-token"), SharedSecret("k3s-agent-token")
    cluster = Cluster("cluster", settings, servers, token=token.value, agent_token=agent_token.value)
    kubeconfig = Kubeconfig("kubeconfig", settings.cluster_name, control, cluster.generation)
    in_cluster = options_in_cluster(kubeconfig, cluster, control)
    network_of_pods = pod_network(settings, servers, cluster, in_cluster)
    image = ccm_image(settings, control, cluster)
    arguments = ControllerManagerArgs(settings, pulumi.Output.secret(cloud_token), network.id, image)
    manager = ControllerManager("ccm", arguments, in_cluster)
    after_manager = pulumi.ResourceOptions(depends_on=[*manager.deployments, *cluster.agents])
    Sweep(
        "sweep",
        settings.cluster_name,
        network.id,
        control=control,
        generation=cluster.generation,
        opts=after_manager,
    )
    if settings.ingress == "traefik":
        Traefik("ingress", settings, pulumi.ResourceOptions.merge(in_cluster, after_manager))
    ReadyNodes(
        "nodes",
        servers,
        pulumi.Output.concat(
            cluster.generation, " ", settings.k3s_version or settings.k3s_channel, " ", image
        ),
        opts=pulumi.ResourceOptions(
            depends_on=[*manager.deployments, *cluster.agents, *network_of_pods],
            deleted_with=control.server,
        ),
    )
    return kubeconfig.kubeconfig


def pod_network(
    settings: Settings, servers: Servers, cluster: Cluster, in_cluster: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """The Pods' network; what the nodes are waited for after."""
    if settings.cni == "cilium":
        Cilium("cni", settings, in_cluster)
        return []
    opts = pulumi.ResourceOptions(
        depends_on=[cluster.server, *cluster.agents], deleted_with=servers.control.server
    )
    return [PodNetwork("pod-network", servers, settings.cluster_cidr, cluster.generation, opts=opts)]


def declare_in_existing_cluster(settings: Settings, cloud_token: str, network: Network) -> pulumi.Output[str]:
    """The cloud-controller-manager in a cluster that is there already. Returns the kubeconfig."""
    kubeconfig = pulumi.Output.secret((ROOT / settings.kubeconfig_path).read_text())
    provider = kubernetes.Provider("kubernetes", kubeconfig=kubeconfig, delete_unreachable=True)
    image = settings.ccm_image or None
    arguments = ControllerManagerArgs(settings, pulumi.Output.secret(cloud_token), network.id, image)
    manager = ControllerManager("ccm", arguments, pulumi.ResourceOptions(provider=provider))
    options = pulumi.ResourceOptions(depends_on=manager.deployments)
    Sweep("sweep", settings.cluster_name, network.id, opts=options)
    return kubeconfig


def options_in_cluster(kubeconfig: Kubeconfig, cluster: Cluster, control: Server) -> pulumi.ResourceOptions:
    """Options of every object in the cluster: gone with the control server, dead or alive."""
    provider = kubernetes.Provider(
        "kubernetes",
        kubeconfig=kubeconfig.kubeconfig,
        # a changed kubeconfig of the same cluster must not replace everything in it
        cluster_identifier=cluster.generation,
        delete_unreachable=True,
        opts=pulumi.ResourceOptions(deleted_with=control.server),
    )
    return pulumi.ResourceOptions(provider=provider, deleted_with=control.server)


def ccm_image(settings: Settings, control: Server, cluster: Cluster) -> pulumi.Input[str]:
    """The configured image, or the one of this tree once it is on the control server."""
    if settings.ccm_image:
        return settings.ccm_image
    built = CcmImage("ccm-image")
    gone_with_control = pulumi.ResourceOptions(deleted_with=control.server)
    imported = ImportedImage(
        "ccm-image",
        control,
        generation=cluster.generation,
        reference=built.reference,
        opts=gone_with_control,
    )
    return imported.reference


if __name__ == "__main__":
    main()
