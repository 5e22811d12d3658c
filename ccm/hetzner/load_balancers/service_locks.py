"""Locks for the work on load balancers: one Service at a time, also where several share a load balancer."""

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
        """Hold a Service's own lock, and those of the share that it is on and of the one that it asks for.

        The locks of shares are taken after the Service's own, in alphabetical order, so there is no deadlock.
        Raises CloudError if the list of load balancers could not be read.
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
