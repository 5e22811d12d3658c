"""What the cluster of this site says, asked with kubectl."""

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.errors import SandboxError
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.site import Site

UNINITIALIZED_TAINT = "node.cloudprovider.kubernetes.io/uninitialized"
CCM = "ccm-from-scratch"
"""The name of our Deployment in kube-system, and the value of the label ``LABEL`` of its Pods."""
LABEL = "app.kubernetes.io/name"
POLL_SECONDS = 0.2
CALL_SECONDS = 20
DELETE_SECONDS = 60


@dataclass(frozen=True)
class NodeState:
    """What a person wants to know of a node."""

    name: str
    ready: bool
    initialized: bool
    provider_id: str
    internal_ip: str
    external_ip: str
    region: str
    zone: str
    instance_type: str
    pod_cidr: str


def node_state(node: Mapping[str, Any]) -> NodeState:
    """Read a Node object as the API server gives it."""
    meta, spec, status = node["metadata"], node.get("spec", {}), node.get("status", {})
    labels = meta.get("labels", {})
    addresses = {a["type"]: a["address"] for a in reversed(status.get("addresses", []))}
    conditions = {c["type"]: c["status"] for c in status.get("conditions", [])}
    return NodeState(
        name=meta["name"],
        ready=conditions.get("Ready") == "True",
        initialized=bool(spec.get("providerID"))
        and all(t["key"] != UNINITIALIZED_TAINT for t in spec.get("taints", [])),
        provider_id=spec.get("providerID", ""),
        internal_ip=addresses.get("InternalIP", ""),
        external_ip=addresses.get("ExternalIP", ""),
        region=labels.get("topology.kubernetes.io/region", ""),
        zone=labels.get("topology.kubernetes.io/zone", ""),
        instance_type=labels.get("node.kubernetes.io/instance-type", ""),
        pod_cidr=spec.get("podCIDR", ""),
    )


def kubectl(site: Site, toolchain: Toolchain, arguments: Sequence[str]) -> list[str]:
    """The command line of kubectl for this site's cluster."""
    if not site.kubeconfig.exists():
        raise SandboxError(
            f"{site.kubeconfig.name} doesn't exist, because the cluster is not running. Start it with "
            "'./dev up'"
        )
    return [str(toolchain.bin / "kubectl"), f"--kubeconfig={site.kubeconfig}", *arguments]


def get(site: Site, toolchain: Toolchain, *what: str) -> list[dict[str, Any]]:
    """Objects of the cluster, e.g. ``get(site, toolchain, "nodes")``."""
    command = ["get", *what, "--output=json", f"--request-timeout={CALL_SECONDS}s"]
    return json.loads(ask(site, toolchain, command, "the cluster does not answer"))["items"]


def ask(
    site: Site,
    toolchain: Toolchain,
    arguments: Sequence[str],
    problem: str,
    *,
    seconds: float = CALL_SECONDS,
) -> str:
    """Run kubectl for this site's cluster; what it prints."""
    command = kubectl(site, toolchain, arguments)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds * 2)
    except subprocess.TimeoutExpired:
        raise SandboxError(f"{problem}: kubectl didn't finish within {seconds * 2:g} s") from None
    if done.returncode:
        raise SandboxError(f"{problem}: {done.stderr.strip()}")
    return done.stdout


def deployment(site: Site, toolchain: Toolchain) -> dict[str, Any]:
    """The CCM's Deployment."""
    found = get(
        site, toolchain, "deployments", "--namespace=kube-system", f"--field-selector=metadata.name={CCM}"
    )
    if not found:
        raise SandboxError(f"the cluster has no deployment/{CCM} in kube-system; './dev up' creates it")
    return found[0]


def ccm_pods(site: Site, toolchain: Toolchain) -> list[dict[str, Any]]:
    """The Pods of the CCM."""
    return get(site, toolchain, "pods", "--namespace=kube-system", f"--selector={LABEL}={CCM}")


def await_nodes(
    site: Site, toolchain: Toolchain, seconds: float, progress: Callable[[str], None]
) -> list[NodeState]:
    """Wait until every node is Ready and initialized."""
    deadline = time.monotonic() + seconds
    while True:
        nodes = [node_state(node) for node in get(site, toolchain, "nodes")]
        waiting = [n for n in nodes if not (n.ready and n.initialized)]
        if nodes and not waiting:
            return nodes
        if time.monotonic() > deadline:
            lacking = "; ".join(
                f"{n.name}: {'Ready' if n.ready else 'not Ready'}, "
                f"{'initialized' if n.initialized else 'not initialized by the CCM'}"
                for n in waiting
            )
            raise SandboxError(
                f"not ready after {seconds:.0f} s: {lacking or 'no node has joined'}. Logs of a server: "
                "'./dev ssh NAME journalctl -u k3s -u k3s-agent -n 50'; logs of the CCM: './dev logs'"
            )
        progress(", ".join(n.name for n in waiting) or "no node yet")
        time.sleep(POLL_SECONDS)


def delete_load_balancers(site: Site, toolchain: Toolchain) -> None:
    """Delete the Services of type LoadBalancer and wait until the CCM has removed their load balancers."""
    for service in get(site, toolchain, "services", "--all-namespaces"):
        if service["spec"].get("type") != "LoadBalancer":
            continue
        meta = service["metadata"]
        command = ["delete", "service", "--namespace", meta["namespace"], meta["name"], "--wait=true"]
        problem = f"service {meta['namespace']}/{meta['name']} stays"
        wait = [*command, f"--timeout={DELETE_SECONDS}s"]
        ask(site, toolchain, wait, problem, seconds=DELETE_SECONDS)
