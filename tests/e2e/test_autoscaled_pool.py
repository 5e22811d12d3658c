"""A pool with bounds: the test makes servers as the cluster-autoscaler does, whose program can't be had here.

What it sends is what ``createServer`` of its provider for Hetzner sends, out of what the program has deployed
for it: cluster-autoscaler/cloudprovider/hetzner/hetzner_node_group.go in https://github.com/kubernetes/autoscaler
"""

from __future__ import annotations

import base64
import json

import pytest

from tests.e2e.conftest import eventually

pytestmark = [pytest.mark.machines, pytest.mark.cluster(workers=3), pytest.mark.timeout(900)]

BURST = {"name": "burst", "max": 3, "labels": {"disk": "fast"}, "taints": ["dedicated=burst:NoSchedule"]}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "on-burst"},
    "spec": {
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "containers": [
            {"name": "tools", "image": "ccm-from-scratch.local/tools:1", "command": ["sleep", "100000"]}
        ],
    },
}


def configure(clone, *pools):
    clone.configure(pools=list(pools), cloudProviderName="hcloud", drainSeconds=60)


def deployed(clone):
    """Command line, environment and configuration of the cluster-autoscaler."""
    deployment = clone.kubectl("-n", "kube-system", "get", "deployment", "cluster-autoscaler")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    variables = {item["name"]: item.get("value") for item in container["env"]}
    secret = clone.kubectl("-n", "kube-system", "get", "secret", "cluster-autoscaler")
    return (
        container["command"],
        variables,
        json.loads(base64.b64decode(secret["data"]["cluster-config.json"])),
    )


def scale_up(clone, name):
    """Make a server as the cluster-autoscaler does."""
    command, variables, config = deployed(clone)
    (group,) = [word.removeprefix("--nodes=") for word in command if word.startswith("--nodes=")]
    _, _, kind, location, identity = group.split(":")
    (image,) = clone.api(f"/images?name={config['imagesForArch']['amd64']}&architecture=x86")["images"]
    (server_type,) = clone.api(f"/server_types?name={kind}")["server_types"]
    body = {
        "name": f"{identity}-{name}",
        "user_data": config["nodeConfigs"][identity]["cloudInit"],
        "location": location,
        "server_type": server_type["id"],
        "image": image["id"],
        "start_after_create": True,
        "labels": {"hcloud/node-group": identity},
        "public_net": {"enable_ipv4": True, "enable_ipv6": True},
        "ssh_keys": [int(variables["HCLOUD_SSH_KEY"])],
        "networks": [int(variables["HCLOUD_NETWORK"])],
        "firewalls": [{"firewall": int(variables["HCLOUD_FIREWALL"])}],
    }
    return clone.api("/servers", body)["server"]


def joined(clone, server):
    node = clone.nodes().get(server["name"])
    if node is None or node["spec"].get("providerID") != f"hcloud://{server['id']}":
        return None
    ready = next(item for item in node["status"]["conditions"] if item["type"] == "Ready")
    tainted = {taint["key"] for taint in node["spec"].get("taints", [])}
    return node if ready["status"] == "True" and tainted == {"dedicated"} else None


def names(clone):
    return {server["name"] for server in clone.api("/servers")["servers"]}


@pytest.fixture(scope="module")
def scaled(clone, kubernetes_version):
    configure(clone, BURST)
    clone.dev("up", "--kubernetes", kubernetes_version)
    return clone


def test_servers_of_the_autoscaler_join_and_go_with_their_pool_and_with_everything(scaled):
    assert names(scaled) == {"ccm-from-scratch-control"}
    first = scale_up(scaled, "1a2b")
    node = eventually(lambda: joined(scaled, first), 120, "a Node that the CCM knows and that takes Pods")
    assert node["metadata"]["labels"]["disk"] == "fast"
    (scaled.root / "pod.json").write_text(json.dumps(POD))
    scaled.dev("kubectl", "apply", "-f", "pod.json")
    scaled.dev("kubectl", "wait", "--for=condition=Ready", "pod/on-burst", "--timeout=60s")

    again = scaled.dev("up").stdout
    assert not any(f" {word}" in again for word in ("created", "updated", "replaced", "deleted")), again
    assert names(scaled) == {"ccm-from-scratch-control", first["name"]}

    configure(scaled, {"name": "worker", "count": 0})
    refused = scaled.dev("up", check=False)
    assert refused.returncode
    said = refused.stdout
    assert "default/on-burst: no controller would make it again elsewhere" in said, said
    assert first["name"] in names(scaled)
    scaled.dev("kubectl", "delete", "pod", "on-burst", "--now")
    scaled.dev("up")
    assert names(scaled) == {"ccm-from-scratch-control"}
    eventually(lambda: list(scaled.nodes()) == ["ccm-from-scratch-control"], 60, "its Node goes, too")

    configure(scaled, BURST)
    scaled.dev("up")
    second = scale_up(scaled, "3c4d")
    eventually(lambda: joined(scaled, second), 120, "another Node")
    down = scaled.dev("down").stdout
    assert "nothing is left of site" in down
