"""What :class:`ccm.cloud.LoadBalancers` promises."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ccm.cloud import CloudError, NodeView
from ccm.conformance.harness import Harness


async def _nodes(harness: Harness, *names: str) -> list[NodeView]:
    return [NodeView(name, await harness.add_machine(name)) for name in names]


@pytest.mark.asyncio
class LoadBalancersConformance:
    """Inherit it in a class ``Test…`` that has a fixture ``harness``."""

    async def test_at_first_there_is_none(self, harness: Harness) -> None:
        """And deleting nothing is a success without a step."""
        assert await harness.load_balancers.find(harness.service()) is None
        assert not (await harness.load_balancers.delete(harness.service())).steps

    async def test_making_it_twice_changes_nothing_the_second_time(self, harness: Harness) -> None:
        """Nothing to change: no step."""
        nodes = await _nodes(harness, "a", "b")
        made = await harness.load_balancers.ensure(harness.service(), nodes)
        assert made.steps
        assert made.ingress
        assert all(one.ip or one.hostname for one in made.ingress)
        again = await harness.load_balancers.ensure(harness.service(), nodes)
        assert not again.steps
        assert again.ingress == made.ingress
        found = await harness.load_balancers.find(harness.service())
        assert found is not None
        assert found.ingress == made.ingress

    async def test_planning_does_nothing(self, harness: Harness) -> None:
        """It says the steps; afterwards there are none."""
        nodes = await _nodes(harness, "a")
        assert await harness.load_balancers.plan(harness.service(), nodes)
        assert await harness.load_balancers.find(harness.service()) is None
        await harness.load_balancers.ensure(harness.service(), nodes)
        assert not await harness.load_balancers.plan(harness.service(), nodes)

    async def test_it_follows_nodes_and_ports(self, harness: Harness) -> None:
        """Each change is one to make, and then it is made."""
        first, second = await _nodes(harness, "a", "b")
        service = harness.service()
        await harness.load_balancers.ensure(service, [first])
        assert (await harness.load_balancers.ensure(service, [first, second])).steps
        assert (await harness.load_balancers.ensure(service, [second])).steps
        moved = replace(service, ports=harness.service(port=81).ports)
        assert (await harness.load_balancers.ensure(moved, [second])).steps
        assert not (await harness.load_balancers.ensure(moved, [second])).steps

    async def test_what_is_left_of_services_is_told(self, harness: Harness) -> None:
        """And nothing is done about it."""
        service = harness.service()
        await harness.load_balancers.ensure(service, await _nodes(harness, "a"))
        assert not await harness.load_balancers.orphans({service.uid})
        [orphan] = await harness.load_balancers.orphans(set())
        assert (orphan.namespace, orphan.name, orphan.uid) == (service.namespace, service.name, service.uid)
        assert await harness.load_balancers.find(service) is not None

    async def test_two_services_have_two(self, harness: Harness) -> None:
        """Deleting one leaves the other."""
        nodes = await _nodes(harness, "a")
        one, two = harness.service("one"), harness.service("two")
        await harness.load_balancers.ensure(one, nodes)
        await harness.load_balancers.ensure(two, nodes)
        assert (await harness.load_balancers.delete(one)).steps
        assert await harness.load_balancers.find(one) is None
        assert await harness.load_balancers.find(two) is not None
        assert not (await harness.load_balancers.delete(one)).steps

    async def test_no_answer_is_an_error(self, harness: Harness) -> None:
        """Neither an absence, nor a success."""
        await harness.load_balancers.ensure(harness.service(), await _nodes(harness, "a"))
        await harness.go_blind()
        with pytest.raises(CloudError):
            await harness.load_balancers.delete(harness.service())
