import subprocess

import pytest

from release.tested import RAN
from sandbox import leftovers

pytestmark = [pytest.mark.nightly, pytest.mark.cluster, pytest.mark.timeout(600)]


def test_up_initializes_hollow_nodes_and_down_leaves_nothing(clone, kubernetes_version, record_property):
    site = clone.site
    settings = clone.root / "packages/environment/src/sandbox/stacks/hollow.yaml"
    settings.write_text(settings.read_text() + "  ccm-from-scratch:workerServerType: cax11\n")
    before = clone.not_ignored()
    clone.dev("up", "--backend", "hollow", "--workers", "2", "--kubernetes", kubernetes_version)
    assert clone.not_ignored() == before
    servers = {s["name"]: s["id"] for s in clone.api("/servers")["servers"]}
    nodes = clone.nodes()
    assert {name: node["spec"]["providerID"] for name, node in nodes.items()} == {
        name: f"ccm-from-scratch://{identity}" for name, identity in servers.items()
    }
    # servers with both kinds of processors
    labels = {name: node["metadata"]["labels"] for name, node in nodes.items()}
    assert {
        (one["node.kubernetes.io/instance-type"], one["kubernetes.io/arch"]) for one in labels.values()
    } == {("cpx22", "amd64"), ("cax11", "arm64")}
    server = clone.kubectl("version")["serverVersion"]["gitVersion"]
    assert server == f"v{kubernetes_version}"
    record_property(f"{RAN}Kubernetes", server.removeprefix("v"))
    assert "hollow" in clone.dev("doctor", check=False).stdout
    assert "up to date, nothing to do" in clone.dev("plan").stdout
    clone.dev("deploy")
    with subprocess.Popen(["./dev", "logs"], cwd=clone.root, stdout=subprocess.DEVNULL) as log:
        try:
            clone.dev("down")  # while somebody reads the log
        finally:
            log.terminate()
    assert leftovers.find(site) == []
    assert not list(clone.root.glob("Pulumi.*.yaml"))
