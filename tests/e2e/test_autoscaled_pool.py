"""A pool with bounds: the test makes servers as the cluster-autoscaler does, whose program can't be had here.

What it sends is what ``createServer`` and ``DeleteNodes`` of its provider for Hetzner send, out of what the
program has deployed for it: cluster-autoscaler/cloudprovider/hetzner/hetzner_node_group.go in
https://github.com/kubernetes/autoscaler. Before it deletes a server it taints its Node and evicts the Pods
there; the Node itself it leaves to the cloud-controller-manager.
"""

import base64
import json
import time

import pytest

from tests.e2e.cluster_state import changed
from tests.e2e.conftest import eventually
from tests.e2e.looks import ready, taints, targets

pytestmark = [pytest.mark.nightly, pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]

BURST = {"name": "burst", "max": 3, "labels": {"disk": "fast"}, "taints": ["dedicated=burst:NoSchedule"]}
POD_SPEC = {
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "terminationGracePeriodSeconds": 1,
    "containers": [
        {"name": "tools", "image": "ccm-from-scratch.local/tools:1", "command": ["sleep", "100000"]}
    ],
}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "on-burst"}}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD_SPEC},
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
    config = json.loads(base64.b64decode(secret["data"]["cluster-config.json"]))
    return container["command"], variables, config


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


def scale_down(clone, server):
    """Take a server away as the cluster-autoscaler does; meanwhile it leaves its load balancer."""
    taint = f"ToBeDeletedByClusterAutoscaler={int(time.time())}:NoSchedule"
    clone.dev("kubectl", "taint", "node", server["name"], taint)
    eventually(lambda: server["id"] not in targets(clone), 60, "its load balancer sends nothing more to it")
    for name in pods_on(clone, server):
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        (clone.root / "eviction.json").write_text(json.dumps(eviction))
        path = f"/api/v1/namespaces/default/pods/{name}/eviction"
        clone.dev("kubectl", "create", "--raw", path, "-f", "eviction.json")
    eventually(lambda: not pods_on(clone, server), 60, "its Pods are gone")
    clone.api(f"/servers/{server['id']}", method="DELETE")


def pods_on(clone, server):
    pods = clone.kubectl("get", "pods", f"--field-selector=spec.nodeName={server['name']}")["items"]
    return [pod["metadata"]["name"] for pod in pods]


def apply(clone, manifest):
    (clone.root / "manifest.json").write_text(json.dumps(manifest))
    clone.dev("kubectl", "apply", "-f", "manifest.json")


def joined(clone, server):
    node = clone.nodes().get(server["name"])
    if node is None or node["spec"].get("providerID") != f"hcloud://{server['id']}":
        return None
    return node if ready(node) and taints(node) == {"dedicated"} else None


def names(clone):
    return {server["name"] for server in clone.api("/servers")["servers"]}


@pytest.fixture(scope="module")
def scaled(clone, kubernetes_version):
    configure(clone, BURST)
    clone.dev("up", "--kubernetes", kubernetes_version)
    return clone


def test_servers_of_the_autoscaler_join_and_go_alone_with_their_pool_and_with_everything(scaled):
    assert names(scaled) == {"ccm-from-scratch-control"}
    both = [scale_up(scaled, name) for name in ("1a2b", "5e6f")]
    for server in both:
        node = eventually(
            lambda server=server: joined(scaled, server), 120, "a Node that the CCM knows and that takes Pods"
        )
        assert node["metadata"]["labels"]["disk"] == "fast"
    apply(scaled, DEPLOYMENT)
    scaled.dev("kubectl", "wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
    scaled.dev("kubectl", "expose", "deployment", "web", "--type=LoadBalancer", "--port=80")
    eventually(
        lambda: {server["id"] for server in both} <= targets(scaled), 60, "a load balancer sends to both"
    )
    leaving, first = sorted(both, key=lambda server: not pods_on(scaled, server))
    apply(scaled, POD | {"spec": POD_SPEC | {"nodeName": first["name"]}})
    scaled.dev("kubectl", "wait", "--for=condition=Ready", "pod/on-burst", "--timeout=60s")

    scale_down(scaled, leaving)
    # Kubernetes waits 50 s before a silent Node is not ready; only then the CCM looks for its server.
    eventually(lambda: leaving["name"] not in scaled.nodes(), 90, "the CCM removes its Node")
    scaled.dev("kubectl", "wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
    assert len(pods_on(scaled, first)) == 2
    scaled.settle()
    assert first["id"] in targets(scaled)
    assert len(scaled.api("/networks")["networks"][0]["routes"]) == len(scaled.nodes())

    again = scaled.dev("up").stdout
    assert not changed(again), again
    assert names(scaled) == {"ccm-from-scratch-control", first["name"]}

    configure(scaled, {"name": "worker", "count": 0})
    refused = scaled.dev("up", check=False)
    assert refused.returncode
    said = refused.stdout
    assert "default/on-burst: no controller recreates this Pod" in said, said
    assert first["name"] in names(scaled)
    scaled.dev("kubectl", "delete", "pod", "on-burst", "--now")
    scaled.dev("up")
    assert names(scaled) == {"ccm-from-scratch-control"}
    # Kubernetes leaves a Node 50 seconds before it is not ready, and then the CCM asks for its server.
    eventually(lambda: list(scaled.nodes()) == ["ccm-from-scratch-control"], 90, "its Node goes, too")

    configure(scaled, BURST)
    scaled.dev("up")
    second = scale_up(scaled, "3c4d")
    eventually(lambda: joined(scaled, second), 120, "another Node")
    down = scaled.dev("down").stdout
    assert "nothing is left of site" in down
