"""States of earlier versions name the classes of dynamic providers as these versions did."""

import pickle
import sys

import pytest

from ccm_pulumi.lib.dynamic import Provider

ONE_FOLDER = [
    "cluster.K3sAgentProvider",
    "cluster.K3sServerProvider",
    "departure.DepartureProvider",
    "files.PrivateFileProvider",
    "identity.ClusterIdentityProvider",
    "image.CcmImageProvider",
    "image.ImportedImageProvider",
    "keys.KeyPairProvider",
    "keys.SharedSecretProvider",
    "kubeconfig.KubeconfigProvider",
    "membership.MembershipProvider",
    "node_group.NodeGroupProvider",
    "nodes.ReadyNodesProvider",
    "pod_network.PodNetworkProvider",
    "pod_routes.PodRoutesProvider",
    "protection.ProtectionProvider",
    "ready_again.ReadyAgainProvider",
    "security_updates.SecurityUpdatesProvider",
    "server.BootProvider",
    "server.RootKeyProvider",
    "server.WayOutProvider",
    "server_plan.InstallationGuardProvider",
    "server_plan.ServerGuardProvider",
    "server_plan.ServerPlanProvider",
    "server_state.ServerStateProvider",
    "sweep.SweepProvider",
    "vote.VoteProvider",
]
"""Below ``infra`` and ``ccm_pulumi``, when each was one folder of modules."""
PACKAGES = [
    "addons.ccm_image.CcmImageProvider",
    "addons.ccm_image.ImportedImageProvider",
    "addons.load_balancer_cleanup.LoadBalancerCleanupProvider",
    "addons.node_group.NodeGroupProvider",
    "addons.security_updates.SecurityUpdatesProvider",
    "cluster.drain_on_delete.DrainOnDeleteProvider",
    "cluster.etcd_member_guard.EtcdMemberGuardProvider",
    "cluster.identity.ClusterIdentityProvider",
    "cluster.k3s_installation.K3sAgentProvider",
    "cluster.k3s_installation.K3sServerProvider",
    "cluster.kubeconfig.KubeconfigProvider",
    "cluster.node_readiness_gate.NodeReadinessGateProvider",
    "cluster.node_registration.NodeRegistrationProvider",
    "cluster.pod_network.PodNetworkProvider",
    "cluster.ready_nodes.ReadyNodesProvider",
    "lib.files.PrivateFileProvider",
    "protection.ProtectionProvider",
    "servers.keys.KeyPairProvider",
    "servers.keys.SharedSecretProvider",
    "servers.pod_routes.PodRoutesProvider",
    "servers.server.BootProvider",
    "servers.server.NatSetupProvider",
    "servers.server.RootKeyProvider",
    "servers.server_plan.InstallationGuardProvider",
    "servers.server_plan.ServerGuardProvider",
    "servers.server_plan.ServerPlanProvider",
    "servers.server_state.ServerStateProvider",
]
"""Below ``infra``, when ``ccm_pulumi`` was only its name in the wheel."""
FORMER = [f"{package}.{name}" for package in ("infra", "ccm_pulumi") for name in ONE_FOLDER]


@pytest.mark.parametrize("name", [*FORMER, *(f"infra.{name}" for name in PACKAGES)])
def test_the_provider_in_the_state_of_an_earlier_version_is_that_of_today(name, monkeypatch):
    # Pulumi's process imports nothing of ours before it unpickles the first provider
    for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == "infra"]:
        if loaded not in ("infra.__main__", "infra.ccm_image"):
            monkeypatch.delitem(sys.modules, loaded)
    module, _, kind = name.rpartition(".")
    stored = f"c{module}\n{kind}\n.".encode()  # pickle's opcode GLOBAL, and STOP
    provider = pickle.loads(stored)
    assert issubclass(provider, Provider)
    # a copy of the module would not have what ServerPlan keeps in memory for the guards
    assert provider.__module__.startswith(("ccm_pulumi.", "infra.ccm_image"))


def test_a_former_module_has_only_its_former_providers():
    with pytest.raises(AttributeError):
        pickle.loads(b"cinfra.vote\nget_provider\n.")
