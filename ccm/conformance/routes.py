"""What :class:`ccm.cloud.Routes` promises."""

from __future__ import annotations

import pytest

from ccm.cloud import CloudError, Route, RouteTable
from ccm.conformance.harness import Harness

DESTINATION = "10.244.7.0/24"


async def _route(harness: Harness, name: str) -> Route:
    provider_id = await harness.add_machine(name)
    table = await harness.routes.list(accepted_age=0)
    (address,) = [one.address for one in table.machines.values() if one.provider_id == provider_id]
    return Route(DESTINATION, address)


def _has(table: RouteTable, route: Route) -> bool:
    return route in table.routes


@pytest.mark.asyncio
class RoutesConformance:
    """Inherit it in a class ``Test…`` that has a fixture ``harness``."""

    async def test_the_table_has_every_machine(self, harness: Harness) -> None:
        """By address, with its provider ID."""
        provider_id = await harness.add_machine("a")
        table = await harness.routes.list(accepted_age=0)
        assert table.complete
        assert harness.routes.owns(provider_id)
        assert all(address == machine.address for address, machine in table.machines.items())
        assert provider_id in {machine.provider_id for machine in table.machines.values()}

    async def test_creating_is_idempotent_and_seen(self, harness: Harness) -> None:
        """Also in a view that may be old: what we did ourselves is known."""
        route = await _route(harness, "a")
        await harness.routes.create(route)
        await harness.routes.create(route)
        assert _has(await harness.routes.list(accepted_age=600), route)
        assert (await harness.routes.list(accepted_age=0)).routes.count(route) == 1

    async def test_deleting_is_idempotent_and_seen(self, harness: Harness) -> None:
        """What is not there is deleted already."""
        route = await _route(harness, "a")
        await harness.routes.create(route)
        await harness.routes.delete(route)
        await harness.routes.delete(route)
        assert not _has(await harness.routes.list(accepted_age=600), route)
        assert not _has(await harness.routes.list(accepted_age=0), route)

    async def test_a_destination_has_one_route(self, harness: Harness) -> None:
        """A second one is refused; it must not silently win or lose."""
        first, second = await _route(harness, "a"), await _route(harness, "b")
        await harness.routes.create(first)
        with pytest.raises(CloudError):
            await harness.routes.create(second)
        assert _has(await harness.routes.list(accepted_age=0), first)

    async def test_no_answer_is_an_error(self, harness: Harness) -> None:
        """Not an empty table."""
        await harness.routes.create(await _route(harness, "a"))
        await harness.go_blind()
        with pytest.raises(CloudError):
            await harness.routes.list(accepted_age=0)
