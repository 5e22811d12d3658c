"""Hetzner Cloud, and Robot, as a cloud for Kubernetes."""

from ccm.hetzner.cloud import HetznerCloud, open_cloud

__all__ = ["HetznerCloud", "open_cloud"]
