"""The Hetzner Cloud API: requests within the rate limit, complete lists, and shared caches of lists."""

# ruff: noqa: E402 - lazy_package_init must come before the imports that bring the package.

from ccm.startup import lazy_package_init

# This package guesses the encoding of texts, but we only read JSON.
lazy_package_init("charset_normalizer")

from ccm.hetzner.api.api_metrics import ApiMetrics
from ccm.hetzner.api.budget import Budget, Priority, QuotaUsedUp
from ccm.hetzner.api.client import HetznerApi, convert
from ccm.hetzner.api.list_cache import Contents, ListCache, cache_of
from ccm.hetzner.api.listing import Listing, UndecodableItem

__all__ = [
    "ApiMetrics",
    "Budget",
    "Contents",
    "HetznerApi",
    "ListCache",
    "Listing",
    "Priority",
    "QuotaUsedUp",
    "UndecodableItem",
    "cache_of",
    "convert",
]
