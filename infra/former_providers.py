"""Finds the dynamic providers of stacks that an earlier version of this program deployed.

Pulumi's SDK pickles a dynamic provider by the name of its class and keeps that in the stack's state. It reads
and deletes a resource with the provider of the state, also in a version that has moved the class. So when you
move or rename a provider class, add its previous name here and to ``tests/infra/test_former_providers.py``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

FORMER = {
    "cluster.K3sAgentProvider": "cluster.k3s_installation.K3sAgentProvider",
    "cluster.K3sServerProvider": "cluster.k3s_installation.K3sServerProvider",
    "departure.DepartureProvider": "cluster.drain_on_delete.DrainOnDeleteProvider",
    "files.PrivateFileProvider": "lib.files.PrivateFileProvider",
    "identity.ClusterIdentityProvider": "cluster.identity.ClusterIdentityProvider",
    "image.CcmImageProvider": "addons.ccm_image.CcmImageProvider",
    "image.ImportedImageProvider": "addons.ccm_image.ImportedImageProvider",
    "keys.KeyPairProvider": "servers.keys.KeyPairProvider",
    "keys.SharedSecretProvider": "servers.keys.SharedSecretProvider",
    "kubeconfig.KubeconfigProvider": "cluster.kubeconfig.KubeconfigProvider",
    "membership.MembershipProvider": "cluster.node_registration.NodeRegistrationProvider",
    "node_group.NodeGroupProvider": "addons.node_group.NodeGroupProvider",
    "nodes.ReadyNodesProvider": "cluster.ready_nodes.ReadyNodesProvider",
    "pod_network.PodNetworkProvider": "cluster.pod_network.PodNetworkProvider",
    "pod_routes.PodRoutesProvider": "servers.pod_routes.PodRoutesProvider",
    "ready_again.ReadyAgainProvider": "cluster.node_readiness_gate.NodeReadinessGateProvider",
    "security_updates.SecurityUpdatesProvider": "addons.security_updates.SecurityUpdatesProvider",
    "server.BootProvider": "servers.server.BootProvider",
    "server.RootKeyProvider": "servers.server.RootKeyProvider",
    "server.WayOutProvider": "servers.server.NatSetupProvider",
    "server_plan.InstallationGuardProvider": "servers.server_plan.InstallationGuardProvider",
    "server_plan.ServerGuardProvider": "servers.server_plan.ServerGuardProvider",
    "server_plan.ServerPlanProvider": "servers.server_plan.ServerPlanProvider",
    "server_state.ServerStateProvider": "servers.server_state.ServerStateProvider",
    "sweep.SweepProvider": "addons.load_balancer_cleanup.LoadBalancerCleanupProvider",
    "vote.VoteProvider": "cluster.etcd_member_guard.EtcdMemberGuardProvider",
}
"""Previous names of provider classes and their names of today, both below this package."""


def register(package: str) -> None:
    """Makes the previous modules importable; each has its former provider classes and nothing else.

    A module whose previous name is a package's today, such as ``cluster``, calls ``finder`` by itself.
    """
    packages = {today.partition(".")[0] for today in FORMER.values()}
    for stem in {former.partition(".")[0] for former in FORMER} - packages:
        module = ModuleType(f"{package}.{stem}")
        vars(module)["__getattr__"] = finder(module.__name__)
        sys.modules[module.__name__] = module


def finder(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that had provider classes.

    Args:
        module: Its full name, such as ``infra.cluster``.
    """
    package, _, stem = module.rpartition(".")

    def find(name: str) -> Any:
        if f"{stem}.{name}" not in FORMER:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        today, _, class_name = FORMER[f"{stem}.{name}"].rpartition(".")
        return getattr(importlib.import_module(f"{package}.{today}"), class_name)

    return find
