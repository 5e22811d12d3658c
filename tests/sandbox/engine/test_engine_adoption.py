"""What becomes of a state that a run has left which was killed, or failed in the middle of a replacement."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.engine.adoption import adopt
from sandbox.engine.errors import ProviderError

KINDS = ("hcloud:index/server:Server", "hcloud:index/network:Network", "kubernetes:core/v1:Secret")


def resource(name: str, identity: str = "", kind: str = KINDS[0], **more: Any) -> dict[str, Any]:
    found = {
        "urn": f"urn:pulumi:s::p::{kind}::{name}",
        "type": kind,
        "custom": True,
        "inputs": {"name": name},
    }
    return {**found, **({"id": identity} if identity else {}), **more}


def pending(name: str, kind: str = KINDS[0], operation: str = "creating") -> dict[str, Any]:
    return {"type": operation, "resource": resource(name, kind=kind)}


def state(*resources: dict[str, Any], operations: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"resources": list(resources), "pending_operations": list(operations)}


def of(cloud: dict[str, str]):
    return lambda urn, inputs: cloud.get(inputs["name"])


def test_what_the_cloud_has_is_added_and_the_rest_is_forgotten() -> None:
    left = state(resource("a", "1"), operations=(pending("b"), pending("c")))
    after, found = adopt(left, of({"b": "2"}))
    assert found == [resource("b")["urn"]]
    assert after["resources"] == [resource("a", "1"), resource("b", "2", outputs={"name": "b"})]
    assert "pending_operations" not in after


def test_a_successor_takes_the_place_of_what_was_deleted_for_it() -> None:
    left = state(
        resource("a", "1", pendingReplacement=True), resource("after", "9"), operations=(pending("a"),)
    )
    after, _ = adopt(left, of({"a": "2", "after": "9"}))
    assert [item["id"] for item in after["resources"]] == ["2", "9"]
    assert not after["resources"][0].get("pendingReplacement")


def test_a_predecessor_that_is_to_go_afterwards_is_deleted_by_the_next_run() -> None:
    after, _ = adopt(state(resource("a", "1"), operations=(pending("a"),)), of({"a": "2"}))
    assert [(item["id"], item.get("delete", False)) for item in after["resources"]] == [
        ("1", True),
        ("2", False),
    ]


def test_what_was_to_be_replaced_and_is_still_there_was_not_deleted() -> None:
    left = state(resource("a", "1", pendingReplacement=True), resource("b", "2", pendingReplacement=True))
    after, found = adopt(left, of({"a": "1"}))
    assert found == []
    assert after["resources"] == [resource("a", "1"), resource("b", "2", pendingReplacement=True)]


def test_secrets_are_not_looked_at_and_what_is_not_ours_is_an_error() -> None:
    sealed = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:x"}
    operation = pending("a")
    operation["resource"]["inputs"]["userData"] = sealed
    seen: list[dict[str, Any]] = []

    def find(_urn: str, inputs: dict[str, Any]) -> str:
        seen.append(inputs)
        raise ProviderError("its labels are not those of the interrupted creation")

    with pytest.raises(ProviderError, match="did not finish with 'a': its labels"):
        adopt(state(operations=(operation,)), find)
    assert seen == [{"name": "a"}]


names = st.sampled_from("abcd")
ids = st.sampled_from("1234")
flags = st.fixed_dictionaries({}, optional={"pendingReplacement": st.just(True), "delete": st.just(True)})
resources = st.lists(
    st.builds(lambda n, i, k, f: resource(n, i, k, **f), names, ids, st.sampled_from(KINDS), flags),
    max_size=5,
    unique_by=lambda item: item["urn"],
)
operations = st.lists(
    st.builds(pending, names, st.sampled_from(KINDS), st.sampled_from(["creating", "deleting", "updating"])),
    max_size=4,
    unique_by=lambda item: item["resource"]["urn"],
)


@given(resources, operations, st.dictionaries(names, ids))
def test_nothing_is_lost_or_invented_and_a_second_look_changes_nothing(left, begun, cloud) -> None:
    given_state = state(*left, operations=tuple(begun))
    before = copy.deepcopy(given_state)
    after, found = adopt(given_state, of(cloud))
    assert given_state == before
    known = {(item["urn"], item["id"]) for item in left}
    now = {(item["urn"], item["id"]) for item in after["resources"]}
    added = now - known
    assert {urn for urn, _ in added} == set(found)
    assert all(cloud[urn.rsplit("::", 1)[1]] == identity for urn, identity in added)
    gone = {(item["urn"], item["id"]) for item in left if item.get("pendingReplacement")}
    assert known - now <= gone
    assert adopt(after, of(cloud)) == (after, [])
