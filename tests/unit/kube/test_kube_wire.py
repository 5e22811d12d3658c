import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.kube.decoding import LineSplitter, decode_error, decode_event, decode_page
from ccm.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubernetesError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from ccm.kube.objects import Node


def _encode(value: object) -> bytes:
    return json.dumps(value).encode()


def test_odd_item_costs_only_itself():
    items = [
        {"metadata": {"name": "a"}},
        {"metadata": {"name": "b"}, "spec": {"taints": 5}},
        {"metadata": {"name": "c", "labels": 5}},
    ]
    page, more = decode_page(
        _encode({"metadata": {"resourceVersion": "9", "continue": "x"}, "items": items}), Node
    )
    assert [node.metadata.name for node in page.items] == ["a"]
    assert [metadata.name for metadata in page.undecodable] == ["b", "c"]
    assert (page.resource_version, more) == ("9", "x")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"<html>",
        b'{"items": 5}',
        b"{}",
        b'{"status": "ok"}',
        b'{"items": []}',
        b'{"metadata": {"resourceVersion": "\xff"}}',
    ],
)
def test_no_list_is_an_error(text):
    """An empty list has a version: whatever else has no items must not have all that is known deleted."""
    with pytest.raises(KubernetesError, match="unexpected response from the API server"):
        decode_page(text, Node)


@pytest.mark.parametrize("item", [b"17", b'{"spec": 5}', b'{"metadata": {"name": "\xff"}}', b"[" * 100_000])
def test_an_item_without_a_name_is_an_error(item):
    """The object exists, but without a name it matches none of the cached objects."""
    with pytest.raises(KubernetesError, match="unexpected response"):
        decode_page(b'{"metadata": {"resourceVersion": "9"}, "items": [' + item + b"]}", Node)


def test_list_without_items_is_empty():
    assert decode_page(b'{"metadata": {"resourceVersion": "9"}, "items": null}', Node)[0].items == []


def test_unknown_events_are_passed_over():
    assert decode_event(b'{"type": "NEW"}', Node) is None


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"[" * 100_000,
        b'{"type":"ADDED","object":5}',
        b'{"type":"BOOKMARK","object":5}',
        b'{"type":"DELETED","object":{"metadata":{"name":"\xff"}}}',
        b'{"type":"ERROR","object":5}',
    ],
)
def test_odd_lines_end_the_watch(line):
    """Without its line a change would never be learned of: from where the watch was it comes again."""
    with pytest.raises(KubernetesError, match="unexpected response"):
        decode_event(line, Node)


def test_expired_watch_is_gone():
    with pytest.raises(Gone, match="too old"):
        decode_event(
            _encode({"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}),
            Node,
        )


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "BadRequest", KubernetesError),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Gone", Gone),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerError),
        (503, "ServiceUnavailable", ServerError),
        (504, "Timeout", ServerError),
    ],
)
def test_errors_by_status(status, reason, kind):
    body = _encode({"code": status, "reason": reason, "message": "why"})
    error = decode_error(status, {}, body)
    assert type(error) is kind
    assert (error.status, error.reason, str(error)) == (status, reason, "why")


def test_error_without_a_status_object():
    error = decode_error(502, {}, b"<html>bad gateway</html>")
    assert type(error) is ServerError
    assert "bad gateway" in str(error)
    assert decode_error(500, {}, b"").status == 500
    assert type(decode_error(503, {}, b'{"message": "\xfcberlastet"}')) is ServerError


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({"Retry-After": "7"}, {}, 7),
        ({}, {"retryAfterSeconds": 3}, 3),
        ({"Retry-After": "soon"}, {}, None),
        ({"Retry-After": "-1"}, {}, None),
        ({"Retry-After": "0"}, {}, None),
        ({}, {"retryAfterSeconds": 0}, None),
        ({}, {"retryAfterSeconds": -5}, None),
        ({"Retry-After": "86400"}, {}, 300),
        ({"Retry-After": "9" * 500}, {}, 300),
        ({}, {"retryAfterSeconds": 86400}, 300),
        ({}, {}, None),
    ],
)
def test_retry_after(headers, details, seconds):
    assert decode_error(429, headers, _encode({"code": 429, "details": details})).retry_after == seconds


@given(
    st.lists(st.binary(min_size=1, max_size=30).filter(lambda line: b"\n" not in line and line.strip())),
    st.data(),
)
def test_lines_survive_any_chunking(lines, data):
    stream = b"".join(line + b"\n" for line in lines)
    splitter, found = LineSplitter(longest=1_000_000), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        chunk, stream = stream[:size], stream[size:]
        found += splitter.feed(chunk)
    assert found == lines
