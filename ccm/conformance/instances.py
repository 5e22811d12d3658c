"""What :class:`ccm.cloud.Instances` promises."""

from __future__ import annotations

import pytest

from ccm.cloud import CloudError, Instance, InstanceNotFound, NodeView, NotOurs
from ccm.conformance.harness import Harness


@pytest.mark.asyncio
class InstancesConformance:
    """Inherit it in a class ``Test…`` that has a fixture ``harness``."""

    async def test_its_own_provider_ids_are_its_own(self, harness: Harness) -> None:
        """And neither others, nor none."""
        provider_id = await harness.add_machine("a")
        assert harness.instances.owns(provider_id)
        assert not harness.instances.owns(harness.foreign_provider_id)
        assert not harness.instances.owns("")

    async def test_a_machine_is_found_by_name_and_by_provider_id(self, harness: Harness) -> None:
        """The name is the Node's; the provider ID wins over it."""
        provider_id = await harness.add_machine("a")
        by_name = await harness.instances.get(NodeView("a"), accepted_age=60)
        by_id = await harness.instances.get(NodeView("renamed", provider_id), accepted_age=60)
        assert by_name.provider_id == by_id.provider_id == provider_id
        assert by_id.name == "a"
        assert not by_name.shut_down

    async def test_a_provider_id_is_stable(self, harness: Harness) -> None:
        """It is written into the Node once and never changed."""
        await harness.add_machine("a")
        first = await harness.instances.get(NodeView("a"), accepted_age=0)
        assert (await harness.instances.get(NodeView("a"), accepted_age=0)).provider_id == first.provider_id

    @pytest.mark.parametrize("age", [0.0, 60.0])
    async def test_what_never_was_is_not_found(self, harness: Harness, age: float) -> None:
        """By name."""
        await harness.add_machine("a")
        with pytest.raises(InstanceNotFound):
            await harness.instances.get(NodeView("never-was"), accepted_age=age)

    async def test_a_new_machine_is_found_though_the_view_is_older(self, harness: Harness) -> None:
        """A new Node must not wait until a cache expires."""
        await harness.add_machine("a")
        await harness.instances.get(NodeView("a"), accepted_age=600)
        await harness.add_machine("b")
        assert (await harness.instances.get(NodeView("b"), accepted_age=600)).name == "b"

    async def test_asked_directly_a_removed_machine_is_gone_at_once(self, harness: Harness) -> None:
        """An accepted age of 0 allows no cache."""
        provider_id = await harness.add_machine("a")
        node = NodeView("a", provider_id)
        await harness.instances.get(node, accepted_age=60)
        await harness.remove_machine(provider_id)
        with pytest.raises(InstanceNotFound):
            await harness.instances.get(node, accepted_age=0)

    async def test_others_are_left_alone(self, harness: Harness) -> None:
        """Even if a machine has the Node's name."""
        await harness.add_machine("a")
        with pytest.raises(NotOurs):
            await harness.instances.get(NodeView("a", harness.foreign_provider_id), accepted_age=60)

    async def test_a_machine_that_is_off_is_there_and_off(self, harness: Harness) -> None:
        """It must never look absent."""
        provider_id = await harness.add_machine("a")
        await harness.power_off(provider_id)
        found = await harness.instances.get(NodeView("a", provider_id), accepted_age=0)
        assert found.shut_down

    async def test_a_list_answers_for_every_node(self, harness: Harness) -> None:
        """One answer each, errors included; the bad do not spoil the good."""
        provider_id = await harness.add_machine("a")
        nodes = [
            NodeView("a", provider_id),
            NodeView("never-was"),
            NodeView("x", harness.foreign_provider_id),
        ]
        answers = await harness.instances.list(nodes, accepted_age=60)
        assert set(answers) == {"a", "never-was", "x"}
        assert isinstance(answers["a"], Instance)
        assert isinstance(answers["never-was"], InstanceNotFound)
        assert isinstance(answers["x"], NotOurs)

    async def test_no_answer_is_no_absence(self, harness: Harness) -> None:
        """Whoever takes an error for absence deletes Nodes."""
        provider_id = await harness.add_machine("a")
        await harness.go_blind()
        with pytest.raises(CloudError) as error:
            await harness.instances.get(NodeView("a", provider_id), accepted_age=0)
        assert not isinstance(error.value, InstanceNotFound | NotOurs)
