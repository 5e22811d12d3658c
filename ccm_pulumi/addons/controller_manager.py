"""Our cloud-controller-manager in the cluster: its Secret, its permissions, its Deployment."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import yaml

from ..config.settings import Settings
from ..lib.files import PACKAGE
from ..lib.kubernetes_object import KubernetesObject
from ..lib.service_accounts import rolled_with

FOLDER = PACKAGE / "manifests"
SECRET = "hcloud"  # noqa: S105 (its name)
NAMESPACE = "kube-system"
FIELD_MANAGER = "ccm-from-scratch"
_SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Manifest = dict[str, Any]


@dataclass(frozen=True)
class ControllerManagerArgs:
    """The CCM's inputs; without an ``image`` nothing is deployed. ``imported`` make the image available."""

    settings: Settings
    token: pulumi.Input[str]
    network_id: pulumi.Input[str]
    image: pulumi.Input[str] | None
    imported: Sequence[pulumi.Resource] = ()


class ControllerManager(pulumi.ComponentResource):
    """The objects of manifests/, fitted to this cluster, and the Secret with the cloud's token."""

    def __init__(
        self,
        name: str,
        arguments: ControllerManagerArgs,
        in_cluster: pulumi.ResourceOptions,
        prefix: str = "",
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declares the objects; ``prefix`` begins their names, which several components must not share."""
        super().__init__("ccm-from-scratch:index:ControllerManager", name, None, opts)
        self._prefix = prefix
        self._in_cluster = pulumi.ResourceOptions.merge(in_cluster, pulumi.ResourceOptions(parent=self))
        secret = self._secret(name, arguments)
        manifests = read_manifests()
        account = self._object(next(item for item in manifests if item["kind"] == "ServiceAccount"))
        rights = [item for item in manifests if item["kind"] not in ("Deployment", "ServiceAccount")]
        permissions = [account, *map(self._object, rights)]
        after = pulumi.ResourceOptions(
            depends_on=[secret, *permissions, *arguments.imported],
            custom_timeouts=pulumi.CustomTimeouts(create="3m", update="3m"),
        )
        # available once nodes can be initialized; empty when the program runs elsewhere
        self.deployments = [
            self._object({**deployment, "spec": rolled_with(account, deployment["spec"])}, after)
            for item in manifests
            if item["kind"] == "Deployment" and arguments.image is not None
            for deployment in [deployment_of(item, arguments)]
        ]
        self.register_outputs({"image": arguments.image})

    def _secret(self, name: str, arguments: ControllerManagerArgs) -> pulumi.Resource:
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": NAMESPACE},
            "stringData": {"token": pulumi.Output.secret(arguments.token), "network": arguments.network_id},
        }
        return KubernetesObject(f"{name}-credentials", manifest, self._in_cluster)

    def _object(self, manifest: Manifest, more: pulumi.ResourceOptions | None = None) -> KubernetesObject:
        options = pulumi.ResourceOptions.merge(self._in_cluster, more or pulumi.ResourceOptions())
        return KubernetesObject(self._prefix + identity(manifest), manifest, options)


def deployment_of(manifest: Manifest, arguments: ControllerManagerArgs) -> Manifest:
    """The Deployment for this cluster.

    Its fields belong to a field manager with a fixed name, not with a random name that only the state has. So
    a run without that state can still remove a field, such as a variable.
    https://www.pulumi.com/registry/packages/kubernetes/how-to-guides/managing-resources-with-server-side-apply/
    """
    result = fitted(manifest, flags(arguments.settings), environment(arguments.settings))
    result["metadata"].setdefault("annotations", {})["pulumi.com/patchFieldManager"] = FIELD_MANAGER
    pod = result["spec"]["template"]["spec"]
    pod["containers"][0]["image"] = arguments.image
    if arguments.settings.control_count > 1:
        # as in the chart: the replica that waits for the lease runs on another node
        result["spec"]["replicas"] = 2
        pod["affinity"]["podAntiAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": result["spec"]["selector"]}
            ]
        }
    return result


def flags(settings: Settings) -> Sequence[str]:
    """Flags that differ between clusters."""
    return [
        f"--cloud-provider={settings.cloud_provider_name}",
        f"--cluster-name={settings.cluster_name}",
        f"--cluster-cidr={settings.cluster_cidr}",
    ]


def environment(settings: Settings) -> dict[str, str]:
    """Environment variables that differ between clusters."""
    variables = {
        # a label on every load balancer: several clusters may share a project
        "CCM_CLUSTER_ID": settings.cluster_name,
        "HCLOUD_LOAD_BALANCERS_LOCATION": settings.location,
        "HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP": "true",
    }
    if settings.hcloud_endpoint:
        variables["HCLOUD_ENDPOINT"] = settings.hcloud_endpoint
    return variables


def read_manifests(folder: Path = FOLDER) -> list[Manifest]:
    """All objects in the folder's YAML files, without its subfolders, in the order of the files' names."""
    return [
        item
        for path in sorted(folder.glob("*.yaml"))
        for item in yaml.load_all(path.read_text(), _SAFE_LOADER)
        if item
    ]


def identity(manifest: Manifest) -> str:
    """A name for the object that no other one has: kind and name, such as ``role-ccm-from-scratch``."""
    return f"{manifest['kind'].lower()}-{manifest['metadata']['name'].replace(':', '-')}"


def fitted(deployment: Manifest, arguments: Sequence[str], environment: Mapping[str, str]) -> Manifest:
    """A copy of the Deployment with these flags (``--name=value``) and environment variables. Each replaces
    the one with its name, or is added.
    """
    result = copy.deepcopy(deployment)
    container = result["spec"]["template"]["spec"]["containers"][0]
    container["args"] = merged_arguments(container.get("args", []), arguments)
    kept = [variable for variable in container.get("env", []) if variable["name"] not in environment]
    container["env"] = kept + [{"name": name, "value": value} for name, value in environment.items()]
    return result


def merged_arguments(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Flags by name: the new one takes the old one's place."""
    flags = {argument.partition("=")[0]: argument for argument in old}
    flags.update({argument.partition("=")[0]: argument for argument in new})
    return list(flags.values())
