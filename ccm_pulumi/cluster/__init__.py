"""k3s on the servers: installation, etcd membership, upgrades, and the network of Pods."""

from ..former_providers import finder

__getattr__ = finder(__name__)
