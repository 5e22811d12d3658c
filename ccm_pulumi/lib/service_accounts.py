"""An account in the cluster for something that this program deploys there, and what it may do."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from .kubernetes_object import KubernetesObject

_GROUP = "rbac.authorization.k8s.io"


def rolled_with(account: KubernetesObject, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a Deployment or DaemonSet whose Pods are replaced when their ServiceAccount is a new one.

    A Pod's token belongs to a ServiceAccount with a certain UID. If another account gets the same name, the
    API server refuses the token (https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/).
    """
    uid = account.metadata.apply(lambda metadata: metadata.get("uid"))
    template = dict(spec["template"])
    metadata = dict(template["metadata"])
    annotations = {**metadata.get("annotations", {}), "ccm-from-scratch.local/service-account": uid}
    return {**spec, "template": {**template, "metadata": {**metadata, "annotations": annotations}}}


def account_with_rights(
    name: str,
    metadata: Mapping[str, str],
    rules: Sequence[Mapping[str, Any]],
    rules_at_home: Sequence[Mapping[str, Any]],
    options: pulumi.ResourceOptions,
) -> list[KubernetesObject]:
    """Declares a ServiceAccount with cluster-wide ``rules``, and ``rules_at_home`` for its namespace."""
    called, at_home = {"name": metadata["name"]}, dict(metadata)
    subjects = [{"kind": "ServiceAccount", **metadata}]

    def declared(kind: str, metadata: Mapping[str, str], **more: Any) -> KubernetesObject:
        manifest = {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": metadata, **more}
        return KubernetesObject(name, manifest, options)

    def bound(role: str) -> dict[str, Any]:
        return {"roleRef": {"apiGroup": _GROUP, "kind": role, **called}, "subjects": subjects}

    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": at_home}
    return [
        KubernetesObject(name, account, options),
        declared("ClusterRole", called, rules=[*rules]),
        declared("ClusterRoleBinding", called, **bound("ClusterRole")),
        declared("Role", at_home, rules=[*rules_at_home]),
        declared("RoleBinding", at_home, **bound("Role")),
    ]
