"""The addon CoreDNS: the cluster's DNS, as objects for server-side apply."""

from __future__ import annotations

from importlib import resources
from typing import Any

import yaml

from sandbox.kubernetes.k3s.versions import COREDNS_IMAGE


def objects(address: str, domain: str) -> list[tuple[str, dict[str, Any]]]:
    """Path and content of each object, in the order of creation.

    Args:
        address: Of the Service; the address that kubelets give to Pods.
        domain: Of the cluster.
    """
    text = resources.files(__package__).joinpath("coredns.yaml").read_text()
    for name, value in {
        "CLUSTER_DNS": address,
        "CLUSTER_DOMAIN": domain,
        "COREDNS_IMAGE": COREDNS_IMAGE,
    }.items():
        text = text.replace(f"%{{{name}}}%", value)
    return [(_path(content), content) for content in yaml.safe_load_all(text)]


def _path(content: dict[str, Any]) -> str:
    version, metadata = content["apiVersion"], content["metadata"]
    group = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    namespace = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{group}{namespace}/{content['kind'].lower()}s/{metadata['name']}"
