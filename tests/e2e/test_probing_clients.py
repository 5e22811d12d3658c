"""Clients that ask all the time: what they note of a server that answers only some of them."""

from __future__ import annotations

import base64
import itertools
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme
import yaml

from tests.e2e.probing_clients import LEASE, OBJECT, Api, ApiClient, ServiceClient


class Sometimes(BaseHTTPRequestHandler):
    """Answers two of three requests, and knows who holds the lease."""

    numbers = itertools.count()
    enough = threading.Event()

    def do_GET(self) -> None:
        number = next(self.numbers)
        if number > 20:
            self.enough.set()
        lease = json.dumps({"spec": {"holderIdentity": "somebody"}}).encode()
        found = self.path == LEASE or number % 3
        self.send_response(200 if found else 503)
        self.send_header("Content-Length", str(len(lease)))
        self.end_headers()
        self.wfile.write(lease)

    def log_message(self, *_: object) -> None:
        pass


class Quiet(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        pass


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[tuple[int, type[Sometimes]]]:
    handler = type("Handler", (Sometimes,), {"numbers": itertools.count(), "enough": threading.Event()})
    with Quiet(("127.0.0.1", 0), handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port, handler
        finally:
            server.shutdown()
            thread.join()


def kubeconfig(folder: Path, port: int, authority: trustme.CA, user: trustme.LeafCert) -> Path:
    def data(blob: trustme.Blob) -> str:
        return base64.b64encode(blob.bytes()).decode()

    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": data(authority.cert_pem)}
    client = {
        "client-certificate-data": data(user.cert_chain_pems[0]),
        "client-key-data": data(user.private_key_pem),
    }
    file = folder / "kubeconfig.yaml"
    file.write_text(yaml.safe_dump({"clusters": [{"cluster": cluster}], "users": [{"user": client}]}))
    return file


def test_what_a_service_does_not_answer_is_lost() -> None:
    with serving() as (port, handler), ServiceClient(f"http://127.0.0.1:{port}/") as client:
        assert handler.enough.wait(60)
    assert len(client.calls) == client.answered + len(client.lost)
    assert len(client.calls) // 3 - 1 <= len(client.lost) <= len(client.calls) // 3 + 1
    assert all("503" in why for _, why in client.lost)
    assert [call.began for call in client.calls] == sorted(call.began for call in client.calls)


def test_the_api_is_asked_with_the_certificate_of_the_kubeconfig(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    with serving(context) as (port, handler):
        api = Api(kubeconfig(tmp_path, port, authority, authority.issue_cert("user@example.com")))
        assert api.lease_holder() == "somebody"
        with ApiClient(api.reads) as asking:
            assert handler.enough.wait(60)
        stranger = trustme.CA().issue_cert("user@example.com")
        assert Api(kubeconfig(tmp_path, port, authority, stranger)).get(OBJECT) is None
    answered = [call.answered for call in asking.calls]
    assert {True, False} == set(answered)


@pytest.mark.parametrize("path", [OBJECT, LEASE])
def test_an_api_that_is_not_there_answers_nothing(tmp_path: Path, path: str) -> None:
    authority = trustme.CA()
    api = Api(kubeconfig(tmp_path, 9, authority, authority.issue_cert("user@example.com")))
    assert api.get(path) is None
    assert not api.reads()
    assert api.lease_holder() == ""
