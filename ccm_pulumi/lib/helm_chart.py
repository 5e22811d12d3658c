"""Charts of Helm in the cluster; only the genuine Pulumi engine can install them."""

from __future__ import annotations

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
        """Installs it.

        Args:
            kind: Last part of the component's type.
            name: Of the component and of the release as resources.
            release: Arguments of the release.
            in_cluster: Where, and after what.
            opts: Of the component.
        """
        super().__init__(f"ccm-from-scratch:index:{kind}", name, None, opts)
        inside = pulumi.ResourceOptions.merge(in_cluster, pulumi.ResourceOptions(parent=self))
        kubernetes.helm.v3.Release(name, **release, opts=inside)
        self.register_outputs({})
