"""kured, which reboots servers that need it: one after the other, drained, and within a window.

Its flags are those of https://github.com/kubereboot/kured/blob/main/cmd/kured/main.go, and they are all named
here, also where kured has the value by itself: its defaults are not the same in all versions. What it may do,
and how it looks for the file that says that a reboot is needed, is as in its own kured-rbac.yaml and
kured-ds.yaml.
"""

from collections.abc import Sequence
from typing import Any

import pulumi

from ..cluster.drain import EXCLUDED
from ..config.reboot_window import RebootWindow
from ..lib.kubernetes_object import KubernetesObject
from ..lib.service_accounts import account_with_rights, rolled_with

KURED = "kured"
NAMESPACE = "kube-system"
LOCK = "weave.works/kured-node-lock"
"""Annotation of kured's DaemonSet. Its value names the Node that holds the lock and may reboot."""

_SENTINEL = "/sentinel"


def arguments(window: RebootWindow, drain_seconds: int) -> list[str]:
    """The command line. ``drain_seconds`` is at least 1: for kured, 0 is forever."""
    return [
        "/usr/bin/kured",
        f"--reboot-sentinel={_SENTINEL}/reboot-required",
        f"--reboot-days={','.join(window.days)}",
        f"--start-time={window.start}",
        f"--end-time={window.end}",
        f"--time-zone={window.time_zone}",
        "--period=5m",
        f"--drain-timeout={drain_seconds}s",
        # time until load balancers stop sending to the server, and until they find it healthy afterwards
        "--reboot-delay=30s",
        "--lock-release-delay=2m",
        # kured can't remove a label; to the cloud-controller-manager, false is the same as no label
        f"--pre-reboot-node-labels={EXCLUDED}=rebooting",
        f"--post-reboot-node-labels={EXCLUDED}=false",
        f"--ds-namespace={NAMESPACE}",
        f"--ds-name={KURED}",
        f"--lock-annotation={LOCK}",
        "--concurrency=1",
        # it does not expire: a server that is not back blocks the reboots of the others
        "--lock-ttl=0",
    ]


def daemon_set(image: str, window: RebootWindow, drain_seconds: int) -> dict[str, Any]:
    """Spec of the DaemonSet."""
    labels = {"app": KURED}
    node = {"name": "KURED_NODE_ID", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    container = {
        "name": KURED,
        "image": image,
        "command": arguments(window, drain_seconds),
        "env": [node],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        # it enters the server's own namespaces to reboot it
        "securityContext": {"privileged": True, "readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": "sentinel", "mountPath": _SENTINEL, "readOnly": True}],
    }
    return {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "serviceAccountName": KURED,
                # control servers and workers of pools with taints need upgrades, too
                "tolerations": [{"operator": "Exists"}],
                "hostPID": True,
                "containers": [container],
                "volumes": [{"name": "sentinel", "hostPath": {"path": "/var/run", "type": "Directory"}}],
            },
        },
    }


class Kured(pulumi.ComponentResource):
    """kured in a cluster."""

    def __init__(
        self,
        name: str,
        image: str,
        window: RebootWindow,
        *,
        drain_seconds: int,
        in_cluster: pulumi.ResourceOptions,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ccm-from-scratch:index:Kured", name, None, opts)
        mine = pulumi.ResourceOptions(parent=self, depends_on=[*after])
        here = pulumi.ResourceOptions.merge(in_cluster, mine)
        permissions = account_with_rights(name, _metadata(), _RULES, _RULES_AT_HOME, here)
        permissions += _on_its_own_node(name, here)
        manifest = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            # the run does not wait for it: the cluster works without it
            "metadata": {**_metadata(), "annotations": {"pulumi.com/skipAwait": "true"}},
            "spec": rolled_with(permissions[0], daemon_set(image, window, drain_seconds)),
        }
        after_them = pulumi.ResourceOptions(depends_on=permissions)
        KubernetesObject(name, manifest, pulumi.ResourceOptions.merge(here, after_them))
        self.register_outputs({})


def _on_its_own_node(name: str, options: pulumi.ResourceOptions) -> list[KubernetesObject]:
    """Declares what keeps the account to the Node that its token is bound to, as in Kubernetes' own example
    (https://github.com/kubernetes/kubernetes/pull/124711).

    Every node has the account's token. Without this, root on a node could make it look like a control server,
    and get the Pods of control servers. An eviction doesn't name its Pod's node, so evictions aren't checked.
    """
    kinds = {
        "ValidatingAdmissionPolicy": policy(),
        "ValidatingAdmissionPolicyBinding": {"policyName": KURED, "validationActions": ["Deny"]},
    }
    about = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": KURED}}
    return [
        KubernetesObject(name, {**about, "kind": kind, "spec": spec}, options) for kind, spec in kinds.items()
    ]


def policy() -> dict[str, Any]:
    """Spec of the ValidatingAdmissionPolicy: which changes of Nodes and deletions of Pods are allowed."""
    account = f"system:serviceaccount:{NAMESPACE}:{KURED}"
    bound = "authentication.kubernetes.io/node-name"

    def resources(resource: str, operation: str) -> dict[str, Any]:
        return {"apiGroups": [""], "apiVersions": ["*"], "resources": [resource], "operations": [operation]}

    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [resources("nodes", "UPDATE"), resources("pods", "DELETE")]},
        "matchConditions": [{"name": "by-kured", "expression": f"request.userInfo.username == '{account}'"}],
        "variables": [
            {"name": "own", "expression": f"request.userInfo.?extra['{bound}'].orValue(['']).join(',')"},
            {
                "name": "there",
                "expression": "request.resource.resource == 'nodes' ? request.name : "
                "oldObject.spec.?nodeName.orValue('')",
            },
            {"name": "before", "expression": "oldObject.metadata.?labels.orValue({})"},
            {
                "name": "after",
                "expression": "request.operation == 'DELETE' ? {} : object.metadata.?labels.orValue({})",
            },
        ],
        "validations": [
            {
                "expression": "variables.own != '' && variables.there == variables.own",
                "message": "kured may change only its own Node, and delete only Pods on that Node",
            },
            {
                "expression": "request.operation == 'DELETE' || "
                "(object.spec.?taints.orValue([]) == oldObject.spec.?taints.orValue([]) && "
                f"variables.after.all(key, key == '{EXCLUDED}' || "
                "(key in variables.before && variables.before[key] == variables.after[key])) && "
                f"variables.before.all(key, key == '{EXCLUDED}' || key in variables.after))",
                "message": f"kured must not change a Node's labels and taints, except the label {EXCLUDED}",
            },
        ],
    }


def _metadata() -> dict[str, Any]:
    return {"name": KURED, "namespace": NAMESPACE}


_RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "delete"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]},
]
_RULES_AT_HOME = [
    {
        "apiGroups": ["apps"],
        "resources": ["daemonsets"],
        "resourceNames": [KURED],
        "verbs": ["update", "patch"],
    }
]
