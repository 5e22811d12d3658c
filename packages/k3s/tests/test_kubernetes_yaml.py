"""YAML as Kubernetes reads it; what is expected was printed by sigs.k8s.io/yaml 1.6.0 with yaml.v2 2.4.3."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3s_standin.kubernetes_yaml import load_documents, load_texts


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        (["y", "Y", "yes", "on", "On", "True", "!!bool yes"], True),
        (["n", "No", "off", "FALSE"], False),
        (["", "~", "Null", "!!null ''"], None),
        (["0644", "0o644"], 420),
        (["-0644"], -420),
        (["0b101", "5."], 5),
        (["+0x1F"], 31),
        (["0x_1"], 1),
        (["1_000", "1000", "1e3", "1.e3"], 1000),
        (["08"], 8),
        (["089", "08_9"], 89),
        ([".5"], 0.5),
        (["-.5"], -0.5),
        (["12345678901234567890"], 12345678901234567890),
        (['!!int "3"'], 3),
        (["!!float 1"], 1),
        (["!!str 5"], "5"),
        (["!!str 2024-01-01", "!!timestamp 2024-01-01"], "2024-01-01"),
        (["!!binary aGVsbG8="], "hello"),
        (["!!set {a, b}"], {"a": None, "b": None}),
        (["!!omap [a: 1]"], [{"a": 1}]),
        (["!mine x"], "x"),
        (["!mine {a: 1}"], {"a": 1}),
    ],
)
def test_scalars(texts, value):
    for text in texts:
        ((name, found),) = load_documents(f"a: {text}")[0].items()
        assert (name, found) == ("a", value), text
        assert isinstance(found, bool) is isinstance(value, bool), text


@pytest.mark.parametrize(
    "text",
    ["2024-01-01", "2024-1-1", "2024-01-01T10:00:00Z", "2024-01-01 10:00:00", "22:22", "1:30:30.5", "1,000",
     "0x", "0b2", "0o9", "0x1G", "_1", "+", ".", "1e", "=", "<<", "yEs"],
)  # fmt: skip
def test_texts(text):
    assert load_documents(f"a: {text}") == [{"a": text}]


def test_documents_anchors_merges_and_keys():
    ((found),) = load_documents("{a: 1, 2: b, on: c, 2024-01-01: e}")
    assert json.loads(json.dumps(found)) == {"a": 1, "2": "b", "true": "c", "2024-01-01": "e"}
    assert load_documents("b: &b {x: 1}\nc: {<<: *b, z: 2}\n---\n---\n7") == [
        {"b": {"x": 1}, "c": {"x": 1, "z": 2}},
        None,
        7,
    ]


@pytest.mark.parametrize(
    "text",
    [".inf", "-.Inf", ".nan", "{null: x}", "{[a]: x}", "!!bool perhaps", "!!int abc", "!!int 1.5", "!!int ''",
     "!!null x", "!!float yes", '!!binary "***"', "["],
)  # fmt: skip
def test_invalid_yaml(text):
    with pytest.raises(ValueError, match="line 1"):
        load_documents(f"a: {text}")


def test_texts_as_yaml_v2_reads_them():
    numbers = ("2024-01-01", "22:22", "0123", "1.10", "1e3", "5000")
    assert load_texts("\n".join(f"{text}: {text}" for text in numbers)) == {text: text for text in numbers}
    assert load_texts("a: yes\nb: off\nc:\nd: ~") == {"a": True, "b": False, "c": None, "d": None}
    with pytest.raises(ValueError, match="line 1"):
        load_texts("[")


@given(st.text(st.sampled_from("!abefinotxy0123456789_.:-+~ {}[]&*\"'\n#<T")))
def test_everything_is_json(text):
    with suppress(ValueError):
        for document in load_documents(text):
            json.dumps(document)


@given(st.integers(min_value=-(10**18), max_value=10**18) | st.floats(allow_nan=False, allow_infinity=False))
def test_numbers(number):
    assert load_documents(f"a: {number!r}") == [{"a": number}]
