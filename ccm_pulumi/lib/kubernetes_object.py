"""Objects of Kubernetes as resources of Pulumi."""

from collections.abc import Mapping
from typing import Any

import pulumi

_SECRET = ["data", "stringData"]


class KubernetesObject(pulumi.CustomResource):
    """An object with the type and inputs of its class in ``pulumi_kubernetes``.

    The import of ``pulumi_kubernetes.core.v1`` takes as long as that of the rest of the program. The state is
    the same with both classes, so stacks of earlier versions keep their resources.
    """

    metadata: pulumi.Output[Mapping[str, Any]]

    def __init__(self, name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        """Declares the object; ``manifest`` has the fields of the API, and ``opts`` the provider."""
        group, _, version = manifest["apiVersion"].rpartition("/")
        content = {**manifest, "metadata": dict(manifest["metadata"])}
        if manifest["kind"] == "Secret":
            content |= {field: pulumi.Output.secret(content[field]) for field in _SECRET if field in content}
            secret = pulumi.ResourceOptions(additional_secret_outputs=_SECRET)
            opts = pulumi.ResourceOptions.merge(opts, secret)
        super().__init__(f"kubernetes:{group or 'core'}/{version}:{manifest['kind']}", name, content, opts)
