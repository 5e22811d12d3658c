import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.kube.objects import (
    Event,
    LeaseSpec,
    Node,
    NodeAddress,
    ObjectMeta,
    Service,
    decode,
    decode_object,
    reference_to,
    to_wire,
)


@pytest.mark.parametrize("kind", [Node, Service, LeaseSpec, Event])
def test_everything_has_a_default(kind):
    assert decode(b"{}", kind) == kind()


def test_null_is_absent_everywhere():
    text = """{"metadata": {"name": "a", "labels": null, "finalizers": null}, "spec": null,
      "status": {"addresses": [null, {"type": "Hostname", "address": null}], "conditions": null}}"""
    node = decode(text.encode(), Node)
    assert node.metadata == ObjectMeta(name="a")
    assert node.status.addresses == (NodeAddress("Hostname", ""),)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"<html>",
        b"\xff",
        b'{"metadata": {"name": "\xff"}}',
        b'{"metadata": {"name": null, "uid": "\xff"}}',
        b'{"other": ' + b"[" * 100_000,
        b'{"metadata": 5, "other": ' + b"[" * 100_000,
    ],
)
def test_whatever_can_not_be_read_is_a_decode_error(text):
    with pytest.raises(msgspec.DecodeError):
        decode(text, Node)


def test_reference_names_the_object():
    text = b'{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","uid":"u","resourceVersion":"7"}}'
    reference = reference_to(decode(text, Node))
    assert to_wire(reference) == {
        "apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "resourceVersion": "7",
    }  # fmt: skip


def test_target_port_is_a_number_or_a_name():
    service = decode_object({"spec": {"ports": [{"targetPort": 80}, {"targetPort": "http"}]}}, Service)
    assert [port.target_port for port in service.spec.ports] == [80, "http"]


TEXTS = st.text(max_size=8)
JSON = st.recursive(
    st.none() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status", "other"]), JSON, max_size=4))
def test_anything_decodes_or_is_a_decode_error(value):
    try:
        node = decode(json.dumps(value).encode(), Node)
    except msgspec.DecodeError:
        return
    assert isinstance(node, Node)


@given(TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=3), st.lists(TEXTS, max_size=3))
def test_what_is_written_reads_back(name, labels, finalizers):
    node = Node(metadata=ObjectMeta(name=name, labels=labels, finalizers=tuple(finalizers)))
    assert decode(msgspec.json.encode(to_wire(node)), Node) == node
