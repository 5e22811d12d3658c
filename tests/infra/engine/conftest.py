"""Projects and a cloud for parts of the Pulumi program that the Pulumi CLI runs."""

from tests.pulumi_cloud import cloud, lab, slow_cloud

__all__ = ["cloud", "lab", "slow_cloud"]
