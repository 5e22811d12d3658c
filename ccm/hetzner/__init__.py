"""The cloud implementation for Hetzner Cloud and Robot."""

from ccm.hetzner.cloud import HetznerCloud, open_cloud

__all__ = ["HetznerCloud", "open_cloud"]
