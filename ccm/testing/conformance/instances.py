"""What :class:`ccm.cloud.Instances` promises."""

import asyncio
from ipaddress import ip_address

import pytest

from ccm.cloud import (
    EXTERNAL_IP,
    INTERNAL_IP,
    CloudError,
    Instance,
    InstanceNotFound,
    NodeView,
    NotOurs,
    QuotaExhausted,
)
from ccm.kube.reconciler import retry_after
from ccm.testing.conformance.harness import Harness

_MORE_THAN_A_PAGE = 60


@pytest.mark.asyncio
class InstancesConformance:
    """Inherit it in a class ``Test…``."""

    async def test_its_own_provider_ids_are_its_own(self, harness: Harness) -> None:
        instances = harness.instances
        assert instances.owns(await harness.add_machine("a"))
        assert not instances.owns(harness.foreign_provider_id)
        assert not instances.owns("")

    async def test_a_machine_is_found_by_name_and_by_provider_id(self, harness: Harness) -> None:
        instances = harness.instances
        provider_id = await harness.add_machine("a")
        by_name = await instances.get(NodeView("a"), accepted_age=60)
        by_id = await instances.get(NodeView("renamed", provider_id), accepted_age=60)
        assert by_name.provider_id == by_id.provider_id == provider_id
        assert by_id.name == "a"
        assert not by_name.shut_down

    async def test_the_provider_id_wins_over_the_name(self, harness: Harness) -> None:
        instances = harness.instances
        provider_id = await harness.add_machine("a")
        await harness.add_machine("b")
        assert (await instances.get(NodeView("b", provider_id), accepted_age=0)).name == "a"

    async def test_a_name_is_the_whole_name(self, harness: Harness) -> None:
        instances = harness.instances
        await harness.add_machine("node-10")
        with pytest.raises(InstanceNotFound):
            await instances.get(NodeView("node-1"), accepted_age=0)

    async def test_a_provider_id_is_stable(self, harness: Harness) -> None:
        """It is written into the Node once and never changed."""
        instances = harness.instances
        await harness.add_machine("a")
        first = await instances.get(NodeView("a"), accepted_age=0)
        assert (await instances.get(NodeView("a"), accepted_age=0)).provider_id == first.provider_id

    async def test_addresses_are_addresses(self, harness: Harness) -> None:
        instances = harness.instances
        await harness.add_machine("a")
        addresses = (await instances.get(NodeView("a"), accepted_age=0)).addresses
        assert len(set(addresses)) == len(addresses)
        for address in addresses:
            assert address.address
            if address.type in {INTERNAL_IP, EXTERNAL_IP}:
                ip_address(address.address)

    @pytest.mark.parametrize("age", [0.0, 60.0])
    async def test_what_never_was_is_not_found(self, harness: Harness, age: float) -> None:
        instances = harness.instances
        await harness.add_machine("a")
        with pytest.raises(InstanceNotFound):
            await instances.get(NodeView("never-was"), accepted_age=age)

    @pytest.mark.parametrize("rest", ["", "?", "0", "-1", "1/2/3", "²", " 1", "9" * 40, "a" * 300, "ü\n"])
    async def test_an_odd_provider_id_is_an_error_of_the_contract(self, harness: Harness, rest: str) -> None:
        """Users can edit Nodes. The result must be a CloudError, and never another machine."""
        instances = harness.instances
        scheme = (await harness.add_machine("a")).partition("://")[0]
        node = NodeView("a", f"{scheme}://{rest}")
        with pytest.raises(CloudError):
            await instances.get(node, accepted_age=0)
        assert isinstance((await instances.list([node], accepted_age=0))["a"], CloudError)

    async def test_a_new_machine_is_found_though_the_view_is_older(self, harness: Harness) -> None:
        """A new Node must not wait until a cache expires."""
        instances = harness.instances
        await harness.add_machine("a")
        await instances.get(NodeView("a"), accepted_age=600)
        await harness.add_machine("b")
        assert (await instances.get(NodeView("b"), accepted_age=600)).name == "b"

    async def test_asked_directly_a_removed_machine_is_gone_at_once(self, harness: Harness) -> None:
        """An accepted age of 0 allows no cache."""
        instances = harness.instances
        provider_id = await harness.add_machine("a")
        node = NodeView("a", provider_id)
        await instances.get(node, accepted_age=60)
        await harness.remove_machine(provider_id)
        with pytest.raises(InstanceNotFound):
            await instances.get(node, accepted_age=0)
        with pytest.raises(InstanceNotFound):
            await instances.get(NodeView("a"), accepted_age=0)

    async def test_a_successor_of_the_same_name_is_another_machine(self, harness: Harness) -> None:
        """The old Node must not get the new machine."""
        instances = harness.instances
        old = await harness.add_machine("a")
        await harness.remove_machine(old)
        new = await harness.add_machine("a")
        if new == old:
            pytest.skip("the provider IDs of this cloud are names")
        with pytest.raises(InstanceNotFound):
            await instances.get(NodeView("a", old), accepted_age=0)
        assert (await instances.get(NodeView("a"), accepted_age=0)).provider_id == new

    async def test_others_are_left_alone(self, harness: Harness) -> None:
        instances = harness.instances
        await harness.add_machine("a")
        with pytest.raises(NotOurs):
            await instances.get(NodeView("a", harness.foreign_provider_id), accepted_age=60)

    async def test_a_machine_that_is_off_is_there_and_off(self, harness: Harness) -> None:
        """A machine that is off must not seem to be missing."""
        instances = harness.instances
        provider_id = await harness.add_machine("a")
        await harness.power_off(provider_id)
        assert (await instances.get(NodeView("a", provider_id), accepted_age=0)).shut_down
        await harness.power_on(provider_id)
        assert not (await instances.get(NodeView("a", provider_id), accepted_age=0)).shut_down

    async def test_a_list_answers_for_every_node(self, harness: Harness) -> None:
        instances = harness.instances
        provider_id = await harness.add_machine("a")
        nodes = [
            NodeView("a", provider_id),
            NodeView("never-was"),
            NodeView("x", harness.foreign_provider_id),
        ]
        answers = await instances.list(nodes, accepted_age=60)
        assert set(answers) == {"a", "never-was", "x"}
        assert isinstance(answers["a"], Instance)
        assert isinstance(answers["never-was"], InstanceNotFound)
        assert isinstance(answers["x"], NotOurs)
        assert await instances.list([], accepted_age=60) == {}

    async def test_a_list_has_no_end(self, harness: Harness) -> None:
        """If a cloud reads only the first page of machines, the other machines' Nodes are deleted."""
        instances = harness.instances
        added = {f"n{number}": "" for number in range(_MORE_THAN_A_PAGE)}
        for name in added:
            added[name] = await harness.add_machine(name)
        answers = await instances.list([NodeView(name) for name in added], accepted_age=0)
        found = {name: getattr(answer, "provider_id", answer) for name, answer in answers.items()}
        assert found == added

    async def test_many_may_ask_at_once(self, harness: Harness) -> None:
        instances = harness.instances
        provider_id = await harness.add_machine("a")
        node = NodeView("a", provider_id)
        asking = [asyncio.create_task(instances.get(node, accepted_age=0)) for _ in range(10)]
        await asyncio.sleep(0)
        asking[0].cancel()
        answers = await asyncio.gather(*asking[1:])
        assert {answer.provider_id for answer in answers} == {provider_id}

    async def test_no_answer_is_no_absence(self, harness: Harness) -> None:
        """If a cloud treats an error as a missing machine, its Node is deleted."""
        instances = harness.instances
        provider_id = await harness.add_machine("a")
        node = NodeView("a", provider_id)
        await harness.make_unavailable()
        for one in (node, NodeView("a")):
            with pytest.raises(CloudError) as error:
                await instances.get(one, accepted_age=0)
            assert not isinstance(error.value, InstanceNotFound | NotOurs)
        try:
            answer = (await instances.list([node], accepted_age=0))["a"]
        except CloudError as error:
            answer = error
        assert isinstance(answer, CloudError)
        assert not isinstance(answer, InstanceNotFound | NotOurs)

    async def test_an_available_cloud_works_again(self, harness: Harness) -> None:
        instances = harness.instances
        node = NodeView("a", await harness.add_machine("a"))
        await harness.make_unavailable()
        with pytest.raises(CloudError):
            await instances.get(node, accepted_age=0)
        await harness.make_available()
        assert (await instances.get(node, accepted_age=0)).name == "a"

    async def test_over_quota_it_says_when_to_come_back(self, harness: Harness) -> None:
        instances = harness.instances
        node = NodeView("a", await harness.add_machine("a"))
        await harness.exhaust_quota()
        with pytest.raises(CloudError) as error:
            await instances.get(node, accepted_age=0)
        assert isinstance(error.value, QuotaExhausted) or (retry_after(error.value) or 0) > 0
        assert not isinstance(error.value, InstanceNotFound | NotOurs)
