import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.kube.decoding import decode_page
from ccm.kube.nesting import DEEPEST, shallow
from ccm.kube.objects import Service, decode

# As deep as the API server takes it, which keeps of managedFields what it is given.
DEEP = '{"f:a":' * 9995 + "{}" + "}" * 9995
SERVICE = (
    '{"metadata":{"name":"a","uid":"u","managedFields":[{"fieldsV1":%s}]},"spec":{"type":"LoadBalancer"}}'
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
NESTS = st.sampled_from(["[{}]", '{{"]}}":{}}}', '{{"a":[{}],"b":1}}'])


def test_a_tenant_with_a_deep_service_hides_no_other_one():
    other = SERVICE.replace('"a"', '"b"') % "{}"
    text = f'{{"metadata":{{"resourceVersion":"7"}},"items":[{SERVICE % DEEP},{other}]}}'
    page, _ = decode_page(text.encode(), Service)
    assert [item.metadata.name for item in page.items] == ["a", "b"]
    assert [item.spec.type for item in page.items] == ["LoadBalancer"] * 2
    assert page.undecodable == []


@pytest.mark.parametrize("fields", ['{"f:\xff":{}}', f'{{"f:\xff":{DEEP}}}'], ids=["bytes", "deep"])
def test_a_whole_object_is_read_whose_managed_fields_are_no_utf_8(fields):
    """A real API server accepts and returns such JSON. A leader must be able to decode any Lease."""
    text = (SERVICE % fields).encode("latin-1")
    whole = decode(text, dict[str, Any])
    assert (whole["metadata"]["name"], whole["spec"]) == ("a", {"type": "LoadBalancer"})
    assert json.loads(json.dumps(whole)) == whole, "it can be sent back"
    assert decode(text, Service).metadata.name == "a"


@given(JSON)
def test_what_is_not_deep_stays_as_it_is(value):
    text = json.dumps(value).encode()
    assert shallow(text) == text


@given(JSON, st.integers(DEEPEST + 3, 2 * DEEPEST), NESTS)
def test_of_what_is_too_deep_the_outer_levels_stay(value, depth, nest):
    text = json.dumps(value)
    for _ in range(depth):
        text = nest.format(text)
    cut = shallow(f'{{"before":{json.dumps(value)},"deep":{text},"after":{json.dumps(value)}}}'.encode())
    read = json.loads(cut)
    assert (read["before"], read["after"]) == (value, value)
    assert _depth(read["deep"]) <= DEEPEST + 2


@pytest.mark.parametrize(
    "text", [b"", b'"', b'"\\', b"]" * 9, b"[" * 999, b'{"a', b'{"' * 999, b"\xff[" * 999]
)
def test_text_that_is_no_json_stays_none(text):
    with pytest.raises(msgspec.DecodeError):
        decode(text, Service)
    with pytest.raises(msgspec.DecodeError):
        decode(shallow(text), Service)


def _depth(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)
