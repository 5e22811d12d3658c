"""Finds the dynamic providers of stacks that an earlier version of this program deployed.

Pulumi's SDK pickles a dynamic provider by the name of its class and keeps that in the stack's state. It reads
and deletes a resource with the provider of the state, also in a version that has moved the class. So when you
move or rename a provider class, add its previous name here and to ``tests/infra/former_providers.txt``.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

FORMER = {
    "cluster.K3sAgentProvider": "ccm_pulumi.cluster.k3s_installation.K3sAgentProvider",
    "cluster.K3sServerProvider": "ccm_pulumi.cluster.k3s_installation.K3sServerProvider",
    "departure.DepartureProvider": "ccm_pulumi.cluster.drain_on_delete.DrainOnDeleteProvider",
    "files.PrivateFileProvider": "ccm_pulumi.lib.files.PrivateFileProvider",
    "identity.ClusterIdentityProvider": "ccm_pulumi.cluster.identity.ClusterIdentityProvider",
    "image.CcmImageProvider": "infra.ccm_image.CcmImageProvider",
    "image.ImportedImageProvider": "infra.ccm_image.ImportedImageProvider",
    "keys.KeyPairProvider": "ccm_pulumi.servers.keys.KeyPairProvider",
    "keys.SharedSecretProvider": "ccm_pulumi.servers.keys.SharedSecretProvider",
    "kubeconfig.KubeconfigProvider": "ccm_pulumi.cluster.kubeconfig.KubeconfigProvider",
    "membership.MembershipProvider": "ccm_pulumi.cluster.node_registration.NodeRegistrationProvider",
    "node_group.NodeGroupProvider": "ccm_pulumi.addons.node_group.NodeGroupProvider",
    "nodes.ReadyNodesProvider": "ccm_pulumi.cluster.ready_nodes.ReadyNodesProvider",
    "pod_network.PodNetworkProvider": "ccm_pulumi.cluster.pod_network.PodNetworkProvider",
    "pod_routes.PodRoutesProvider": "ccm_pulumi.servers.pod_routes.PodRoutesProvider",
    "ready_again.ReadyAgainProvider": "ccm_pulumi.cluster.node_readiness_gate.NodeReadinessGateProvider",
    "security_updates.SecurityUpdatesProvider": "ccm_pulumi.addons.security_updates.SecurityUpdatesProvider",
    "server.BootProvider": "ccm_pulumi.servers.server.BootProvider",
    "server.RootKeyProvider": "ccm_pulumi.servers.server.RootKeyProvider",
    "server.WayOutProvider": "ccm_pulumi.servers.server.NatSetupProvider",
    "server_plan.InstallationGuardProvider": "ccm_pulumi.servers.server_plan.InstallationGuardProvider",
    "server_plan.ServerGuardProvider": "ccm_pulumi.servers.server_plan.ServerGuardProvider",
    "server_plan.ServerPlanProvider": "ccm_pulumi.servers.server_plan.ServerPlanProvider",
    "server_state.ServerStateProvider": "ccm_pulumi.servers.server_state.ServerStateProvider",
    "sweep.SweepProvider": "ccm_pulumi.addons.load_balancer_cleanup.LoadBalancerCleanupProvider",
    "vote.VoteProvider": "ccm_pulumi.cluster.etcd_member_guard.EtcdMemberGuardProvider",
}
"""Maps former names of provider classes to current names. The former packages had no subpackages."""
_IN_INFRA = {
    name.partition(".")[2]: name for name in [*FORMER.values(), "ccm_pulumi.protection.ProtectionProvider"]
} | {
    "addons.ccm_image.CcmImageProvider": "infra.ccm_image.CcmImageProvider",
    "addons.ccm_image.ImportedImageProvider": "infra.ccm_image.ImportedImageProvider",
}
"""Maps former names of provider classes in ``infra``, now ``ccm_pulumi``, to current names."""


def register(package: str) -> None:
    """Makes the former modules importable; a module that is a package today calls ``finder`` itself."""
    former = _modules({f"{package}.{name}" for name in _former(package)})
    for module in former - _modules({*FORMER.values()}) - {package}:
        stub = ModuleType(module)
        vars(stub)["__getattr__"] = finder(module)
        sys.modules[module] = stub


def finder(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that had provider classes."""
    package, _, stem = module.partition(".")

    def find(name: str) -> Any:
        today, _, class_name = _former(package).get(f"{stem}.{name}", "").rpartition(".")
        if not today:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(importlib.import_module(today), class_name)

    return find


def _former(package: str) -> dict[str, str]:
    return FORMER | _IN_INFRA if package == "infra" else FORMER


def _modules(classes: set[str]) -> set[str]:
    """The modules of some classes, and their packages: Python imports these first."""
    modules = {name.rpartition(".")[0] for name in classes}
    return modules | {module.rpartition(".")[0] for module in modules}
