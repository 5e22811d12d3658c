"""The caches that all Services share: lists of the project's resources, and data from earlier syncs."""

from ccm.hetzner.load_balancers.cache.catalogue import ObservedAddresses
from ccm.hetzner.load_balancers.cache.certificate_cache import ObservedCertificates
from ccm.hetzner.load_balancers.cache.inventory import JUST_NOW, LIST_AGE, PATH, Inventory
from ccm.hetzner.load_balancers.cache.shared_cache import SharedCache

__all__ = [
    "JUST_NOW",
    "LIST_AGE",
    "PATH",
    "Inventory",
    "ObservedAddresses",
    "ObservedCertificates",
    "SharedCache",
]
