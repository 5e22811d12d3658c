import asyncio
import json

import pytest
import pytest_asyncio
from machines_lab import CommandFailedError, started_lab

pytestmark = [pytest.mark.machines, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

WEB = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations: [{operator: Exists}]
      containers:
      - name: web
        image: docker.io/traefik/whoami:v1.11.0
        imagePullPolicy: IfNotPresent
        readinessProbe: {httpGet: {path: /health, port: 80}, periodSeconds: 1}
"""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(cache, kubernetes_version, tmp_path_factory):
    async with started_lab(cache, kubernetes_version, tmp_path_factory.mktemp("state")) as running:
        yield running


async def nodes(lab):
    listed = json.loads(await lab.run(1, "k3s kubectl get nodes -o json"))
    return {node["metadata"]["name"]: node for node in listed["items"]}


async def test_a_server_and_two_agents_started_together_are_ready_within_seconds(lab):
    await asyncio.gather(*(lab.until(number, "cloud-init status --wait") for number in (1, 2, 3)))
    said = await asyncio.gather(
        lab.install_server("first"), lab.install_agent(2, "first"), lab.install_agent(3, "first")
    )
    await lab.ready()
    assert all("[ERROR]" not in text for text in said)
    found = await nodes(lab)
    assert set(found) == {"m1", "m2", "m3"}
    for number in (1, 2, 3):
        node = found[f"m{number}"]
        taints = {taint["key"] for taint in node["spec"]["taints"]}
        assert "node.cloudprovider.kubernetes.io/uninitialized" in taints
        assert node["spec"]["podCIDR"].startswith("10.244.")
        assert "providerID" not in node["spec"]
        assert {"type": "InternalIP", "address": f"10.0.0.{1 + number}"} in node["status"]["addresses"]
        allocatable = int(node["status"]["allocatable"]["memory"].removesuffix("Ki"))
        assert allocatable <= 4 * 1024 * 1024, "a node has what its server type has, not what the host has"
    assert "node-role.kubernetes.io/control-plane" in found["m1"]["metadata"]["labels"]


async def test_secrets_are_encrypted_at_rest(lab):
    await lab.run(1, "k3s kubectl create secret generic hidden --from-literal=word=plainly-visible")
    stored = "/var/lib/rancher/k3s/server/db/etcd/member/wal/"
    assert "matches" in await lab.run(1, f"grep -r registry/secrets/default/hidden {stored}")
    with pytest.raises(CommandFailedError):
        await lab.run(1, f"grep -r plainly-visible {stored}")
    word = "k3s kubectl get secret hidden -o jsonpath={.data.word} | base64 -d"
    assert await lab.run(1, word) == "plainly-visible"


async def test_annotations_and_finalizer_of_a_node(lab):
    metadata = (await nodes(lab))["m2"]["metadata"]
    assert json.loads(metadata["annotations"]["k3s.io/node-args"])[:3] == ["agent", "--node-ip", "10.0.0.3"]
    assert json.loads(metadata["annotations"]["k3s.io/node-env"])["K3S_TOKEN"] == "********"
    assert "wrangler.cattle.io/node" in metadata["finalizers"]


async def test_retries_after_a_wrong_flag_or_token(lab):
    with pytest.raises(CommandFailedError, match=r"Job for k3s-agent\.service failed"):
        await lab.install_agent(3, "first", "--nonsense")
    assert "unknown flag --nonsense" in await lab.run(3, "journalctl -u k3s-agent -o cat")
    assert await lab.run(3, "systemctl show -P ActiveState k3s-agent") == "activating"
    assert "No change detected" in await lab.install_agent(3, "first", "--nonsense")
    # not even the server's token is right, once there is one for agents
    await lab.install_agent(3, "the-servers", starting="systemctl restart --no-block k3s-agent")
    await lab.until(3, "journalctl -u k3s-agent -o cat | grep '401: Unauthorized: the token is wrong'")
    assert await lab.run(3, "systemctl show -P ActiveState k3s-agent") == "activating"
    with pytest.raises(CommandFailedError, match=r"Job for k3s\.service failed"):
        await lab.run(3, f"{lab.install} K3S_TOKEN=first sh -s - server --server https://10.0.0.2:6443")
    assert "401: Unauthorized: the token is wrong" in await lab.run(3, "journalctl -u k3s -o cat")
    await lab.run(3, "k3s-uninstall.sh")
    await lab.install_agent(3, "first")
    await lab.ready()


async def test_a_cluster_survives_a_power_failure(lab):
    await lab.run(1, "k3s kubectl apply -f -", stdin=WEB)
    await lab.run(1, "k3s kubectl rollout status ds/web --timeout=60s")
    before = await nodes(lab)
    await asyncio.gather(lab.backend.power_off(1), lab.backend.power_off(2))
    await asyncio.gather(lab.backend.power_on(1), lab.backend.power_on(2))
    await lab.until(1, "k3s kubectl get --raw /readyz")
    await lab.until(2, "systemctl is-active k3s-agent")
    await lab.ready()
    uids = [{n: o["metadata"]["uid"] for n, o in seen.items()} for seen in (before, await nodes(lab))]
    assert uids[0] == uids[1]
    await lab.until(1, "k3s kubectl rollout status ds/web --timeout=5s")


async def test_uninstalling(lab):
    await lab.run(2, "k3s-agent-uninstall.sh")
    # Folders k3s*.service.d are of the machine's image and were there before.
    units = "/etc/systemd/system/k3s*.service /etc/systemd/system/k3s*.env"
    left = await lab.run(2, f"ls /usr/local/bin {units} /run/k3s 2>/dev/null; pgrep -c kubelet || true")
    assert left == "/usr/local/bin:\n0"
    assert "cni0" not in await lab.run(2, "ip -br link")
    assert "/var/lib/kubelet/" not in await lab.run(2, "cat /proc/self/mounts")
