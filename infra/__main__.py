"""Wires the environment together."""

import datetime as dt
from collections.abc import Collection, Mapping, Sequence

import pulumi
import pulumi_kubernetes as kubernetes

from ccm_pulumi.addons.controller_manager import ControllerManager, ControllerManagerArgs
from ccm_pulumi.addons.ingress import Traefik
from ccm_pulumi.addons.load_balancer_cleanup import LoadBalancerCleanup, cleanup_inputs
from ccm_pulumi.assembly import HOW_TO_REACH, Place, managed, ready_nodes, running_cluster
from ccm_pulumi.cluster.cluster import Cluster
from ccm_pulumi.config.labels import cluster_labels
from ccm_pulumi.config.server_spec import Kind, ServerSpec, of_kind
from ccm_pulumi.config.settings import Settings
from ccm_pulumi.lib.cloud_api import fetcher
from ccm_pulumi.lib.errors import InfraError
from ccm_pulumi.lib.files import ROOT, PrivateFile, key_file, kubeconfig_file
from ccm_pulumi.preflight.adoption import Adoption, held_revisions, importing, read_state
from ccm_pulumi.preflight.checks import all_configuration, check_everything, stack_label
from ccm_pulumi.preflight.ssh_allow_list import address_seen_by, refuse_to_shut_out
from ccm_pulumi.protection import guard_protected_resources
from ccm_pulumi.servers.keys import KeyPair
from ccm_pulumi.servers.network import Network
from ccm_pulumi.servers.servers import Servers
from infra.ccm_image import CcmImage, ImportedImage

HERE = Place()
"""The stack itself is the parent of all resources. Another parent would change the URNs of the resources."""


def main() -> None:
    """Checks everything, then declares everything."""
    try:
        checked = check_everything(all_configuration(), stack_label())
    except InfraError as error:
        raise pulumi.RunError(str(error)) from None
    pulumi.log.info(checked.report)
    for warning in checked.warnings:
        pulumi.log.warn(warning)
    controls = {control.role for control in of_kind(checked.settings.servers, Kind.CONTROL)}
    if checked.settings.restore_from and checked.existing & controls:
        pulumi.log.info(
            "restoreFrom has no effect if a control server has the data of the cluster. Remove restoreFrom "
            "from the settings after the restore"
        )
    window = checked.settings.os_upgrades
    if window and window.is_open(dt.datetime.now(dt.UTC)):
        until = f"{window.end} ({window.time_zone})"
        pulumi.log.warn(f"osUpgrades allows reboots until {until}, so servers may reboot during this run")
    labels = cluster_labels(checked.settings.cluster_name, stack_label(), {})
    try:
        state = read_state()
        adoption = Adoption(labels, fetcher(checked.cloud), state)
        pulumi.runtime.register_stack_transformation(importing(adoption.import_id, pulumi.log.info))
        refuse_to_shut_out(checked.settings.ssh_allowed_cidrs, state, address_seen_by)
        declare(
            checked.settings, checked.cloud.token, checked.servers, checked.existing, held_revisions(state)
        )
    except InfraError as error:
        raise pulumi.RunError(str(error)) from None
    pulumi.export("cost", checked.cost)


def declare(
    settings: Settings,
    cloud_token: str,
    specs: Sequence[ServerSpec] | None = None,
    existing: Collection[str] = (),
    held: Mapping[str, str] | None = None,
) -> None:
    """Declares the environment's resources and outputs. Changes of ``existing`` servers, which were made
    with the revisions ``held``, roll out in order.
    """
    labels = cluster_labels(settings.cluster_name, stack_label(), settings.labels)
    key = KeyPair("key", comment=f"{settings.cluster_name} dev env")
    secret = pulumi.Output.secret(key.private_key)
    written = PrivateFile("key-file", file=key_file(stack_label()), content=secret, formerly=".dev-env.ssh")
    network = Network("network", settings, labels)
    there = {"specs": specs, "existing": existing, "held": held}
    servers = Servers("servers", settings, labels, network=network, key=key, **there)
    if settings.kubeconfig_path:
        kubeconfig, last = declare_in_existing_cluster(settings, cloud_token, network, servers)
    else:
        kubeconfig, last = declare_cluster(settings, cloud_token, network, servers)
    guard_protected_resources(HERE, settings, network, servers, after=[written, *last])
    pulumi.export("clusterName", settings.cluster_name)
    pulumi.export("controlIp", servers.control.address)
    pulumi.export("workerIps", [worker.address for worker in servers.workers])
    if servers.nat:
        pulumi.export("natIp", servers.nat.public_ip)
    pulumi.export("networkId", network.id)
    pulumi.export("kubeconfig", kubeconfig)


def declare_cluster(
    settings: Settings, cloud_token: str, network: Network, servers: Servers
) -> tuple[pulumi.Output[str], list[pulumi.Resource]]:
    """k3s on the servers, and the cloud-controller-manager in it. Returns the kubeconfig, and the resources
    that are deleted first.
    """
    running = running_cluster(HERE, settings, servers)
    image, imported = ccm_image(settings, servers, running.cluster)
    secret = pulumi.Output.secret(cloud_token)
    arguments = ControllerManagerArgs(settings, secret, network.id, image, imported)
    after, cleanup = managed(HERE, arguments, running)
    last: list[pulumi.Resource] = [running.cluster, cleanup]
    if settings.ingress == "traefik":
        in_cluster = pulumi.ResourceOptions.merge(
            running.in_cluster, pulumi.ResourceOptions(depends_on=after)
        )
        last.append(Traefik("ingress", settings, in_cluster))
    last += ready_nodes(HERE, arguments, running, after)
    file = kubeconfig_file(stack_label())
    content = pulumi.Output.secret(running.kubeconfig)
    last.append(PrivateFile("kubeconfig-file", file=file, content=content, formerly="kubeconfig.yaml"))
    return running.kubeconfig, last


def declare_in_existing_cluster(
    settings: Settings, cloud_token: str, network: Network, servers: Servers
) -> tuple[pulumi.Output[str], list[pulumi.Resource]]:
    """The cloud-controller-manager in an existing cluster; returns the same as ``declare_cluster``. It
    depends on all servers, whose names are unique in the project. If another stack has a cluster of the
    same name, the creation of these servers fails. Then nothing may be declared whose deletion removes the
    other cluster's load balancers.
    """
    kubeconfig = pulumi.Output.secret((ROOT / settings.kubeconfig_path).read_text())
    # by force: a stack of an earlier version owns the Deployment's fields under a random name
    provider = kubernetes.Provider(
        "kubernetes", kubeconfig=kubeconfig, enable_patch_force=True, **HOW_TO_REACH
    )
    image = settings.ccm_image or None
    arguments = ControllerManagerArgs(settings, pulumi.Output.secret(cloud_token), network.id, image)
    made = [server.server for server in [*servers.controls, *servers.workers]]
    manager = ControllerManager("ccm", arguments, pulumi.ResourceOptions(provider=provider, depends_on=made))
    options = pulumi.ResourceOptions(depends_on=[*made, *manager.deployments])
    cleanup = LoadBalancerCleanup("sweep", options, **cleanup_inputs(settings, network.id))
    return kubeconfig, [manager, cleanup]


def ccm_image(
    settings: Settings, servers: Servers, cluster: Cluster
) -> tuple[pulumi.Input[str], list[pulumi.Resource]]:
    """The reference of the configured image, or of the one of this tree, and the resources that import it to
    every control server, where it may run.
    """
    if settings.ccm_image:
        return settings.ccm_image, []
    built = CcmImage("ccm-image")
    imported: list[pulumi.Resource] = [
        ImportedImage(
            "ccm-image" if server is servers.control else f"ccm-image-{server.role}",
            pulumi.ResourceOptions(deleted_with=server.server),
            **server.access.inputs(),
            generation=cluster.generation,
            installation=installed.installation,
            reference=built.reference,
        )
        for server, installed in zip(servers.controls, cluster.servers, strict=True)
    ]
    return built.reference, imported


if __name__ == "__main__":
    main()
