"""States of earlier versions name the classes of dynamic providers as these versions did."""

from __future__ import annotations

import pickle

import pytest

from infra.lib.dynamic import Provider

BEFORE_PACKAGES = [
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
"""Below ``infra``, when that was one folder of modules."""


@pytest.mark.parametrize("name", BEFORE_PACKAGES)
def test_a_provider_in_the_state_of_an_earlier_version_is_found(name):
    module, _, kind = name.rpartition(".")
    stored = f"cinfra.{module}\n{kind}\n.".encode()  # pickle's opcode GLOBAL, and STOP
    assert issubclass(pickle.loads(stored), Provider)


def test_nothing_else_is_found_in_a_former_module():
    with pytest.raises(AttributeError):
        pickle.loads(b"cinfra.vote\nget_provider\n.")
