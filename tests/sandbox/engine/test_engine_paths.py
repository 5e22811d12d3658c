from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_engine_values import trees

from sandbox.engine.errors import UsageError
from sandbox.engine.properties import paths
from sandbox.engine.properties.values import secret


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("a[0].b", ("a", 0, "b")),
        ('metadata.annotations["x.y/z"]', ("metadata", "annotations", "x.y/z")),
        ("a[*].b", ("a", "*", "b")),
        ("*", ("*",)),
    ],
)
def test_paths_are_parsed(text: str, segments: tuple[Any, ...]) -> None:
    assert paths.parse(text) == segments


@pytest.mark.parametrize("text", ["a[", "a]", '["a'])
def test_what_is_no_path_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="is not a property path"):
        paths.parse(text)


def test_ignoring_keeps_the_old_value_in_its_place() -> None:
    old = {"a": {"b": 1, "c": 2}, "l": [{"x": 1, "y": 1}]}
    new = {"a": {"b": 3, "c": 4}, "l": [{"x": 2, "y": 2}]}
    assert paths.ignore(old, new, ("a", "b"))["a"] == {"b": 1, "c": 4}
    assert paths.ignore(old, new, ("l", "*", "x"))["l"] == [{"x": 1, "y": 2}]


def test_ignoring_removes_what_was_not_there_and_adds_what_was() -> None:
    assert paths.ignore({}, {"a": 1}, ("a",)) == {}
    assert paths.ignore({"a": 1}, {}, ("a",)) == {"a": 1}


def test_ignoring_a_part_of_what_is_new_removes_that_part() -> None:
    assert paths.ignore({}, {"a": {"b": 1, "c": 2}}, ("a", "b")) == {"a": {"c": 2}}
    assert paths.ignore({"a": {}}, {"a": {"k": {"b": 1}}}, ("a", "*", "b")) == {"a": {"k": {"b": 1}}}


def test_what_lay_in_a_secret_stays_secret() -> None:
    old = {"a": secret({"b": {"c": 1}})}
    assert paths.ignore(old, {"a": {"b": {"c": 2}}}, ("a", "b", "c")) == {"a": {"b": {"c": secret(1)}}}
    assert paths.ignore(old, {"a": secret({"b": 2})}, ("a", "b")) == {"a": secret({"b": {"c": 1}})}


def test_ignoring_looks_into_secrets() -> None:
    assert paths.ignore({"a": {"b": 1}}, {"a": secret({"b": 2})}, ("a", "b")) == {"a": secret({"b": 1})}


segments = st.lists(st.text(max_size=5) | st.integers(0, 2) | st.just("*"), min_size=1, max_size=3)


@given(trees, trees, segments)
def test_ignoring_changes_nothing_in_place_and_settles_at_once(old: Any, new: Any, path: list[Any]) -> None:
    before = copy.deepcopy(new)
    once = paths.ignore(old, new, path)
    assert new == before
    assert paths.ignore(old, once, path) == once


@given(trees, trees, segments)
def test_a_difference_needs_different_trees(old: Any, new: Any, path: list[Any]) -> None:
    assert not paths.differ(old, old, path)
    assert paths.differ(old, new, path) == paths.differ(new, old, path)
