"""What an environment has, as its cloud, its cluster and its Pulumi state say it."""

import json
import re
import subprocess
from collections.abc import Mapping
from typing import Any

from sandbox import leftovers
from sandbox.cluster import node_state
from sandbox.leftovers import CloudObject
from sandbox.remote import Way, ssh
from tests import child_processes
from tests.e2e.conftest import Clone

PREFIX = "ccm-from-scratch-"
STACK = "local"
UP = ("up", "--stack", STACK, "--yes", "--skip-preview")
DESTROY = ("destroy", "--stack", STACK, "--yes", "--skip-preview")
ETCD = "node-role.kubernetes.io/etcd"
"""Label of a Node whose server is a member of etcd."""
_CHANGES = re.compile(r" (?:created|updated|replaced|deleted)\b")
_TLS = "/var/lib/rancher/k3s/server/tls"
_ASK_ETCD = (
    f"curl -sS --max-time 10 --cacert {_TLS}/etcd-ca.crt --cert {_TLS}/etcd-client.crt "
    f"--key {_TLS}/etcd-client.key https://127.0.0.1:2379"
)
"""As the stand-in for k3s keeps them; genuine k3s has a folder for etcd's."""


def role_of(name: str) -> str:
    return name.removeprefix(PREFIX)


def changed(output: str) -> list[str]:
    """The lines of a run that tell of a change which was made."""
    return [line for line in output.splitlines() if line.startswith(" ") and _CHANGES.search(line)]


def asked(clone: Clone, *words: str) -> str | None:
    """The output of kubectl; None if the API server doesn't answer."""
    try:
        done = clone.dev("kubectl", "--request-timeout=3s", *words, check=False, seconds=60)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None


def provider_ids(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """The server that each Node says it is, by role; without Nodes that say none."""
    return {
        role_of(name): int(node["spec"]["providerID"].rpartition("/")[2])
        for name, node in nodes.items()
        if "providerID" in node["spec"]
    }


def identity(clone: Clone) -> str:
    """Of the cluster: the uid of the namespace ``kube-system``."""
    return clone.kubectl("get", "namespace", "kube-system")["metadata"]["uid"]


def members(clone: Clone) -> set[str]:
    """The roles whose server is a member of etcd; empty while the API doesn't answer."""
    said = asked(clone, "get", "nodes", f"--selector={ETCD}=true", "--output=name") or ""
    return {role_of(line.removeprefix("node/")) for line in said.split()}


def lease_holder(clone: Clone) -> str:
    """The holder of the cloud-controller-manager's lease; empty without one."""
    lease = clone.kubectl("-n", "kube-system", "get", "lease", "cloud-controller-manager")
    return lease["spec"].get("holderIdentity") or ""


def kubelets(clone: Clone) -> dict[str, str]:
    """The versions of the Nodes' kubelets, such as ``v1.36.3``, by the names of the Nodes."""
    return {name: node["status"]["nodeInfo"]["kubeletVersion"] for name, node in clone.nodes().items()}


def ready(clone: Clone) -> bool:
    """Whether every server is a Node of its own that is ready and initialized."""
    said = asked(clone, "get", "namespaces")
    if said is None:
        return False
    nodes = clone.nodes()
    states = [node_state(node) for node in nodes.values()]
    known = provider_ids(nodes) == clone.server_ids()
    return known and all(state.ready and state.initialized for state in states)


def in_cloud(clone: Clone) -> list[CloudObject]:
    """Everything in the clone's cloud that does not go with something else."""
    return leftovers.in_cloud(clone.site)


def address_of(clone: Clone, role: str) -> str:
    """The public IPv4 address of a server; empty where there is none."""
    server = clone.servers().get(role, {})
    return ((server.get("public_net") or {}).get("ipv4") or {}).get("ip") or ""


def shell(clone: Clone, role: str, command: str, seconds: float = 60.0) -> str | None:
    """Run a command on a server as root, and return what it printed; None where that failed."""
    address = address_of(clone, role)
    if not address:
        return None
    words = [*ssh(clone.site, Way(address)), command]
    try:
        done = child_processes.run(words, stdin=subprocess.DEVNULL, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None


def etcd_members(clone: Clone, role: str) -> list[str]:
    """The roles of the members of etcd, as a control server's etcd says it; none where it says nothing."""
    said = shell(clone, role, f"{_ASK_ETCD}/v3/cluster/member/list -d '{{}}'")
    members = json.loads(said or "{}").get("members", [])
    # k3s calls a member after its Node, a hyphen and some letters
    return [role_of(member.get("name", "").rpartition("-")[0]) for member in members]


def etcd_healthy(clone: Clone, role: str) -> bool:
    said = shell(clone, role, f"{_ASK_ETCD}/health")
    return bool(said) and json.loads(said or "{}").get("health") == "true"
