import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from test_engine_kubeconfig import kubeconfig

from pulumi_plugins.base import Known, Surroundings
from pulumi_plugins.errors import ClusterUnreachableError, ProviderError, ResourceNotFoundError
from pulumi_plugins.kubernetes.provider import KubernetesProvider
from tests.http_server import Json, running, serving

CONFIG_MAP: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap"}
CONFIG_MAP["metadata"] = {"name": "x", "namespace": "default"}
KIND = "kubernetes:core/v1:ConfigMap"
URN = f"urn:pulumi:s::p::{KIND}::x"


class _Handler(Json, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    calls: list[str]
    stored: dict[str, Any]
    fails: str

    def do_POST(self) -> None:
        self.calls.append("POST")
        sent = self._body()
        if self.stored:
            self.answer(409, {"reason": "AlreadyExists", "message": "it exists"})
            return
        self.stored |= sent
        if self.fails == "answer lost":
            self.close_connection = True
        else:
            self.answer(500, {"reason": "InternalError", "message": "etcdserver: request timed out"})

    def do_GET(self) -> None:
        self.answer(200, self.stored)

    def do_PATCH(self) -> None:
        self._body()
        self.answer(200, self.stored)

    def _body(self) -> dict[str, Any]:
        return json.loads(self.rfile.read(int(self.headers["content-length"])))


def _provider(port: int, **more: Any) -> KubernetesProvider:
    settings = {"kubeconfig": kubeconfig(f"http://127.0.0.1:{port}"), **more}
    return KubernetesProvider(settings, Surroundings({}))


@pytest.mark.parametrize("fails", ["answer lost", "server failed"])
def test_an_object_whose_answer_was_lost_is_adopted_by_the_next_run(fails: str) -> None:
    state = SimpleNamespace(calls=[], stored={}, fails=fails)
    handler = type("Handler", (_Handler,), vars(state))
    with serving(handler) as port:
        provider = _provider(port)
        with pytest.raises(ProviderError):
            provider.create(URN, CONFIG_MAP, None)
        assert state.calls == ["POST"], "a second one would be refused"
        made = _provider(port, upsertExistingObjects=True).create(URN, CONFIG_MAP, None)
    assert made.id == "default/x"


def _known(metadata: dict[str, Any]) -> Known:
    outputs = {**CONFIG_MAP, "metadata": {**CONFIG_MAP["metadata"], **metadata}}
    return Known(URN, "default/x", CONFIG_MAP, outputs)


def test_an_object_with_another_uid_counts_as_gone() -> None:
    live = {**CONFIG_MAP, "metadata": {**CONFIG_MAP["metadata"], "uid": "1", "deletionTimestamp": "t"}}
    handler = type("Handler", (_Handler,), {"calls": [], "stored": live})
    with serving(handler) as port:
        provider = _provider(port)
        assert provider.read(_known({"uid": "1"})).id == "default/x", "it is on its way, but still there"
        assert provider.read(_known({})).id == "default/x"
        with pytest.raises(ResourceNotFoundError, match="recreated by another client"):
            provider.read(_known({"uid": "2"}))


def test_a_server_that_refuses_connections_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulumi_plugins.kubernetes.cluster._RETRY_SECONDS", 0.0)
    with serving(_Handler) as port:
        pass
    with pytest.raises(ClusterUnreachableError):
        _provider(port).create(URN, CONFIG_MAP, None)


def test_objects_of_an_unreachable_cluster_stay_in_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """One failure counts for all objects of a moment, and no longer."""
    for name in ("_RETRY_SECONDS", "_SILENT_SECONDS"):
        monkeypatch.setattr(f"pulumi_plugins.kubernetes.cluster.{name}", 0.0)
    handler = type("Handler", (_Handler,), {"calls": [], "stored": dict(CONFIG_MAP)})
    with serving(handler) as port:
        pass
    provider, known = _provider(port, skipUpdateUnreachable="true"), _known({"uid": "1"})
    kept = provider.read(known)
    assert (kept.inputs, kept.outputs) == (known.inputs, known.outputs)
    with pytest.raises(ClusterUnreachableError):
        provider.update(known, CONFIG_MAP, None)
    with pytest.raises(ClusterUnreachableError):
        provider.delete(known, 1)
    with pytest.raises(ResourceNotFoundError):
        _provider(port, skipUpdateUnreachable="true", deleteUnreachable="true").read(known)
    with running(ThreadingHTTPServer(("127.0.0.1", port), handler)):
        assert provider.read(_known({})).outputs["kind"] == "ConfigMap"
