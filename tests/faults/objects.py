"""Kubernetes objects as people and kubelets make them."""

from collections.abc import Mapping, Sequence
from typing import Any

from ccm.hetzner.load_balancers.service_annotations import PREFIX

UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
NODES = "/api/v1/nodes"
SERVICES = "/api/v1/namespaces/shop/services"
SCHEME = "ccm-from-scratch://"
CLUSTER_CIDR = "10.244.0.0/16"


def pod_cidr(number: int) -> str:
    return f"10.244.{number}.0/24"


def node(name: str, number: int, server: int | None, *, ready: bool = True) -> dict[str, Any]:
    """A Node; without a server it is as the kubelet registers it, for the CCM to initialize."""
    spec: dict[str, Any] = {"podCIDR": pod_cidr(number), "podCIDRs": [pod_cidr(number)]}
    if server is None:
        spec["taints"] = [{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]
    else:
        spec["providerID"] = f"{SCHEME}{server}"
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": conditions}}


def service(
    name: str, ports: Sequence[int], annotations: Mapping[str, str], uid: str | None = None
) -> dict[str, Any]:
    """A Service of type LoadBalancer; annotations without their prefix."""
    wire = [{"name": f"p{port}", "port": port, "nodePort": 30000 + port, "protocol": "TCP"} for port in ports]
    prefixed = {PREFIX + key: value for key, value in annotations.items()}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "annotations": prefixed, **({"uid": uid} if uid else {})},
        "spec": {"type": "LoadBalancer", "ports": wire},
    }
