"""What a load balancer can be: the cloud's types of them, and its locations."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ccm.hetzner.api import HetznerApi, Priority, View, view_of
from ccm.hetzner.api.wire import LoadBalancer, LoadBalancerType, Location
from ccm.hetzner.load_balancers.labels import DEFAULT_TYPE, Marks
from ccm.hetzner.load_balancers.metrics import LoadBalancerMetrics
from ccm.hetzner.load_balancers.wishes import Wishes

AGE = 3600.0
AGE_AFTER_MISS = 1.0


class Catalogue:
    """One list of types and one of locations for all Services.

    Args:
        locations: The cloud's locations.
        metrics: Count looks at the types.
    """

    def __init__(self, api: HetznerApi, locations: View[Location], metrics: LoadBalancerMetrics) -> None:
        self._metrics = metrics
        self._types = view_of(api, "load_balancer_types", LoadBalancerType)
        self._locations = locations
        self._doubtful = False

    def doubt(self) -> None:
        """Something was refused, maybe by another limit than we know: the next look is a fresh one."""
        self._doubtful = True

    async def close(self) -> None:
        """Stop reading."""
        await self._types.close()
        await self._locations.close()

    async def types(
        self, wishes: Wishes, balancer: LoadBalancer | None, marks: Marks
    ) -> Mapping[str, LoadBalancerType]:
        """The types of load balancers, by name; none if the load balancer keeps its own.

        It keeps it if it has the wanted one, or if none is wanted and none was annotated before.
        """
        if balancer is not None:
            name = balancer.load_balancer_type.name
            goes_back = "type" in marks.settings and name != DEFAULT_TYPE
            if wishes.type in ((name,) if goes_back else (name, "")):
                return {}
        age = self._types.age
        self._metrics.official.type_lookup(hit=age is not None and age <= AGE)
        accepted = AGE_AFTER_MISS if self._doubtful else AGE
        found = (await self._types.read(accepted, Priority.LOAD_BALANCERS)).by_name
        self._doubtful = False
        if wishes.type and wishes.type not in found:
            found = (await self._types.read(AGE_AFTER_MISS, Priority.LOAD_BALANCERS)).by_name
        return found

    async def locations(self, wishes: Wishes) -> Collection[Location]:
        """The locations, where one or a zone is asked for; read anew if that is none: it may be a new one."""
        known: Collection[Location] = ()
        for age in (AGE, AGE_AFTER_MISS) if wishes.has_site else ():
            known = tuple((await self._locations.read(age, Priority.LOAD_BALANCERS)).by_id.values())
            if wishes.location in {one.name for one in known} or (
                not wishes.location and wishes.network_zone in {one.network_zone for one in known}
            ):
                break
        return known
