"""Projects and a cloud for parts of the Pulumi program that the Pulumi CLI runs."""

from tests.sandbox.engine.conftest import cloud, lab, slow_cloud

__all__ = ["cloud", "lab", "slow_cloud"]
