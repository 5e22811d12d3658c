"""Locks for changes of load balancers, for each Service and each shared load balancer."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from ccm.cloud import ServiceView
from ccm.hetzner.load_balancers.cache import Inventory
from ccm.hetzner.load_balancers.ownership_labels import SHARE as SHARE_LABEL
from ccm.hetzner.load_balancers.service_annotations import SHARE


class ServiceLocks:
    """A lock for each Service, and for each value of the annotation ``share``."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, service: ServiceView) -> AsyncGenerator[None, None]:
        """Hold the locks of a Service, of its current share, and of its requested share.

        The locks of shares follow the Service's lock in alphabetical order, which prevents deadlocks. Raises
        CloudError if the list of load balancers can't be read.
        """
        async with self._lock(service.uid), AsyncExitStack() as held:
            balancers = self._inventory.balancers
            if balancers.age is None:
                await self._inventory.all(service)
            shares = {service.annotations.get(SHARE, "").strip()} | {
                balancer.labels.get(SHARE_LABEL, "")
                for balancer in balancers.contents.by_id.values()
                if service.uid in balancer.labels.values()
            }
            for share in sorted(shares - {""}):
                await held.enter_async_context(self._lock(f"share {share}"))
            yield

    def _lock(self, key: str) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())
