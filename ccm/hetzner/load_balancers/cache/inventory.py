"""The project's load balancers: one shared list, and data from earlier syncs."""

import asyncio
from collections.abc import Awaitable, Callable, Collection

from ccm.cloud import AccessDenied, Notice, Rejected, ServiceView
from ccm.cloud.cloud import MASS_DELETION_BREAKER_OFF
from ccm.hetzner.api import HetznerApi, Priority, cache_of
from ccm.hetzner.api.api_errors import NotFound, unavailable
from ccm.hetzner.api.models import LoadBalancer
from ccm.hetzner.load_balancers.metrics import LoadBalancerMetrics
from ccm.hetzner.load_balancers.ownership_labels import used_by
from ccm.hetzner.project import Project

PATH = "/load_balancers"
LIST_AGE = 30.0  # maximum age of the list in seconds
JUST_NOW = 1.0


class Inventory:
    """The list of the project's load balancers for all Services, and data from earlier syncs."""

    def __init__(self, api: HetznerApi, project: Project, metrics: LoadBalancerMetrics) -> None:
        self.api = api
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self.project = project
        self._metrics = metrics
        self._vanished = ""
        self.balancers = cache_of(api, "load_balancers", LoadBalancer)
        # UIDs of Services whose last sync failed: the next sync of one of them reads a fresh list
        self.invalid: set[str] = set()
        self._seen: dict[str, int] = {}
        self._released: set[str] = set()
        # by UID of a Service, the settings and the fields of ports that its annotations set at its last
        # complete sync
        self.annotated: dict[str, tuple[frozenset[str], frozenset[str]]] = {}

    async def all(self, service: ServiceView, age: float = LIST_AGE) -> list[LoadBalancer]:
        """All load balancers, at most ``age`` seconds old. Raises Unavailable if one can't be decoded."""
        age = 0.0 if service.uid in self.invalid else age
        contents = await self.balancers.read(age, Priority.LOAD_BALANCERS)
        found = list(contents.by_id.values())
        if contents.undecodable and not used_by(service, found):
            undecodable = next(iter(contents.undecodable.values()))
            raise unavailable(
                f"GET {PATH}", f"load balancer {undecodable.name!r} ({undecodable.id}): {undecodable.problem}"
            )
        return found

    @property
    def served(self) -> Collection[str]:
        """UIDs of the Services for which this process has synced a load balancer."""
        return self._seen.keys()

    async def look(self, number: int) -> LoadBalancer:
        """Read one load balancer. Raises NotFound if it doesn't exist."""
        try:
            balancer = await self.api.get(
                f"{PATH}/{number}", "load_balancer", LoadBalancer, priority=Priority.LOAD_BALANCERS
            )
        except NotFound:
            self.balancers.remove(number)
            raise
        self.balancers.put(balancer)
        return balancer

    def saw(self, service: ServiceView, balancer: LoadBalancer) -> None:
        """Store the ID of a Service's load balancer."""
        self._seen[service.uid] = balancer.id
        self._released.discard(service.uid)
        self.project.confirm(self.balancers.item_age(balancer.id))
        self._note("")

    def released(self, service: ServiceView) -> None:
        """Record that we released a Service's load balancers. Other cleanup may be incomplete."""
        self._seen.pop(service.uid, None)
        self._released.add(service.uid)

    def forget(self, service: ServiceView) -> None:
        """Remove the state of a deleted Service."""
        self._seen.pop(service.uid, None)
        self._released.discard(service.uid)
        self.invalid.discard(service.uid)
        self.annotated.pop(service.uid, None)

    async def check_vanished(self, service: ServiceView, used: Collection[LoadBalancer]) -> None:
        """Check why the Service's load balancer is missing from ``used``, the Service's load balancers.

        Raises:
            AccessDenied: The project has no resources of this cluster; the token may be wrong.
            Unavailable: The load balancer exists, but the list lacks it.
            Rejected: The load balancer exists, but it no longer has the labels of the Service.
        """
        number = self._seen.get(service.uid)
        if number is None:
            await self.project.check_new_token(Priority.LOAD_BALANCERS)
        if number is None or any(balancer.id == number for balancer in used):
            return  # there was none, or the Service is about to leave it
        there = await self._now(number)
        if there is None:
            await self._believe_absence(service)
        elif used_by(service, (there,)):
            raise unavailable(
                f"GET {PATH}",
                f"load balancer {number} exists, but is missing from the API's list of load balancers",
            )
        else:
            text = (
                f"load balancer {number} no longer has the labels that assign it to this Service. Adopt the "
                "load balancer, or delete it"
            )
            raise Rejected(text, notices=(Notice("LoadBalancerNotOurs", text),))

    async def to_release(self, service: ServiceView) -> tuple[list[LoadBalancer], list[Notice]]:
        """The current load balancers that a Service gives up, and notices for its owner.

        Raises AccessDenied if neither a load balancer nor any other resource of ours exists, because then the
        project may be wrong. Raises another CloudError if the load balancers are unknown.
        """
        listed = used_by(service, await self.all(service))
        listed = listed or used_by(service, await self.all(service, age=JUST_NOW))
        current = [await self._now(balancer.id) for balancer in listed]
        found = used_by(service, (balancer for balancer in current if balancer is not None))
        other = None if found else await self._former(service)
        if other is not None and not (found := used_by(service, (other,))):
            text = (
                f"load balancer {other.name} ({other.id}) is not deleted, because the labels of this "
                "Service were removed from the load balancer. If you don't need the load balancer, "
                "delete it"
            )
            return [], [Notice("LoadBalancerReleased", text)]
        had_one = service.uid in self._seen or (service.addresses and service.uid not in self._released)
        if not found:
            if had_one:
                await self._believe_absence(service)
            else:
                await self.project.check_new_token(Priority.LOAD_BALANCERS)
        return found, []

    async def _former(self, service: ServiceView) -> LoadBalancer | None:
        """The load balancer that a Service had, even if its labels have changed."""
        number = self._seen.get(service.uid)
        if number is not None:
            return await self._now(number)
        everyone = self.balancers.contents.by_id.values()
        return next(
            (balancer for balancer in everyone if _public_addresses(balancer) & {*service.addresses}), None
        )

    async def _now(self, number: int) -> LoadBalancer | None:
        """Read a load balancer from the API, because the cache contains expected values; None = deleted."""
        age = self.balancers.listed_age(number)
        if age is not None and age <= JUST_NOW:
            return self.balancers.contents.by_id[number]
        try:
            return await self.look(number)
        except NotFound:
            return None

    async def _believe_absence(self, service: ServiceView) -> None:
        """Check the project after a Service's load balancer disappeared, and remove its data."""
        await self.project.check(Priority.LOAD_BALANCERS)
        seen, alive = self._seen, self.balancers.contents.by_id
        known = self.project.network is not None or not self.project.mass_deletion_breaker
        all_gone = (
            len(seen) > 1
            and service.uid in seen
            and not any(balancer_id in alive for balancer_id in seen.values())
        )
        if all_gone and not known:
            text = (
                f"all {len(seen)} load balancers disappeared at the same time. The token probably "
                "belongs to another project, so the cloud-controller-manager creates and deletes "
                "nothing. If you deleted the load balancers, restart the cloud-controller-manager, or "
                f"run the cloud-controller-manager with {MASS_DELETION_BREAKER_OFF}"
            )
            self._note(text)
            raise AccessDenied(text, notices=(Notice("LoadBalancersVanished", text),))
        seen.pop(service.uid, None)

    def healthy(self) -> str | None:
        """An error message, or None."""
        return self._vanished or None

    def _note(self, why: str) -> None:
        self._vanished = why
        self._metrics.vanished.set(bool(why))


def _public_addresses(balancer: LoadBalancer) -> set[str]:
    """The public addresses, which are unique. Private addresses may also exist in other projects."""
    return {one.ip for one in (balancer.public_net.ipv4, balancer.public_net.ipv6) if one.ip}
