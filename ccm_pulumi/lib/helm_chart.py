"""Charts of Helm in the cluster; only the genuine Pulumi engine can install them."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes


class Chart(pulumi.ComponentResource):
    """One release of a chart."""

    def __init__(
        self,
        kind: str,
        name: str,
        release: Mapping[str, Any],
        in_cluster: pulumi.ResourceOptions,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Installs it; ``kind`` is the last part of the component's type."""
        super().__init__(f"ccm-from-scratch:index:{kind}", name, None, opts)
        inside = pulumi.ResourceOptions.merge(in_cluster, pulumi.ResourceOptions(parent=self))
        kubernetes.helm.v3.Release(name, **release, opts=inside)
        self.register_outputs({})
