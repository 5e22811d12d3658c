"""Projects, a cloud and a control plane for the Pulumi CLI."""

from tests.pulumi_cloud import cloud, hetzner, lab, slow_cloud

__all__ = ["cloud", "hetzner", "lab", "slow_cloud"]
