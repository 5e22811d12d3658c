from __future__ import annotations

import base64
import json
import ssl
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from sandbox.engine.errors import ProviderError
from sandbox.engine.providers.kubernetes.cluster import Cluster
from sandbox.engine.providers.kubernetes.kubeconfig import moved, open_client, read_kubeconfig


def kubeconfig(server: str, user: str = "a") -> str:
    return (
        "{apiVersion: v1, current-context: c, "
        f"contexts: [{{name: c, context: {{cluster: k, user: {user}}}}}], "
        f"users: [{{name: {user}, user: {{}}}}], "
        f"clusters: [{{name: k, cluster: {{server: '{server}'}}}}]}}"
    )


def test_a_provider_has_moved_when_it_means_another_cluster() -> None:
    here, there = kubeconfig("https://a"), kubeconfig("https://b")
    assert moved({"kubeconfig": here}, {"kubeconfig": kubeconfig("https://a", "other")}) == []
    assert moved({"kubeconfig": here}, {"kubeconfig": there}) == ["kubeconfig"]
    named = {"clusterIdentifier": "1"}
    assert moved({"kubeconfig": here, **named}, {"kubeconfig": there, **named}) == []
    assert moved(named, {"clusterIdentifier": "2"}) == ["clusterIdentifier"]


def test_a_kubeconfig_that_can_not_be_used_is_told(tmp_path: Any) -> None:
    with pytest.raises(ProviderError, match="can't be read"):
        read_kubeconfig({"kubeconfig": str(tmp_path / "none")}, {})
    with pytest.raises(ProviderError, match="names no cluster"):
        read_kubeconfig({"kubeconfig": "a: b\n"}, {})


@pytest.mark.parametrize(
    "host", ["k8s.example.com", "10.0.0.2", "49.12.0.1", "[2a01:4f8::1]", "127.0.0.1.example.com"]
)
def test_only_clusters_of_the_sandbox_are_served(host: str) -> None:
    with pytest.raises(ProviderError, match=r"the sandbox alone.*plugin install resource kubernetes"):
        Cluster({"kubeconfig": kubeconfig(f"https://{host}:6443")}, {}).get("/version")


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.2", "[::1]", "203.0.113.9", "198.51.100.1", "[2001:db8::1]"]
)
def test_clusters_of_the_sandbox_are_served(host: str) -> None:
    open_client({"kubeconfig": kubeconfig(f"https://{host}:6443")}, {})


@pytest.fixture
def guarded() -> Iterator[str]:
    """The kubeconfig of a server that lets in who has a certificate."""
    authority = trustme.CA()
    ours = authority.issue_cert("engine@example.com")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    with HTTPServer(("127.0.0.1", 0), _Version) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        cluster = {
            "server": f"https://127.0.0.1:{server.server_port}",
            "certificate-authority-data": _base64(authority.cert_pem.bytes()),
        }
        user = {
            "client-certificate-data": _base64(ours.cert_chain_pems[0].bytes()),
            "client-key-data": _base64(ours.private_key_pem.bytes()),
        }
        try:
            yield _written(cluster, user)
        finally:
            server.shutdown()
            thread.join(60)


class _Version(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"major": "1"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name of the base class
        """Say nothing."""


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _written(cluster: dict[str, str], user: dict[str, str]) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "c", "user": user}],
        }
    )


def test_no_key_stays_on_the_disk(guarded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is killed can't clean up, so there must be nothing to clean up."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # Twice: the package remembers the files that it made for the same keys.
    for _ in range(2):
        cluster = Cluster({"kubeconfig": guarded}, {})
        assert cluster.get("/version") == {"major": "1"}
        assert list(tmp_path.iterdir()) == []
        cluster.close()


def test_a_key_that_is_none_is_told(guarded: str) -> None:
    broken = json.loads(guarded)
    broken["users"][0]["user"]["client-key-data"] = _base64(b"no key")
    with pytest.raises(ProviderError, match="the kubeconfig can't be used"):
        Cluster({"kubeconfig": json.dumps(broken)}, {}).get("/version")
