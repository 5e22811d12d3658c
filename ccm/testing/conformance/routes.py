"""What :class:`ccm.cloud.Routes` promises."""

import asyncio

import pytest

from ccm.cloud import CloudError, Machine, Route, RouteTable
from ccm.testing.conformance.harness import Harness

DESTINATION = "10.244.7.0/24"
_SEVERAL = 5


async def add_machine(harness: Harness, name: str) -> Machine:
    """Create a running machine; returns its entry in the table of the network."""
    routes = harness.routes
    provider_id = await harness.add_machine(name)
    machines = (await routes.list(accepted_age=0)).machines.values()
    (found,) = [machine for machine in machines if machine.provider_id == provider_id]
    return found


async def _route(harness: Harness, name: str, destination: str = DESTINATION) -> Route:
    return Route(destination, (await add_machine(harness, name)).address)


def _has(table: RouteTable, route: Route) -> bool:
    return route in table.routes


@pytest.mark.asyncio
class RoutesConformance:
    """Inherit it in a class ``Test…``."""

    async def test_the_table_has_every_machine(self, harness: Harness) -> None:
        routes = harness.routes
        provider_id = await harness.add_machine("a")
        table = await routes.list(accepted_age=0)
        assert table.complete
        assert routes.owns(provider_id)
        assert not routes.owns(harness.foreign_provider_id)
        assert not routes.owns("")
        assert all(address == machine.address for address, machine in table.machines.items())
        assert provider_id in {machine.provider_id for machine in table.machines.values()}

    async def test_the_table_has_no_machine_that_is_gone(self, harness: Harness) -> None:
        """A route to its address leads nowhere, or to another machine."""
        routes = harness.routes
        provider_id = await harness.add_machine("a")
        await routes.list(accepted_age=0)
        await harness.remove_machine(provider_id)
        table = await routes.list(accepted_age=0)
        assert provider_id not in {machine.provider_id for machine in table.machines.values()}

    async def test_what_it_can_hold(self, harness: Harness) -> None:
        table = await harness.routes.list(accepted_age=0)
        assert table.families <= {4, 6}
        assert table.families
        assert table.limit is None or table.limit > 0

    async def test_creating_is_idempotent_and_seen(self, harness: Harness) -> None:
        route = await _route(harness, "a")
        await harness.routes.create(route)
        await harness.routes.create(route)
        assert _has(await harness.routes.list(accepted_age=600), route)
        assert (await harness.routes.list(accepted_age=0)).routes.count(route) == 1

    async def test_deleting_is_idempotent_and_seen(self, harness: Harness) -> None:
        route = await _route(harness, "a")
        await harness.routes.delete(route)
        await harness.routes.create(route)
        await harness.routes.delete(route)
        await harness.routes.delete(route)
        assert not _has(await harness.routes.list(accepted_age=600), route)
        assert not _has(await harness.routes.list(accepted_age=0), route)

    async def test_a_destination_has_one_route(self, harness: Harness) -> None:
        first, second = await _route(harness, "a"), await _route(harness, "b")
        await harness.routes.create(first)
        with pytest.raises(CloudError):
            await harness.routes.create(second)
        assert _has(await harness.routes.list(accepted_age=0), first)

    async def test_deleting_another_route_to_the_destination_deletes_nothing(self, harness: Harness) -> None:
        first, second = await _route(harness, "a"), await _route(harness, "b")
        await harness.routes.create(first)
        await harness.routes.delete(second)
        assert _has(await harness.routes.list(accepted_age=0), first)

    async def test_many_at_once_are_all_made(self, harness: Harness) -> None:
        """If a network accepts only one change at a time, the cloud must wait, not the caller."""
        wanted = [await _route(harness, f"n{number}", f"10.244.{number}.0/24") for number in range(_SEVERAL)]
        await asyncio.gather(*(harness.routes.create(route) for route in wanted))
        assert set(wanted) <= set((await harness.routes.list(accepted_age=0)).routes)
        await asyncio.gather(*(harness.routes.delete(route) for route in wanted))
        assert not set(wanted) & set((await harness.routes.list(accepted_age=0)).routes)

    async def test_what_it_can_not_route_is_refused(self, harness: Harness) -> None:
        route = await _route(harness, "a", "2001:db8:7::/64")
        if 6 in (await harness.routes.list(accepted_age=0)).families:
            pytest.skip("IPv6 is routed here")
        with pytest.raises(CloudError):
            await harness.routes.create(route)

    async def test_a_lost_answer_is_looked_up(self, harness: Harness) -> None:
        route = await _route(harness, "a")
        await harness.lose_responses()
        try:
            await harness.routes.create(route)
        except CloudError:
            await harness.routes.create(route)
        assert (await harness.routes.list(accepted_age=0)).routes.count(route) == 1

    async def test_what_others_made_stays(self, harness: Harness) -> None:
        route = await _route(harness, "a")
        await harness.create_foreign_resources()
        before = await harness.foreign_resources()
        await harness.routes.create(route)
        await harness.routes.delete(route)
        assert await harness.foreign_resources() == before

    async def test_no_answer_is_an_error(self, harness: Harness) -> None:
        route, other = await _route(harness, "a"), await _route(harness, "b", "10.244.8.0/24")
        await harness.routes.create(route)
        await harness.make_unavailable()
        with pytest.raises(CloudError):
            await harness.routes.list(accepted_age=0)
        with pytest.raises(CloudError):
            await harness.routes.create(other)
        with pytest.raises(CloudError):
            await harness.routes.delete(route)
        await harness.make_available()
        assert _has(await harness.routes.list(accepted_age=0), route)
