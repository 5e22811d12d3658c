"""Wires the environment together."""

from __future__ import annotations

import pulumi

from infra.cluster import Cluster
from infra.errors import InfraError
from infra.inventory import Servers
from infra.keys import KeyPair, SharedSecret
from infra.kubeconfig import Kubeconfig
from infra.labels import cluster_labels
from infra.network import Network
from infra.preflight import all_configuration, check_everything, stack_label
from infra.settings import Settings


def main() -> None:
    """Checks everything, then declares everything."""
    try:
        settings, _cloud = check_everything(all_configuration())
    except InfraError as error:
        raise pulumi.RunError(str(error)) from None
    declare(settings)


def declare(settings: Settings) -> None:
    """Declares the environment's resources and outputs."""
    labels = cluster_labels(settings.cluster_name, stack_label(), settings.labels)
    key = KeyPair("key", comment=f"{settings.cluster_name} dev env")
    network = Network("network", settings, labels)
    servers = Servers("servers", settings, labels, network, key)
    token = SharedSecret("k3s-token")
    cluster = Cluster("cluster", settings, servers.control, servers.workers, token.value)
    kubeconfig = Kubeconfig(
        "kubeconfig",
        settings.cluster_name,
        servers.control,
        cluster.server.server_id,
        opts=pulumi.ResourceOptions(deleted_with=servers.control.server),
    )
    pulumi.export("clusterName", settings.cluster_name)
    pulumi.export("controlIp", servers.control.public_ip)
    pulumi.export("workerIps", [worker.public_ip for worker in servers.workers])
    pulumi.export("networkId", network.id)
    pulumi.export("kubeconfig", kubeconfig.kubeconfig)


if __name__ == "__main__":
    main()
