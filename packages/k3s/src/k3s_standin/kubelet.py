"""Configurations and command lines of kubelet and kube-proxy."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k3s_standin import paths
from k3s_standin.control_plane import arguments
from k3s_standin.options import NodeOptions


@dataclass(frozen=True)
class ClusterFacts:
    """What agents receive about the cluster."""

    cluster_cidr: str
    cluster_dns: str
    cluster_domain: str
    cloud_controller: bool
    kube_proxy: bool
    flannel: bool
    network_policy: bool


def kubelet_config(facts: ClusterFacts, reserved: Mapping[str, str]) -> dict[str, Any]:
    """The KubeletConfiguration."""
    return {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(paths.AGENT / "client-ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "clusterDNS": facts.cluster_dns.split(","),
        "clusterDomain": facts.cluster_domain,
        "containerRuntimeEndpoint": f"unix://{paths.CONTAINERD_SOCKET}",
        # A machine's disk is the host's, so its fill level says nothing about the machine.
        "evictionHard": dict.fromkeys(("nodefs.available", "nodefs.inodesFree", "imagefs.available"), "0%"),
        "imageGCHighThresholdPercent": 100,
        "failCgroupV1": False,
        "failSwapOn": False,
        # The kernel's settings are the host's and must not change.
        "protectKernelDefaults": True,
        "systemReserved": dict(reserved),
        "rotateCertificates": False,
        "tlsCertFile": str(paths.AGENT / "serving-kubelet.crt"),
        "tlsPrivateKeyFile": str(paths.AGENT / "serving-kubelet.key"),
    }


def kubelet_command(node: NodeOptions, facts: ClusterFacts, config: Path, kubeconfig: Path) -> list[str]:
    """The kubelet's command line; the user's flags win."""
    flags = {"config": str(config), "kubeconfig": str(kubeconfig), "hostname-override": node.node_name}
    if node.node_ips:
        flags["node-ip"] = ",".join(node.node_ips)
    if node.labels:
        flags["node-labels"] = ",".join(node.labels)
    if node.taints:
        flags["register-with-taints"] = ",".join(node.taints)
    if node.resolv_conf:
        flags["resolv-conf"] = node.resolv_conf
    if facts.cloud_controller:
        # k3s's own cloud controller would set this ID; the stand-in has none.
        flags["provider-id"] = f"k3s://{node.node_name}"
    return ["kubelet", *arguments({**flags, **node.kubelet})]


def proxy_config(node: NodeOptions, facts: ClusterFacts, kubeconfig: Path) -> dict[str, Any]:
    """The KubeProxyConfiguration: as k3s's, with iptables, so that node ports answer on every address.

    k3s keeps the kernel's timeouts of connection tracking. Here they are Kubernetes' defaults, which its
    tests expect. The size of the table is the host's and must not change.
    """
    return {
        "kind": "KubeProxyConfiguration",
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "mode": "iptables",
        "healthzBindAddress": "127.0.0.1:10256",
        "clusterCIDR": facts.cluster_cidr,
        "hostnameOverride": node.node_name,
        "conntrack": {"maxPerCore": 0, "min": 0},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
    }


def proxy_command(node: NodeOptions, config: Path) -> list[str]:
    """Kube-proxy's command line; the user's flags win."""
    return ["kube-proxy", *arguments({"config": str(config), **node.kube_proxy})]
