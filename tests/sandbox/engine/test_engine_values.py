from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from sandbox.engine.values import (
    UNKNOWN,
    changed_keys,
    has_secret,
    has_unknown,
    plain,
    secret,
)

leaves = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
marked = st.recursive(
    leaves | leaves.map(secret),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        | inner.map(secret)
    ),
    max_leaves=12,
)
properties = st.dictionaries(st.text(min_size=1, max_size=5), marked, max_size=4)


@given(marked)
def test_plain_values_have_no_secrets_and_stay_as_they_are(tree: object) -> None:
    assert not has_secret(plain(tree))
    assert plain(plain(tree)) == plain(tree)


@given(trees)
def test_a_secret_is_marked_once(tree: object) -> None:
    assert secret(secret(tree)) == secret(tree)
    assert plain(secret(tree)) == tree


@given(properties, properties)
def test_keys_differ_if_and_only_if_plain_values_do(old: dict[str, object], new: dict[str, object]) -> None:
    keys = changed_keys(old, new)
    assert changed_keys(new, old) == keys
    for key in {*old, *new}:
        differs = plain(old.get(key)) != plain(new.get(key))
        assert (key in keys) == (differs and not key.startswith("__"))


def test_unknown_values_are_found_at_any_depth() -> None:
    assert has_unknown({"a": [secret({"b": UNKNOWN})]})
    assert not has_unknown(json.loads('{"a": ["x", null]}'))
