"""A snapshot of embedded etcd on real machines: its server is lost, and another one goes on from it."""

import pytest
import pytest_asyncio
from machines_lab import CommandFailedError, started_lab

pytestmark = [pytest.mark.machines, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

FOLDER = "/var/lib/rancher/k3s/server"
RESET = "k3s server --cluster-reset --cluster-reset-restore-path=/root/taken --secrets-encryption"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(cache, kubernetes_version, tmp_path_factory):
    """Two machines."""
    state = tmp_path_factory.mktemp("state")
    async with started_lab(cache, kubernetes_version, state, machines=2) as running:
        yield running


async def test_restoring_needs_a_new_datastore(lab):
    await lab.install_member(2)
    with pytest.raises(CommandFailedError, match="see server log for details: etcd datastore disabled"):
        await lab.run(2, "k3s etcd-snapshot save")
    with pytest.raises(CommandFailedError, match="no embedded etcd"):
        await lab.run(2, "systemctl stop k3s; k3s server --cluster-reset")
    await lab.run(2, "k3s-uninstall.sh")


async def test_another_machine_restores_a_snapshot(lab):
    await lab.install_member(1, "--cluster-init")
    await lab.until(1, "k3s kubectl get node m1")
    await lab.run(1, "k3s kubectl create secret generic hidden --from-literal=word=kept")
    said = await lab.run(1, "k3s etcd-snapshot save --name before")
    name = said.partition("Snapshot ")[2].partition(" saved")[0]
    assert name.startswith("before-m1-")
    assert name in await lab.run(1, "k3s etcd-snapshot ls")
    await lab.run(1, "k3s kubectl create configmap later")
    taken = (await lab.run(1, f"base64 -w0 {FOLDER}/db/snapshots/{name}")).encode()
    authority = await lab.run(1, f"cat {FOLDER}/tls/server-ca.crt")
    await lab.backend.power_off(1)

    await lab.run(2, "base64 -d > /root/taken", stdin=taken)
    # as the documentation has it: installed, not started
    lab.install += " INSTALL_K3S_SKIP_START=true"
    await lab.install_member(2, "--cluster-init")
    with pytest.raises(CommandFailedError, match="encrypted with different token"):
        await lab.run(2, f"K3S_TOKEN=another {RESET} --node-ip 10.0.0.3", seconds=120)
    reset = await lab.run(2, f"K3S_TOKEN=the-servers {RESET} --node-ip 10.0.0.3", seconds=120)
    assert "Managed etcd cluster membership has been reset, restart without --cluster-reset flag" in reset
    await lab.run(2, "systemctl start k3s", seconds=120)

    await lab.until(2, "k3s kubectl wait --for=condition=Ready node/m2 --timeout=1s")
    word = await lab.run(2, "k3s kubectl get secret hidden -o jsonpath={.data.word} | base64 -d")
    assert word == "kept"
    with pytest.raises(CommandFailedError, match="not found"):
        await lab.run(2, "k3s kubectl get configmap later")
    # clients of the lost server trust this one
    assert await lab.run(2, f"cat {FOLDER}/tls/server-ca.crt") == authority
    assert await lab.run(2, "k3s kubectl get nodes -o name") == "node/m1\nnode/m2"
    assert not await lab.run(2, f"ls {FOLDER}/db | grep reset-flag || true")
