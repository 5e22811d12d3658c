"""An account in the cluster for something that this program deploys there, and what it may do."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

_GROUP = "rbac.authorization.k8s.io"


def rolled_with(account: pulumi.Resource, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a Deployment or DaemonSet whose Pods are replaced when their ServiceAccount is a new one.

    A Pod's token belongs to a ServiceAccount with a certain UID. If another account gets the same name, the
    API server refuses the token (https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/).
    """
    assert isinstance(account, kubernetes.core.v1.ServiceAccount)
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
) -> list[pulumi.Resource]:
    """Declares a ServiceAccount with cluster-wide ``rules``, and ``rules_at_home`` for its namespace."""
    called, at_home = {"name": metadata["name"]}, dict(metadata)
    subjects = [{"kind": "ServiceAccount", **metadata}]
    return [
        kubernetes.core.v1.ServiceAccount(name, metadata=at_home, opts=options),
        kubernetes.rbac.v1.ClusterRole(name, metadata=called, rules=[*rules], opts=options),
        kubernetes.rbac.v1.ClusterRoleBinding(
            name,
            metadata=called,
            role_ref={"apiGroup": _GROUP, "kind": "ClusterRole", **called},
            subjects=subjects,
            opts=options,
        ),
        kubernetes.rbac.v1.Role(name, metadata=at_home, rules=[*rules_at_home], opts=options),
        kubernetes.rbac.v1.RoleBinding(
            name,
            metadata=at_home,
            role_ref={"apiGroup": _GROUP, "kind": "Role", **called},
            subjects=subjects,
            opts=options,
        ),
    ]
