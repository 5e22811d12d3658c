from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.engine.errors import EngineError
from sandbox.engine.state import graph
from sandbox.engine.state.graph import Alias
from sandbox.engine.state.resource import Resource

PREFIX = "urn:pulumi:dev::lab::"


def urn(number: int) -> str:
    return f"{PREFIX}t:i:T::{number}"


@st.composite
def stacks(draw: st.DrawFn) -> list[Resource]:
    """Resources that depend on earlier ones in any of the ways there are."""
    resources: list[Resource] = []
    for number in range(draw(st.integers(1, 10))):
        earlier = st.lists(st.integers(0, number - 1), max_size=3) if number else st.just([])
        resource = Resource(urn=urn(number), type="t:i:T", custom=True)
        resource.dependencies = [urn(item) for item in draw(earlier)]
        resource.property_dependencies = {"p": [urn(item) for item in draw(earlier)]}
        parent, with_, provider = draw(earlier), draw(earlier), draw(earlier)
        resource.parent = urn(parent[0]) if parent else ""
        resource.deleted_with = urn(with_[0]) if with_ else ""
        resource.provider = urn(provider[0]) + "::id" if provider else ""
        resources.append(resource)
    return resources


@given(stacks())
def test_everything_can_be_deleted_and_nothing_before_what_needs_it(resources: list[Resource]) -> None:
    batches = graph.deletion_batches(resources)
    assert sorted(item.urn for batch in batches for item in batch) == sorted(item.urn for item in resources)
    for number, batch in enumerate(batches):
        still_there = [item for later in batches[number:] for item in later]
        for resource in batch:
            assert not any(resource.urn in graph.needs(other) for other in still_there)


def test_what_needs_each_other_in_a_circle_is_told() -> None:
    first, second = (Resource(urn=f"urn:{name}", type="t:i:T", custom=True) for name in "ab")
    first.dependencies, second.dependencies = [second.urn], [first.urn]
    with pytest.raises(EngineError, match="circle: urn:a"):
        graph.deletion_batches([first, second])


@given(stacks(), st.data())
def test_no_reference_dangles(resources: list[Resource], data: st.DataObject) -> None:
    known = {item.urn for item in data.draw(st.lists(st.sampled_from(resources), unique_by=id))}
    for resource in resources:
        before = graph.needs(resource)
        graph.without_dangling(resource, known)
        after = graph.needs(resource)
        assert after == {
            item for item in before if item in known or item in (resource.parent, resource.provider[:-4])
        }


def test_parents_are_in_the_urn_but_the_stack_is_not() -> None:
    stack = graph.urn_of("dev", "lab", "pulumi:pulumi:Stack", "lab-dev")
    component = graph.urn_of("dev", "lab", "a:b:C", "c", stack)
    child = graph.urn_of("dev", "lab", "d:e:F", "f", component)
    assert component == PREFIX + "a:b:C::c"
    assert child == PREFIX + "a:b:C$d:e:F::f"
    assert (graph.type_of(child), graph.name_of(child)) == ("d:e:F", "f")


def test_an_alias_stands_for_what_it_says_and_for_now_otherwise() -> None:
    component = PREFIX + "a:b:C::c"
    child = PREFIX + "a:b:C$d:e:F::f"
    assert graph.alias_urn(Alias(name="old"), child, component) == PREFIX + "a:b:C$d:e:F::old"
    assert graph.alias_urn(Alias(no_parent=True), child, component) == PREFIX + "d:e:F::f"
    assert graph.alias_urn(Alias(parent=PREFIX + "x:y:Z::z"), child, "") == PREFIX + "x:y:Z$d:e:F::f"
    assert graph.alias_urn(Alias(urn="u"), child, component) == "u"


def test_an_old_state_is_found_under_its_urn_before_its_aliases() -> None:
    olds = {item: Resource(urn=item, type="t:i:T", custom=True) for item in (urn(1), urn(2))}
    assert graph.find_old(urn(1), [urn(2)], olds) is olds[urn(1)]
    assert graph.find_old(urn(3), [urn(4), urn(2)], olds) is olds[urn(2)]
    assert graph.find_old(urn(3), [], olds) is None
