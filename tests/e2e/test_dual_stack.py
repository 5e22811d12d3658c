"""A cluster of both families of addresses on machines, its CCM, and traffic; the Pulumi program makes none.

Like somebody's own: servers by the API, k3s by its installer, the CCM as a process beside them.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from ipaddress import IPv6Network

import pytest

from sandbox.kubernetes import releases, toolchain
from sandbox.site import cache_directory
from tests import child_processes
from tests.e2e.conftest import TREE, eventually
from tests.e2e.looks import addresses, http_get, ready, routes, taints

pytestmark = [pytest.mark.nightly, pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]

PODS = "10.244.0.0/16,fd42::/48"
SERVER = (
    f"server --disable-cloud-controller --cluster-cidr {PODS} --service-cidr 10.43.0.0/16,fd43::/112 "
    "--disable=traefik,servicelb,local-storage,metrics-server"
)
SUBNET = {"type": "cloud", "ip_range": "10.0.0.0/24", "network_zone": "eu-central"}
WEB = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: docker.io/traefik/whoami:v1.11.0, imagePullPolicy: IfNotPresent}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: LoadBalancer, ipFamilyPolicy: RequireDualStack, selector: {app: web}, ports: [{port: 80}]}
"""


class Cluster:
    """Two servers with k3s, by the API of a clone's sandbox."""

    def __init__(self, clone, folder, version):
        self._clone, self._key, self.kubeconfig = clone, folder / "key", folder / "kubeconfig"
        self._install = (
            "cloud-init status --wait >/dev/null; curl -sSf http://169.254.169.254/k3s/install.sh | "
            f"INSTALL_K3S_VERSION={releases.k3s_name(version)} K3S_TOKEN=secret"
        )
        programs = toolchain.find(cache_directory(os.environ), releases.control_plane(version))
        assert programs is not None, "'./dev setup' has built them"
        self._kubectl = [programs.bin / "kubectl", f"--kubeconfig={self.kubeconfig}"]
        body = {"name": "n", "ip_range": "10.0.0.0/8", "subnets": [SUBNET]}
        self.network = clone.api("/networks", body)["network"]["id"]
        subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", self._key], check=True)
        key = clone.api("/ssh_keys", {"name": "k", "public_key": self._key.with_suffix(".pub").read_text()})
        self._ssh_key = key["ssh_key"]["id"]

    def server(self, name):
        """One that runs, with its addresses: private, public, and the first of its IPv6 network."""
        body = {"name": name, "server_type": "cpx22", "image": "debian-12", "location": "fsn1"}
        number = self._clone.api(
            "/servers", {**body, "networks": [self.network], "ssh_keys": [self._ssh_key]}
        )["server"]["id"]

        def runs():
            found = self._clone.api(f"/servers/{number}")["server"]
            return found if found["status"] == "running" and found["private_net"] else None

        server = eventually(runs, 60, f"{name} runs")
        public = server["public_net"]
        six = str(IPv6Network(public["ipv6"]["ip"])[1])
        return number, server["private_net"][0]["ip"], public["ipv4"]["ip"], six

    def ssh(self, address, command):
        """What a command on a server prints, as soon as that answers."""
        settings = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "ConnectTimeout=5")
        options = [f"-o{setting}" for setting in (*settings, "LogLevel=ERROR")]

        def said():
            words = ["ssh", "-i", self._key, *options, f"root@{address}", command]
            done = child_processes.run(words, stdin=subprocess.DEVNULL, timeout=300)
            assert done.returncode in {0, 255}, done.stdout + done.stderr  # 255: ssh itself
            return None if done.returncode else (done.stdout,)

        return eventually(said, 60, f"{address} answers")[0]

    def k3s(self, role, private, public, six):
        own = f"--node-ip {private},{six} --node-external-ip {public} --kubelet-arg=cloud-provider=external"
        self.ssh(public, f"{self._install} sh -s - {role} {own}")

    def kubectl(self, *words, stdin=""):
        return child_processes.run([*self._kubectl, *words], input=stdin, timeout=120, check=True).stdout

    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "--output=json"))


@contextmanager
def running(command, log, **options):
    """A process that is asked to end as by Ctrl-C."""
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file, **options) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


@pytest.fixture
def cluster(clone, kubernetes_version, tmp_path):
    clone.dev("setup")
    serving = ["./dev", "serve", "--backend=machines", "--no-exports", "--rate-limit=0"]
    with running(serving, tmp_path / "serve.log", cwd=clone.root):
        eventually(lambda: "/v1" in (tmp_path / "serve.log").read_text(), 60, "the API")
        made = Cluster(clone, tmp_path, kubernetes_version)
        made.servers = {name: made.server(name) for name in ("control", "worker")}
        _, private, public, six = made.servers["control"]
        made.k3s(f"{SERVER} --tls-san {public} --advertise-address {private}", private, public, six)
        text = made.ssh(public, "cat /etc/rancher/k3s/k3s.yaml")
        made.kubeconfig.write_text(text.replace("127.0.0.1", public))
        made.k3s(f"agent --server https://{private}:6443", *made.servers["worker"][1:])
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(TREE),
            "HCLOUD_TOKEN": clone.site.token,
            "HCLOUD_ENDPOINT": clone.site.endpoint,
            "HCLOUD_NETWORK": str(made.network),
            "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true",
            "HCLOUD_METRICS_ENABLED": "false",
            "HCLOUD_INSTANCES_ADDRESS_FAMILY": "dualstack",
            "HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1",
            "HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP": "true",
        }
        flags = ["--cloud-provider=hcloud", f"--kubeconfig={made.kubeconfig}", "--allocate-node-cidrs"]
        flags += [f"--cluster-cidr={PODS}", "--bind-address=127.0.0.1", "--secure-port=0"]
        ccm = [sys.executable, "-m", "ccm", *flags]
        with running(ccm, tmp_path / "ccm.log", env=environment, cwd=tmp_path):
            yield made
    clone.dev("down", "--force")


def test_a_cluster_of_both_families_gets_its_addresses_routes_and_load_balancer(cluster, clone):
    def nodes():
        found = {node["metadata"]["name"]: node for node in cluster.get("nodes")["items"]}
        return len(found) == 2 and all(ready(n) and not taints(n) for n in found.values()) and found

    found = eventually(nodes, 120, "two nodes, initialized by the CCM")
    for name, (number, private, _, six) in cluster.servers.items():
        node = found[name]
        assert node["spec"]["providerID"] == f"hcloud://{number}"
        wanted = {("Hostname", name), ("InternalIP", private), ("ExternalIP", six)}
        assert addresses(node) == wanted
        assert [cidr.partition(":")[0] for cidr in node["spec"]["podCIDRs"]][1] == "fd42"
    routed = {found[name]["spec"]["podCIDRs"][0]: server[1] for name, server in cluster.servers.items()}
    eventually(lambda: routes(clone) == routed, 60, "a route for the family that Hetzner routes")

    def has_event():
        chosen = "--field-selector=reason=PodCIDRNotRouted"
        said = " ".join(
            event["message"] for event in cluster.get("events", "--all-namespaces", chosen)["items"]
        )
        return all(node["spec"]["podCIDRs"][1] in said for node in found.values())

    eventually(has_event, 60, "an Event for the other one")

    cluster.kubectl("apply", "--filename=-", stdin=WEB)
    cluster.kubectl("rollout", "status", "daemonset/web", "--timeout=60s")

    def published():
        """The load balancer's public addresses, once the Service has both."""
        entries = cluster.get("service", "web")["status"]["loadBalancer"].get("ingress", [])
        for balancer in clone.api("/load_balancers")["load_balancers"]:
            both = [balancer["public_net"][family]["ip"] for family in ("ipv4", "ipv6")]
            if set(both) <= {entry.get("ip") for entry in entries}:
                return both
        return None

    four, six = eventually(published, 60, "an address of each family")
    for url in (f"http://{four}/", f"http://[{six}]/"):
        seen = set()

        def all_pods_answered(url=url, seen=seen):
            seen.update((http_get(url) or "").splitlines()[:1])
            return len(seen) == 2

        eventually(all_pods_answered, 60, f"an answer of both Pods at {url}")
