"""What :class:`ccm.cloud.LoadBalancers` promises."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address
from random import Random

import pytest

from ccm.cloud import CloudError, LoadBalancerResult, NodeView
from ccm.testing.conformance.harness import Harness

_RANDOM_STEPS = 20


async def _nodes(harness: Harness, *names: str) -> list[NodeView]:
    harness.load_balancers  # noqa: B018 - skips the test before anything is made
    return [NodeView(name, await harness.add_machine(name)) for name in names]


def _check(result: LoadBalancerResult) -> None:
    """Check what the controller writes into a Service's status and into Events."""
    for entry in result.ingress:
        assert bool(entry.ip) != bool(entry.hostname), "set either an IP address or a host name"
        assert entry.ip_mode in {"", "VIP", "Proxy"}
        if entry.ip:
            ip_address(entry.ip)
        else:
            assert entry.ip_mode == "", "an IP mode requires an IP address"
    for notice in result.notices:
        assert re.fullmatch(r"[A-Z][A-Za-z0-9]*", notice.reason), notice.reason
        assert notice.message


@pytest.mark.asyncio
class LoadBalancersConformance:
    """Inherit it in a class ``Test…``."""

    async def test_at_first_there_is_none(self, harness: Harness) -> None:
        balancers = harness.load_balancers
        assert await balancers.find(harness.service()) is None
        assert not (await balancers.delete(harness.service())).steps

    async def test_making_it_twice_changes_nothing_the_second_time(self, harness: Harness) -> None:
        nodes = await _nodes(harness, "a", "b")
        made = await harness.load_balancers.ensure(harness.service(), nodes)
        assert made.steps
        assert made.ingress
        _check(made)
        again = await harness.load_balancers.ensure(harness.service(), nodes)
        assert not again.steps
        assert again.ingress == made.ingress
        found = await harness.load_balancers.find(harness.service())
        assert found is not None
        assert found.ingress == made.ingress

    async def test_planning_does_nothing(self, harness: Harness) -> None:
        nodes = await _nodes(harness, "a")
        assert await harness.load_balancers.plan(harness.service(), nodes)
        assert await harness.load_balancers.find(harness.service()) is None
        await harness.load_balancers.ensure(harness.service(), nodes)
        assert not await harness.load_balancers.plan(harness.service(), nodes)

    async def test_it_follows_nodes_and_ports(self, harness: Harness) -> None:
        first, second = await _nodes(harness, "a", "b")
        service = harness.service()
        await harness.load_balancers.ensure(service, [first])
        assert (await harness.load_balancers.ensure(service, [first, second])).steps
        assert (await harness.load_balancers.ensure(service, [second])).steps
        moved = replace(service, ports=harness.service(port=81).ports)
        assert (await harness.load_balancers.ensure(moved, [second])).steps
        assert not (await harness.load_balancers.ensure(moved, [second])).steps

    async def test_the_order_of_nodes_and_ports_does_not_matter(self, harness: Harness) -> None:
        """Lists come in any order from the API server."""
        nodes = await _nodes(harness, "a", "b", "c")
        service = harness.service()
        both = replace(service, ports=(*service.ports, *harness.service(port=81).ports))
        await harness.load_balancers.ensure(both, nodes)
        assert not (await harness.load_balancers.ensure(both, nodes[::-1])).steps

    async def test_it_may_have_no_nodes_yet(self, harness: Harness) -> None:
        """The load balancer has an address even without Nodes."""
        nodes = await _nodes(harness, "a")
        made = await harness.load_balancers.ensure(harness.service(), [])
        assert made.ingress
        _check(made)
        assert (await harness.load_balancers.ensure(harness.service(), nodes)).steps
        excluded = replace(harness.service(), hosts_excluded=True)
        assert (await harness.load_balancers.ensure(excluded, [])).steps
        assert await harness.load_balancers.find(harness.service()) is not None

    async def test_nodes_that_are_not_ours_do_no_harm(self, harness: Harness) -> None:
        """A Node of another cloud, and a Node that isn't initialized yet."""
        nodes = await _nodes(harness, "a")
        strangers = [NodeView("x", harness.foreign_provider_id), NodeView("y")]
        await _settle(harness, [*nodes, *strangers])
        assert (await harness.load_balancers.ensure(harness.service(), nodes)).ingress

    async def test_a_vanished_machine_does_not_spoil_the_rest(self, harness: Harness) -> None:
        nodes = await _nodes(harness, "a", "b")
        await harness.load_balancers.ensure(harness.service(), nodes)
        await harness.remove_machine(nodes[0].provider_id)
        await _settle(harness, nodes)
        await harness.load_balancers.ensure(harness.service(), nodes[1:])
        assert not (await harness.load_balancers.ensure(harness.service(), nodes[1:])).steps

    async def test_two_services_have_two(self, harness: Harness) -> None:
        nodes = await _nodes(harness, "a")
        one, two = harness.service("one"), harness.service("two")
        await harness.load_balancers.ensure(one, nodes)
        await harness.load_balancers.ensure(two, nodes)
        assert (await harness.load_balancers.delete(one)).steps
        assert await harness.load_balancers.find(one) is None
        assert await harness.load_balancers.find(two) is not None
        assert not (await harness.load_balancers.ensure(two, nodes)).steps
        assert not (await harness.load_balancers.delete(one)).steps

    async def test_a_successor_of_the_same_name_is_another_service(self, harness: Harness) -> None:
        """The UID identifies a Service, so the new Service doesn't own the old one's load balancer."""
        nodes = await _nodes(harness, "a")
        old, new = harness.service(uid="uid-of-the-old-one"), harness.service(uid="uid-of-the-new-one")
        await harness.load_balancers.ensure(old, nodes)
        assert await harness.load_balancers.find(new) is None
        await harness.load_balancers.ensure(new, nodes)
        await harness.load_balancers.delete(old)
        assert await harness.load_balancers.find(new) is not None

    async def test_many_at_once_make_one(self, harness: Harness) -> None:
        """Work on one Service is serialized, so one deletion removes everything."""
        nodes = await _nodes(harness, "a")
        service = harness.service()
        results = await asyncio.gather(*(harness.load_balancers.ensure(service, nodes) for _ in range(5)))
        assert len([result for result in results if result.steps]) == 1
        assert len({result.ingress for result in results}) == 1
        await harness.load_balancers.delete(service)
        assert not (await harness.load_balancers.delete(service)).steps

    async def test_many_services_at_once(self, harness: Harness) -> None:
        nodes = await _nodes(harness, "a")
        services = [harness.service(f"s{number}") for number in range(5)]
        results = await asyncio.gather(
            *(harness.load_balancers.ensure(service, nodes) for service in services)
        )
        assert all(result.ingress for result in results)
        await asyncio.gather(*(harness.load_balancers.delete(service) for service in services))
        assert [await harness.load_balancers.find(service) for service in services] == [None] * len(services)

    async def test_only_the_last_spec_counts(self, harness: Harness) -> None:
        """After any sequence of specs, the result is as with only the last spec."""
        machines = await _nodes(harness, "a", "b", "c")
        random = Random(7)  # noqa: S311 - the same steps in every run
        for _ in range(_RANDOM_STEPS):
            service = harness.service(random.choice(["one", "two"]), port=random.choice([80, 81, 82]))
            nodes = random.sample(machines, random.randint(0, 3))
            if random.random() < 0.25:
                await harness.load_balancers.delete(service)
                assert await harness.load_balancers.find(service) is None
                continue
            result = await harness.load_balancers.ensure(service, nodes)
            _check(result)
            planned = await harness.load_balancers.plan(service, nodes)
            assert not [line for line in planned if not line.startswith("note: ")]
            assert not (await harness.load_balancers.ensure(service, nodes)).steps

    async def test_a_lost_answer_doubles_nothing(self, harness: Harness) -> None:
        nodes = await _nodes(harness, "a")
        service = harness.service()
        await harness.lose_responses()
        try:
            await harness.load_balancers.ensure(service, nodes)
        except CloudError:
            await harness.load_balancers.ensure(service, nodes)
        assert not (await harness.load_balancers.ensure(service, nodes)).steps
        await harness.load_balancers.delete(service)
        assert await harness.load_balancers.find(service) is None
        assert not (await harness.load_balancers.delete(service)).steps

    async def test_what_others_made_stays(self, harness: Harness) -> None:
        nodes = await _nodes(harness, "a")
        await harness.create_foreign_resources()
        before = await harness.foreign_resources()
        await harness.load_balancers.ensure(harness.service(), nodes)
        await harness.load_balancers.ensure(harness.service(port=81), [])
        await harness.load_balancers.delete(harness.service())
        assert await harness.foreign_resources() == before

    async def test_orphans_belong_to_no_service(self, harness: Harness) -> None:
        nodes = await _nodes(harness, "a")
        kept, lost = harness.service("kept"), harness.service("lost")
        await harness.load_balancers.ensure(kept, nodes)
        await harness.load_balancers.ensure(lost, nodes)
        assert not await harness.load_balancers.orphans([kept.uid, lost.uid])
        found = await harness.load_balancers.orphans([kept.uid])
        assert {(orphan.name, orphan.uid) for orphan in found} <= {(lost.name, lost.uid)}
        assert await harness.load_balancers.find(lost) is not None

    async def test_no_answer_is_an_error(self, harness: Harness) -> None:
        nodes = await _nodes(harness, "a")
        service = harness.service()
        await harness.load_balancers.ensure(service, nodes)
        await harness.make_unavailable()
        with pytest.raises(CloudError):
            await harness.load_balancers.delete(service)
        with pytest.raises(CloudError):
            await harness.load_balancers.ensure(harness.service("new"), nodes)
        await harness.make_available()
        assert not (await harness.load_balancers.ensure(service, nodes)).steps


async def _settle(harness: Harness, nodes: Sequence[NodeView]) -> None:
    """Ensure with unusual nodes: it works, or raises an error of the contract."""
    try:
        result = await harness.load_balancers.ensure(harness.service(), nodes)
    except CloudError as error:
        message = error.message
    else:
        _check(result)
        return
    assert message
