"""A cluster on Hetzner Cloud that waits for your CCM."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pulumi
import pulumi_hcloud as hcloud
import pulumi_kubernetes as kubernetes
from pulumi import ResourceOptions
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider

NAME = "my-cluster"
KEY = Path("key").resolve()
config = pulumi.Config()

key = hcloud.SshKey("key", name=NAME, public_key=KEY.with_suffix(".pub").read_text())
network = hcloud.Network("network", name=NAME, ip_range="10.0.0.0/8")
subnet = hcloud.NetworkSubnet(
    "subnet",
    network_id=network.id.apply(int),
    type="cloud",
    network_zone="eu-central",
    ip_range="10.0.0.0/24",
)
control = hcloud.Server(
    "control",
    name=f"{NAME}-control",
    server_type="cpx22",
    image="ubuntu-24.04",
    location="fsn1",
    ssh_keys=[key.id],
    networks=[{"network_id": network.id.apply(int), "ip": "10.0.0.2"}],
    opts=ResourceOptions(depends_on=[subnet]),
)


class ScriptProvider(ResourceProvider):
    def create(self, props: dict[str, Any]) -> CreateResult:
        options = ["-o", "StrictHostKeyChecking=accept-new", "-o", "ConnectTimeout=5"]
        options += ["-o", f"UserKnownHostsFile={props['key']}.hosts", "-i", props["key"]]
        ssh = ["ssh", *options, f"root@{props['host']}"]
        deadline = time.monotonic() + 180
        while subprocess.run([*ssh, "cloud-init status --wait || true"], check=False).returncode:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{props['host']} doesn't accept logins")
            time.sleep(1)
        script = f"set -e\n{props['script']}"
        done = subprocess.run([*ssh, script], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return CreateResult(props["host"], {**props, "output": done.stdout})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        changed = [name for name in ("host", "script") if olds[name] != news[name]]
        return DiffResult(changes=bool(changed), replaces=changed)


class Script(Resource):
    """Runs on a server when it has booted, and again when the script changes."""

    output: pulumi.Output[str]

    def __init__(self, name: str, script: pulumi.Input[str], opts: ResourceOptions | None = None) -> None:
        props = {"host": control.ipv4_address, "key": str(KEY), "script": script, "output": None}
        super().__init__(ScriptProvider(), name, props, opts)


FLAGS = (
    "--disable-cloud-controller",
    "--kubelet-arg=cloud-provider=external",
    "--cluster-cidr=10.244.0.0/16",
    "--flannel-backend=none",
    "--disable-network-policy",
    "--disable=traefik,servicelb,local-storage,metrics-server",
    "--node-ip=10.0.0.2",
    "--advertise-address=10.0.0.2",
)
INSTALL = """
curl -sfL {installer} | sh -s - server {flags} --node-external-ip={ip} --tls-san={ip} >&2
until k3s kubectl get node {node} >&2; do sleep 1; done
sed s/127.0.0.1/{ip}/ /etc/rancher/k3s/k3s.yaml
"""
k3s = Script(
    "k3s",
    control.ipv4_address.apply(
        lambda ip: INSTALL.format(
            installer=config.get("installer") or "https://get.k3s.io",
            flags=" ".join(FLAGS),
            ip=ip,
            node=f"{NAME}-control",
        )
    ),
)
kubeconfig = pulumi.Output.secret(k3s.output)
pulumi.export("kubeconfig", kubeconfig)

CNI = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "ipMasq": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]]},
        }
    ],
}
pod_network = Script(
    "pod-network",
    f"mkdir -p /etc/cni/net.d; echo '{json.dumps(CNI)}' > /etc/cni/net.d/10-pods.conflist",
    ResourceOptions(depends_on=[k3s]),
)

inside = ResourceOptions(
    provider=kubernetes.Provider("cluster", kubeconfig=kubeconfig), depends_on=[pod_network]
)
metadata = {"name": "my-ccm", "namespace": "kube-system"}
secret = kubernetes.core.v1.Secret(
    "hcloud",
    metadata={"name": "hcloud", "namespace": "kube-system"},
    string_data={"token": pulumi.Output.secret(os.environ["HCLOUD_TOKEN"]), "network": network.id},
    opts=inside,
)
account = kubernetes.core.v1.ServiceAccount("account", metadata=metadata, opts=inside)
RULES = {
    ("", "nodes"): ["get", "list", "watch", "patch", "delete"],
    ("", "nodes/status"): ["patch"],
    ("", "services"): ["list", "watch"],
    ("", "services/status"): ["patch"],
    ("", "events"): ["create", "patch"],
    ("coordination.k8s.io", "leases"): ["create", "get", "update"],
}
role = kubernetes.rbac.v1.ClusterRole(
    "role",
    metadata={"name": "my-ccm"},
    rules=[
        {"api_groups": [group], "resources": [resource], "verbs": verbs}
        for (group, resource), verbs in RULES.items()
    ],
    opts=inside,
)
binding = kubernetes.rbac.v1.ClusterRoleBinding(
    "binding",
    metadata={"name": "my-ccm"},
    role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "my-ccm"},
    subjects=[{"kind": "ServiceAccount", "name": "my-ccm", "namespace": "kube-system"}],
    opts=inside,
)

program = {path.name: path.read_text() for path in Path("../my-ccm").glob("*.py")}
source = kubernetes.core.v1.ConfigMap("source", metadata=metadata, data=program, opts=inside)
ENVIRONMENT = {
    "HCLOUD_TOKEN": {"value_from": {"secret_key_ref": {"name": "hcloud", "key": "token"}}},
    "HCLOUD_NETWORK": {"value_from": {"secret_key_ref": {"name": "hcloud", "key": "network"}}},
    "HCLOUD_ENDPOINT": {"value": config.get("endpoint") or "https://api.hetzner.cloud/v1"},
}
container = {
    "name": "ccm",
    "image": config.require("image"),
    "command": ["/usr/bin/python3.13", "/program/main.py"],
    "args": ["--cloud-provider=ccm-from-scratch", "--secure-port=0"],
    "env": [{"name": name, **value} for name, value in ENVIRONMENT.items()],
    "volume_mounts": [{"name": "program", "mount_path": "/program"}],
}
deployment = kubernetes.apps.v1.Deployment(
    "deployment",
    metadata=metadata,
    spec={
        "selector": {"match_labels": {"app": "my-ccm"}},
        "template": {
            "metadata": {"labels": {"app": "my-ccm"}},
            "spec": {
                "service_account_name": "my-ccm",
                "host_network": True,
                "tolerations": [{"operator": "Exists"}],
                "containers": [container],
                "volumes": [{"name": "program", "config_map": {"name": "my-ccm"}}],
            },
        },
    },
    opts=ResourceOptions.merge(inside, ResourceOptions(depends_on=[secret, account, role, binding, source])),
)
