"""The flags of k3s."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..config.k3s import API_PORT, POD_SECURITY

NEVER = ("traefik", "servicelb")
"""k3s components that are always disabled. The cloud-controller-manager replaces servicelb."""

CONTROL_TAINT = "node-role.kubernetes.io/control-plane:NoSchedule"


@dataclass(frozen=True)
class Addresses:
    """A server's two addresses; the public one is empty where it has none."""

    public: str
    private: str


def addresses_of(props: Mapping[str, Any]) -> Addresses:
    """The addresses that the properties of a k3s resource name: it is reached at the public one, if any."""
    public = "" if props["address"] == props["private_ip"] else props["address"]
    return Addresses(public, props["private_ip"])


def server_flags(props: Mapping[str, Any]) -> list[str]:
    """Flags of ``k3s server``: cloud-controller-manager, load balancers, ingress and CNI are not k3s's own.

    By default k3s advertises the external address, which the firewall closes for workers. Their Pods need the
    private address of the API server. The state of an earlier version may lack some of ``props``.
    """
    at = addresses_of(props)
    admission = f"--kube-apiserver-arg=admission-control-config-file={POD_SECURITY}"
    return [
        "--disable-cloud-controller",
        f"--cluster-cidr={props['cluster_cidr']}",
        f"--service-cidr={props['service_cidr']}",
        f"--disable={','.join((*NEVER, *props['disable']))}",
        "--flannel-backend=none",
        # not beside a CNI that enforces policies itself
        *(() if props["network_policy"] else ("--disable-network-policy",)),
        f"--advertise-address={at.private}",
        # the addresses at which the Kubernetes API is reached, too
        *(f"--tls-san={name}" for name in (at.public, *(props.get("names") or ())) if name),
        *(f"--{name}={value}" for name, value in (props.get("snapshots") or {}).items()),
        *([admission] if props.get("pod_security") else []),
        # from its registration on
        *([f"--node-taint={CONTROL_TAINT}"] if props.get("tainted") else []),
        *node_flags(at),
    ]


def pod_security_configuration(level: str) -> str:
    """The API server's configuration of Pod Security admission, as
    https://kubernetes.io/docs/tasks/configure-pod-container/enforce-standards-admission-controller/ has it.

    The level is that of all namespaces whose labels say nothing else. What this program and k3s deploy is in
    kube-system, and partly privileged.
    """
    return f"""apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {{enforce: {level}, warn: {level}}}
    exemptions: {{namespaces: [kube-system]}}
"""


def member_flags(join: str) -> list[str]:
    """Flags of an etcd member: ``join`` is the server to join; without it, SQLite data migrates to etcd."""
    return [f"--server=https://{join}:{API_PORT}" if join else "--cluster-init"]


def node_flags(at: Addresses) -> list[str]:
    """Flags of every node: its addresses, and the taint until the cloud-controller-manager knows it."""
    return [
        "--kubelet-arg=cloud-provider=external",
        f"--node-ip={at.private}",
        *([f"--node-external-ip={at.public}"] if at.public else []),
    ]


def pool_flags(labels: Mapping[str, str], taints: Sequence[str]) -> list[str]:
    """Flags for the labels and taints with which an agent's Node begins; k3s never removes any of these."""
    return [
        *(f"--node-label={name}={value}" for name, value in sorted(labels.items())),
        *(f"--node-taint={taint}" for taint in taints),
    ]
