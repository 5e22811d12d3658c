import base64
import json
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import trustme

from pulumi_plugins.errors import ProviderError
from pulumi_plugins.kubernetes.cluster import Cluster
from pulumi_plugins.kubernetes.kubeconfig import connect, current, moved
from tests.http_server import Json, serving


def kubeconfig(server: str, cluster: Mapping[str, str] = {}, **user: str) -> str:
    return json.dumps({
        "apiVersion": "v1",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    })  # fmt: skip


def test_a_provider_has_moved_when_it_means_another_cluster() -> None:
    here, there = kubeconfig("https://a"), kubeconfig("https://b")
    assert moved({"kubeconfig": here}, {"kubeconfig": kubeconfig("https://a", token="t")}) == []
    assert moved({"kubeconfig": here}, {"kubeconfig": there}) == ["kubeconfig"]
    named = {"clusterIdentifier": "1"}
    assert moved({"kubeconfig": here, **named}, {"kubeconfig": there, **named}) == []
    assert moved(named, {"clusterIdentifier": "2"}) == ["clusterIdentifier"]


def test_unusable_kubeconfigs(tmp_path: Any) -> None:
    with pytest.raises(ProviderError, match="can't be read"):
        current({"kubeconfig": str(tmp_path / "none")}, {})
    for text in ("a: b\n", "[1]\n", "clusters: [7]\n"):
        with pytest.raises(ProviderError, match="names no cluster"):
            current({"kubeconfig": text}, {})


OURS = ("localhost", "127.0.0.2", "[::1]", "203.0.113.9", "198.51.100.1", "[2001:db8::1]")
OTHERS = ("k8s.example.com", "10.0.0.2", "49.12.0.1", "[2a01:4f8::1]", "127.0.0.1.example.com")


@pytest.mark.parametrize("host", [*OURS, *OTHERS])
def test_only_clusters_of_the_sandbox_are_accepted(host: str) -> None:
    refused = pytest.raises(ProviderError, match=r"only with the sandbox.*plugin install resource kubernetes")
    with refused if host in OTHERS else nullcontext():
        connect({"kubeconfig": kubeconfig(f"https://{host}:6443")}, {})


class _Version(Json, BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(200, {"major": "1"})


@pytest.fixture
def guarded() -> Iterator[str]:
    """The kubeconfig of a server that requires a client certificate."""
    authority = trustme.CA()
    ours = authority.issue_cert("engine@example.com")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    with serving(_Version, context) as port:
        yield kubeconfig(
            f"https://127.0.0.1:{port}",
            {"certificate-authority-data": _base64(authority.cert_pem.bytes())},
            **{
                "client-certificate-data": _base64(ours.cert_chain_pems[0].bytes()),
                "client-key-data": _base64(ours.private_key_pem.bytes()),
            },
        )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_no_key_stays_on_the_disk(guarded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process can't clean up."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert Cluster({"kubeconfig": guarded}, {}).get("/version") == {"major": "1"}
    assert list(tmp_path.iterdir()) == []


def test_an_invalid_client_key(guarded: str) -> None:
    broken = json.loads(guarded)
    broken["users"][0]["user"]["client-key-data"] = _base64(b"no key")
    with pytest.raises(ProviderError, match="the kubeconfig can't be used"):
        Cluster({"kubeconfig": json.dumps(broken)}, {}).get("/version")
