from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.engine.deployment import steps
from sandbox.engine.deployment.steps import Goal
from sandbox.engine.display.operation import Op
from sandbox.engine.errors import EngineError, ProtectedError, UnsupportedError
from sandbox.engine.providers.base import Diff
from sandbox.engine.state.resource import Resource

URN = "urn:pulumi:dev::lab::t:i:T::a"
GOAL = Goal(URN, "t:i:T", "a", custom=True, inputs={"x": 1})


def existing(**more: object) -> Resource:
    return Resource(urn=URN, type="t:i:T", custom=True, **{"id": "1", "inputs": {"x": 1}, **more})  # type: ignore[arg-type]


diffs = st.builds(
    Diff,
    changes=st.booleans(),
    replaces=st.lists(st.sampled_from(["x", "y.z"]), max_size=2),
    delete_before_replace=st.booleans(),
    keys=st.lists(st.sampled_from(["x", "y.z"]), max_size=2),
)
forced = st.lists(st.sampled_from(["provider", "replaceWith"]), max_size=2)
wishes = st.sampled_from([None, True, False])


@given(diffs, forced, wishes, st.booleans())
def test_the_plan_follows_from_what_differs(
    diff: Diff, forced: list[str], wish: bool | None, broken: bool
) -> None:
    old = existing(init_errors=["not ready"] if broken else [])
    decision = steps.decide(replace(GOAL, delete_before_replace=wish), old, diff, forced)
    if diff.replaces or forced:
        assert decision.op is Op.REPLACE
        assert decision.delete_first == (diff.delete_before_replace if wish is None else wish)
        assert all(any(key.startswith(why) for key in decision.keys) for why in (*diff.replaces, *forced))
    elif diff.changes or broken:
        assert decision.op is Op.UPDATE
    else:
        assert decision.op is Op.SAME


@given(diffs, forced)
def test_a_protected_resource_is_never_replaced(diff: Diff, forced: list[str]) -> None:
    old, goal = existing(protect=True), replace(GOAL, protect=True)
    if diff.replaces or forced:
        with pytest.raises(ProtectedError, match="replaced"):
            steps.decide(goal, old, diff, forced)
        assert steps.decide(GOAL, old, diff, forced).op is Op.REPLACE, "unless this run unprotects it"
    else:
        assert steps.decide(goal, old, diff, forced).op in (Op.SAME, Op.UPDATE)


def test_what_is_not_there_or_not_ours_is_created() -> None:
    assert steps.decide(GOAL, None, None).op is Op.CREATE
    assert steps.decide(GOAL, existing(external=True), None).op is Op.CREATE


def test_imports_happen_once_and_never_over_something_else() -> None:
    goal = replace(GOAL, import_id="7")
    unchanged = Diff(changes=False)
    assert steps.decide(goal, None, None).op is Op.IMPORT
    assert steps.decide(goal, existing(id="7"), unchanged).op is Op.SAME
    with pytest.raises(UnsupportedError, match="importing '7' over"):
        steps.decide(goal, existing(), unchanged)
    with pytest.raises(EngineError, match="take 'import_' out"):
        steps.decide(replace(goal, import_id="1"), existing(), unchanged, ["x"])


def test_replacements_can_be_forced_by_options() -> None:
    def reasons(goal: Goal, old: Resource, **more: object) -> list[str]:
        given = {"changes": True, "provider_replaced": False, **more}
        return steps.forced_replacements(goal, old, {"x": 2}, **given)  # type: ignore[arg-type]

    assert reasons(GOAL, existing()) == []
    assert reasons(replace(GOAL, replace_on_changes=("x",)), existing()) == ["x"]
    assert reasons(replace(GOAL, replace_on_changes=("y",)), existing()) == []
    assert reasons(replace(GOAL, replace_on_changes=("x",)), existing(), changes=False) == []
    assert reasons(replace(GOAL, replace_on_changes=("*",)), existing()) == ["*"]
    assert reasons(GOAL, existing(), provider_replaced=True) == ["provider"]
    assert reasons(GOAL, existing(), asked=True) == ["--replace"]


def test_ignored_changes_keep_what_is() -> None:
    goal = replace(GOAL, inputs={"x": 2, "y": 3}, ignore_changes=("x",))
    assert steps.merge_ignored(goal, existing().inputs, goal.inputs) == {"x": 1, "y": 3}
    assert steps.merge_ignored(goal, None, goal.inputs) == {"x": 2, "y": 3}
