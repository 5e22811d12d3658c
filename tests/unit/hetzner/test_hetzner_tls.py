"""Whom connections to the API trust, against a server with a certificate of its own authority."""

from __future__ import annotations

import os
import ssl
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
import trustme
from packaging.requirements import Requirement

from ccm.hetzner.api.tls import SharedTrust


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    http.socket = context.wrap_socket(http.socket, server_side=True)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield f"https://localhost:{http.server_port}"
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as one:
        one.mount("https://", SharedTrust())
        yield one


@pytest.fixture
def bundle(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What REQUESTS_CA_BUNDLE names."""
    path = tmp_path / "authorities.pem"
    authority.cert_pem.write_to_path(path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(path))
    return path


@pytest.mark.usefixtures("bundle")
def test_a_server_of_the_named_authority_is_trusted(session: requests.Session, server: str) -> None:
    assert session.get(server, timeout=60).status_code == 200


def test_a_server_of_an_unknown_authority_is_not(session: requests.Session, server: str) -> None:
    with pytest.raises(requests.exceptions.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        session.get(server, timeout=60)


@pytest.mark.usefixtures("bundle")
def test_a_certificate_for_another_name_is_refused(session: requests.Session, server: str) -> None:
    with pytest.raises(requests.exceptions.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        session.get(server.replace("localhost", "127.0.0.1"), timeout=60)


def test_the_bundle_is_read_once_for_all_connections(
    session: requests.Session, server: str, bundle: Path
) -> None:
    stamp = bundle.stat()
    assert session.get(server, headers={"Connection": "close"}, timeout=60).ok
    # Who read it again would find that nobody is trusted.
    bundle.write_bytes(trustme.CA().cert_pem.bytes())
    os.utime(bundle, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert session.get(server, headers={"Connection": "close"}, timeout=60).ok


def test_a_changed_bundle_takes_effect_at_once(session: requests.Session, server: str, bundle: Path) -> None:
    assert session.get(server, timeout=60).ok
    bundle.write_bytes(trustme.CA().cert_pem.bytes())
    os.utime(bundle, ns=(1, 1))
    with pytest.raises(requests.exceptions.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        session.get(server, timeout=60)


def test_a_bundle_that_is_not_there_is_an_error_of_tls(
    session: requests.Session, server: str, bundle: Path
) -> None:
    bundle.write_text("no certificate")
    with pytest.raises(requests.exceptions.SSLError, match=r"authorities\.pem"):
        session.get(server, timeout=60)


def test_no_requests_is_accepted_that_would_never_ask_whom_we_trust() -> None:
    """2.32.3 is the first that asks; with an older one, which hcloud takes, no bundle would count."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    named = {one.name: one.specifier for one in map(Requirement, project["dependencies"])}
    assert not named["requests"].contains("2.32.2")
