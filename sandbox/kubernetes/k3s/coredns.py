"""The addon CoreDNS: the cluster's DNS, as objects for server-side apply."""

from __future__ import annotations

from typing import Any

from sandbox.kubernetes.k3s.versions import COREDNS_IMAGE

_LABELS = {"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"}
_META = {"name": "coredns", "namespace": "kube-system"}


def corefile(domain: str) -> str:
    """CoreDNS's configuration, k3s's own: with the Nodes' names, and what a ConfigMap coredns-custom brings.

    Args:
        domain: of the cluster.
    """
    return f""".:53 {{
    errors
    health
    ready
    kubernetes {domain} in-addr.arpa ip6.arpa {{
      pods insecure
      fallthrough in-addr.arpa ip6.arpa
    }}
    hosts /etc/coredns/NodeHosts {{
      ttl 60
      reload 15s
      fallthrough
    }}
    prometheus :9153
    forward . /etc/resolv.conf
    cache 30
    loop
    reload
    loadbalance
    import /etc/coredns/custom/*.override
}}
import /etc/coredns/custom/*.server
"""


def objects(address: str, domain: str) -> list[tuple[str, dict[str, Any]]]:
    """Path and content of each object, in the order of creation.

    Args:
        address: of the Service; the address that kubelets give to Pods.
        domain: of the cluster.
    """
    rbac, core = "/apis/rbac.authorization.k8s.io/v1", "/api/v1/namespaces/kube-system"
    return [
        (f"{core}/serviceaccounts/coredns", _object("v1", "ServiceAccount")),
        (f"{rbac}/clusterroles/system:coredns", _cluster_role()),
        (f"{rbac}/clusterrolebindings/system:coredns", _cluster_role_binding()),
        (f"{core}/configmaps/coredns", _object("v1", "ConfigMap", data={"Corefile": corefile(domain)})),
        ("/apis/apps/v1/namespaces/kube-system/deployments/coredns", _deployment()),
        (f"{core}/services/kube-dns", _service(address)),
    ]


def _object(version: str, kind: str, **rest: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {**_META, "labels": _LABELS}, **rest}


def _cluster_role() -> dict[str, Any]:
    watched = ["endpoints", "services", "pods", "namespaces"]
    rules = [
        {"apiGroups": [""], "resources": watched, "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    metadata = {"name": "system:coredns"}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": rules,
    }


def _cluster_role_binding() -> dict[str, Any]:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "system:coredns"},
        "roleRef": role,
        "subjects": [{"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}],
    }


def _service(address: str) -> dict[str, Any]:
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
        {"name": "metrics", "port": 9153, "protocol": "TCP"},
    ]
    spec = {"clusterIP": address, "selector": {"k8s-app": "kube-dns"}, "ports": ports}
    service = _object("v1", "Service", spec=spec)
    service["metadata"] = {**service["metadata"], "name": "kube-dns"}
    return service


def _deployment() -> dict[str, Any]:
    pod = {
        "serviceAccountName": "coredns",
        "priorityClassName": "system-cluster-critical",
        # Not the uninitialized taint: as on real servers, DNS waits for a cloud-controller-manager.
        "tolerations": [
            {"key": "CriticalAddonsOnly", "operator": "Exists"},
            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
        ],
        "dnsPolicy": "Default",
        "containers": [_container()],
        "volumes": [
            {"name": "config", "configMap": {"name": "coredns"}},
            {"name": "custom", "configMap": {"name": "coredns-custom", "optional": True}},
        ],
    }
    selector = {"k8s-app": "kube-dns"}
    template = {"metadata": {"labels": selector}, "spec": pod}
    spec = {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
        "selector": {"matchLabels": selector},
        "template": template,
    }
    return _object("apps/v1", "Deployment", spec=spec)


def _container() -> dict[str, Any]:
    return {
        "name": "coredns",
        "image": COREDNS_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "70Mi"}},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/coredns", "readOnly": True},
            {"name": "custom", "mountPath": "/etc/coredns/custom", "readOnly": True},
        ],
        "ports": [
            {"containerPort": 53, "name": "dns", "protocol": "UDP"},
            {"containerPort": 53, "name": "dns-tcp", "protocol": "TCP"},
            {"containerPort": 9153, "name": "metrics", "protocol": "TCP"},
        ],
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8080}, "initialDelaySeconds": 60},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 2},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
