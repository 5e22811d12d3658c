"""The server's side of joining: issues certificates in exchange for token and node password.

k3s answers agents on the API server's port; here it is the next one, as the API server is a separate program.
Paths and headers are k3s's.
"""

from __future__ import annotations

import hmac
import json
import re
import ssl
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from k3s_standin import bootstrap, log, nodepassword, pki, snapshots
from k3s_standin.api import ApiClient, ApiError
from k3s_standin.certificates import CertificateError, is_address, request_subject
from k3s_standin.errors import K3sError
from k3s_standin.etcd import Member, describe
from k3s_standin.kubelet import ClusterFacts
from k3s_standin.pki import Pki
from k3s_standin.protocol import NODE_IP, NODE_NAME, NODE_PASSWORD, SERVER, basic, is_node_name
from k3s_standin.snapshots import Snapshots

_LARGEST_REQUEST = 1 << 16
_TIMEOUT_SECONDS = 10


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    body: bytes


_UNAUTHORIZED = Answer(401, b"Unauthorized: the token is wrong")


@dataclass(frozen=True)
class Servers:
    """Responses to further servers of the cluster."""

    password: str  # of the token of servers
    critical: Mapping[str, str]  # flags whose values all servers must share
    # The authorities and keys of the cluster, as JSON; None for a private datastore.
    files: Callable[[], bytes] | None
    members: Callable[[], Sequence[Member]]  # those of etcd
    snapshots: Snapshots | None = None  # of etcd; None for a private datastore

    def post(self, body: bytes) -> Answer:
        """Answer a request of ``k3s etcd-snapshot``."""
        if self.snapshots is None:
            return Answer(400, snapshots.DISABLED.encode())
        try:
            return Answer(200, json.dumps(self.snapshots.answer(snapshots.read_request(body))).encode())
        except (K3sError, ApiError, OSError, LookupError, ValueError, TypeError, OverflowError) as error:
            return Answer(500, str(error).encode(errors="replace"))

    def get(self, path: str) -> Answer:
        """Answer a GET request of a server."""
        if path == bootstrap.CONFIG:
            return Answer(200, json.dumps(self.critical).encode())
        if self.files is None:
            return Answer(400, b"this server has a private datastore: others join one with --cluster-init")
        if path == bootstrap.PATH:
            return Answer(200, self.files())
        return self._members() if path == bootstrap.MEMBERS else Answer(404, b"not found")

    def _members(self) -> Answer:
        try:
            found = [describe(member) for member in self.members()]
        except ApiError as error:
            return Answer(503, f"etcd is not ready: {error}".encode())
        return Answer(200, json.dumps({"members": found}).encode())


@dataclass(frozen=True)
class Registration:
    """Answers requests."""

    pki: Pki  # signs
    password: str  # of the token of agents: the server's, unless there is an agent token
    facts: ClusterFacts  # what nodes receive
    api: ApiClient  # the API server with an administrator's rights; stores node passwords
    servers: Servers | None = None  # responses to further servers; None if no server can join

    def get(self, path: str, authorization: str) -> Answer:
        """Answer a GET request."""
        if path == "/ping":
            return Answer(200, b"pong")
        if path == "/cacerts":
            return Answer(200, self.pki.server_authority.certificate.read_bytes())
        if self.servers and _is(authorization, basic(self.servers.password, SERVER)):
            return self.servers.get(path)
        return self._get_of_node(path) if self._allowed(authorization) else _UNAUTHORIZED

    def _get_of_node(self, path: str) -> Answer:
        if path in {bootstrap.PATH, bootstrap.MEMBERS}:
            return Answer(403, b"Forbidden: this needs the token of servers")
        if path == "/v1-k3s/client-ca.crt":
            return Answer(200, self.pki.client_authority.certificate.read_bytes())
        if path == bootstrap.CONFIG:
            return Answer(200, json.dumps(asdict(self.facts)).encode())
        return Answer(404, b"not found")

    def post(self, path: str, headers: Any, body: bytes) -> Answer:
        """Answer a POST request: sign a certificate request, or make a snapshot."""
        authorization = headers.get("Authorization", "")
        if path == snapshots.PATH:
            of_server = self.servers and _is(authorization, basic(self.servers.password, SERVER))
            return self.servers.post(body) if self.servers and of_server else _UNAUTHORIZED
        return self._certificate(path, headers, body) if self._allowed(authorization) else _UNAUTHORIZED

    def _certificate(self, path: str, headers: Any, body: bytes) -> Answer:
        node, password = headers.get(NODE_NAME, ""), headers.get(NODE_PASSWORD, "")
        if not is_node_name(node) or not password:
            return Answer(400, b"the node's password or name is missing, or the name is invalid")
        try:
            if not nodepassword.claim(self.api, node, password):
                return Answer(
                    403, f"Node password rejected: another machine already uses the node name {node}".encode()
                )
            return self._sign(path, node, headers.get(NODE_IP, ""), body.decode("ascii"))
        except ApiError as error:
            return Answer(503, f"the API server is not ready: {error}".encode())
        except (CertificateError, UnicodeDecodeError) as error:
            return Answer(400, str(error).encode())

    def _sign(self, path: str, node: str, addresses: str, request: str) -> Answer:
        subjects = {
            "/v1-k3s/client-kubelet.crt": f"CN=system:node:{node},O=system:nodes",
            "/v1-k3s/serving-kubelet.crt": f"CN={node}",
            "/v1-k3s/client-kube-proxy.crt": "CN=system:kube-proxy",
            "/v1-k3s/client-k3s-controller.crt": "CN=system:k3s-controller",
        }
        if path not in subjects:
            return Answer(404, b"not found")
        if wrong := [one for one in _given(addresses) if not is_address(one)]:
            return Answer(400, f"invalid node IP address {wrong[0]}".encode())
        found = request_subject(request)
        if found != subjects[path]:
            return Answer(
                403,
                f"the certificate request has the subject {found}, but must have the subject "
                f"{subjects[path]}".encode(),
            )
        if path.startswith("/v1-k3s/serving"):
            names = (node, "localhost", "127.0.0.1", *_given(addresses))
            return Answer(200, self.pki.server_authority.sign(request, server=names, client=False).encode())
        return Answer(200, self.pki.client_authority.sign(request).encode())

    def _allowed(self, authorization: str) -> bool:
        return _is(authorization, basic(self.password))


def _given(addresses: str) -> list[str]:
    return [one for one in addresses.split(",") if one]


def _is(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


class _Server(ThreadingHTTPServer):
    """A thread per connection; logs broken connections in one line."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a client that disconnected, or didn't use TLS; anything else is a bug, with its stack."""
        error = sys.exception()
        if isinstance(error, OSError):
            log.info(f"connection of {client_address[0]} ended: {error}")
        else:
            super().handle_error(request, client_address)


def serve(registration: Registration, address: str, port: int) -> Callable[[], None]:
    """Answer requests in threads until the returned function is called; OSError if the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT_SECONDS

        def do_GET(self) -> None:
            self._answer(registration.get(self.path, self.headers.get("Authorization", "")))

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not re.fullmatch("[0-9]{1,9}", length) or int(length) > _LARGEST_REQUEST:
                self._answer(Answer(400, b"the length is missing or too large"))
                return
            self._answer(registration.post(self.path, self.headers, self.rfile.read(int(length))))

        def _answer(self, answer: Answer) -> None:
            if answer.status >= 400 and answer.status != 503:
                log.warning(f"{self.command} {self.path} of {self.client_address[0]}: {answer.body.decode()}")
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: Any, **__: Any) -> None:
            """Only refusals are logged."""

    server = _Server((address, port), Handler)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(registration.pki.certificate(pki.SERVING), registration.pki.key(pki.SERVING))
    # The handshake runs in the connection's thread: a silent client must not block others.
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="registration", daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        thread.join()
        server.server_close()

    return stop
