import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest
from test_engine_hcloud import KEY

from pulumi_plugins.errors import ProviderError, ResourceNotFoundError
from pulumi_plugins.hcloud.api import Api
from pulumi_plugins.kubernetes.cluster import KubernetesError, _decoded
from pulumi_plugins.kubernetes.readiness import unready
from pulumi_plugins.values import plain
from tests.http_server import Json, serving
from tests.pulumi_cloud import EmulatedCloud
from tests.pulumi_lab import TOKEN, Lab

STRANGE = {
    "another service's 404": (404, b"<html>404 page not found</html>"),
    "an empty object": (200, b"{}"),
    "a list": (200, b"[]"),
    "an empty 404": (404, b"{}"),
    "an error that is a text": (404, b'{"error": "not_found"}'),
    "a list without end": (200, b"[" * 50_000),
    "an object of many levels": (200, b'{"action": ' * 700 + b"1" + b"}" * 700),
    "a resource without its fields": (200, b'{"server": {"id": 1}, "ssh_key": {"id": 1}, "servers": [{}]}'),
}
FIRST, *OTHERS = STRANGE
PROGRAM = f"""
import pulumi_hcloud as h
h.SshKey("k", name="k", public_key="{KEY}")
h.Server("w", name="w", server_type="cpx22", image="ubuntu-24.04", location="fsn1")
"""


@pytest.fixture(params=STRANGE)
def stranger(request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of a server that gives the same answer to everything."""
    status, body = STRANGE[request.param]

    class Handler(Json, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_DELETE = do_GET  # noqa: N815  the base class names them

    with serving(Handler) as port:
        yield f"http://127.0.0.1:{port}/v1"


def test_strange_answers_are_errors(stranger: str) -> None:
    api = Api(TOKEN, stranger)
    with pytest.raises(ProviderError):
        api.act("/servers/1/actions/poweroff")
    with pytest.raises(ProviderError):
        api.delete("/servers/1", by_action=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "stranger", [FIRST, *(pytest.param(name, marks=pytest.mark.nightly) for name in OTHERS)], indirect=True
)
def test_a_strange_answer_keeps_the_state(lab: Lab, cloud: EmulatedCloud, stranger: str) -> None:
    lab.up(PROGRAM, HCLOUD_ENDPOINT=cloud.endpoint)
    before = lab.resources()
    for command in ("refresh", "destroy"):
        done = lab.run(command, "--yes", HCLOUD_ENDPOINT=stranger)
        assert done.status == 1, done.out
        assert "internal error" not in done.out + done.err
        assert lab.resources().keys() >= {"w"}
        if command == "refresh":
            assert lab.resources() == before


@pytest.mark.parametrize("levels", [1, 700, 9995])
def test_deeply_nested_managed_fields(levels: int) -> None:
    deep = b'{"f:a":' * levels + b'"\xff"' + b"}" * levels
    text = b'{"metadata": {"name": "a", "managedFields": [{"fieldsV1": %s}]}}' % deep
    found = plain(_decoded(200, text, "GET", "/api/v1/nodes/a"))
    assert found["metadata"]["name"] == "a"


@pytest.mark.parametrize("text", [b'"x"', b"[1]", b"7", b"<html>", b"\xff", b"[" * 50_000])
def test_answers_that_are_not_from_a_kubernetes_api_server(text: bytes) -> None:
    with pytest.raises(ProviderError, match="isn't a response of a Kubernetes API server"):
        _decoded(200, text, "GET", "/api/v1/nodes")
    with pytest.raises(ProviderError):
        _decoded(201, text, "POST", "/api/v1/nodes")
    with pytest.raises(KubernetesError):
        _decoded(500, text, "GET", "/api/v1/nodes")
    with pytest.raises(ResourceNotFoundError):
        _decoded(404, text, "GET", "/api/v1/nodes")


def test_control_characters_in_errors_are_escaped() -> None:
    status = {"phase": "Failed", "reason": "Evicted", "message": "\x1b[2Jall\tis\nwell\x9bm"}
    with pytest.raises(ProviderError) as caught:
        unready({"kind": "Pod", "status": status})
    assert str(caught.value) == "the Pod failed: Evicted \\x1b[2Jall\tis\nwell\\x9bm"
    text = json.dumps({"message": "\x1b[2J", "reason": "Invalid"}).encode()
    with pytest.raises(KubernetesError, match=r"^\\x1b\[2J$"):
        _decoded(422, text, "POST", "/api/v1/pods")
