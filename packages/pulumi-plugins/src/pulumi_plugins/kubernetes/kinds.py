"""Namespaced kinds, their paths, and fields that can't be changed. Pure tables."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ApiResource:
    """Where the API serves a kind."""

    group_version: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None, name: str | None = None) -> str:
        """The URL path of the collection, or of one object."""
        prefix = "/apis/" if "/" in self.group_version else "/api/"
        middle = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{prefix}{self.group_version}{middle}/{self.plural}" + (f"/{name}" if name else "")


# Kinds that every cluster has.
_NAMESPACED = {
    "v1": "ConfigMap Event LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController "
    "ResourceQuota Secret Service ServiceAccount",
    "apps/v1": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "batch/v1": "CronJob Job",
    "networking.k8s.io/v1": "Ingress NetworkPolicy",
    "policy/v1": "PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1": "Role RoleBinding",
    "coordination.k8s.io/v1": "Lease",
    "discovery.k8s.io/v1": "EndpointSlice",
    "autoscaling/v2": "HorizontalPodAutoscaler",
}
_CLUSTER = {
    "v1": "Namespace Node PersistentVolume",
    "rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding",
    "storage.k8s.io/v1": "StorageClass CSIDriver CSINode VolumeAttachment",
    "scheduling.k8s.io/v1": "PriorityClass",
    "networking.k8s.io/v1": "IngressClass",
    "node.k8s.io/v1": "RuntimeClass",
    "apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "apiregistration.k8s.io/v1": "APIService",
    "admissionregistration.k8s.io/v1": "MutatingWebhookConfiguration ValidatingWebhookConfiguration "
    "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding",
}


def _plural(kind: str) -> str:
    lower = kind.lower()
    if lower.endswith("y"):
        return lower[:-1] + "ies"
    return lower + ("es" if lower.endswith(("s", "x", "ch")) else "s")


KINDS = {
    (version, kind): ApiResource(version, _plural(kind), namespaced)
    for kinds, namespaced in ((_NAMESPACED, True), (_CLUSTER, False))
    for version, names in kinds.items()
    for kind in names.split()
}

IDENTITY = frozenset({"kind", "metadata.name", "metadata.namespace"})
_REPLACES = {
    "ConfigMap": "data binaryData immutable",
    "Secret": "data type immutable",
    "Deployment": "spec.selector",
    "DaemonSet": "spec.selector",
    "ReplicaSet": "spec.selector",
    "StatefulSet": "spec.selector spec.serviceName spec.podManagementPolicy spec.volumeClaimTemplates",
    "Job": "spec.selector spec.template spec.completions spec.completionMode",
    "Pod": "spec",
    "RoleBinding": "roleRef",
    "ClusterRoleBinding": "roleRef",
    "StorageClass": "provisioner parameters reclaimPolicy volumeBindingMode",
    "PersistentVolumeClaim": "spec.accessModes spec.storageClassName spec.volumeName spec.selector",
    "IngressClass": "spec.controller",
    "PriorityClass": "value",
    "RuntimeClass": "handler",
}


def replacing_paths(kind: str) -> tuple[str, ...]:
    """Paths of a kind that need a new object to change."""
    return (*sorted(IDENTITY), *_REPLACES.get(kind, "").split())
