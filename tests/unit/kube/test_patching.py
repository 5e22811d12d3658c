import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.kube.errors import Invalid
from ccm.testing.patching import merge, strategic_merge

LEAVES = st.integers() | st.text(max_size=3) | st.booleans()
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def _difference(old, new):
    """A merge patch that makes one object of another."""
    patch = {name: None for name in old if name not in new}
    for name, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(name), dict):
            patch[name] = _difference(old[name], value)
        elif name not in old or old[name] != value or type(old[name]) is not type(value):
            patch[name] = value
    return patch


@given(OBJECTS, OBJECTS)
def test_merge_reaches_any_object_from_any_other(old, new):
    before = copy.deepcopy(old)
    assert merge(old, _difference(old, new)) == new
    assert old == before


DISK, NEW = {"type": "Disk", "status": "True"}, {"type": "New", "status": "True"}


@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [
        (  # conditions merge by type
            {"conditions": [{"type": "Ready", "status": "True", "reason": "x"}, DISK]},
            {"conditions": [{"type": "Ready", "status": "False"}, NEW]},
            {"conditions": [{"type": "Ready", "status": "False", "reason": "x"}, DISK, NEW]},
        ),
        (  # taints are replaced whole
            {"taints": [{"key": "a"}, {"key": "b"}]},
            {"taints": [{"key": "b"}]},
            {"taints": [{"key": "b"}]},
        ),
        (  # finalizers are a set
            {"finalizers": ["a", "b"]},
            {"finalizers": ["b", "c"], "$setElementOrder/finalizers": ["a", "b", "c"]},
            {"finalizers": ["a", "b", "c"]},
        ),
        ({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}),
        ({"a": {"b": 1}}, {"a": None}, {}),
    ],
)
def test_strategic_merge(old, patch, new):
    before = copy.deepcopy(old)
    assert strategic_merge(old, patch) == new
    assert old == before


def test_strategic_merge_needs_the_key():
    with pytest.raises(Invalid, match="merge key"):
        strategic_merge({}, {"conditions": [{"status": "True"}]})
