"""Pushing: to the real registry of the project Distribution, and to one that is made up where it is odd."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import requests
from ports import free_port

from image import credentials
from image.credentials import Credentials
from image.errors import RegistryError, VariableError
from image.layer import make_layer
from image.oci import describe, index_of
from image.platforms import PLATFORMS
from image.registry import Registry, Target, _Header, parse_target
from image.tree import File
from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import REGISTRY
from sandbox.kubernetes.errors import GoMissingError
from sandbox.site import cache_directory
from tests.prepared import missing

LAYER = make_layer({"file": File(b"content")}, epoch=0)
IMAGES = [describe(platform, [LAYER], {}, {}, epoch=0) for platform in PLATFORMS]
INDEX = index_of(IMAGES, {})
MANIFESTS = [image.manifest for image in IMAGES]
BLOBS = [blob for image in IMAGES for blob in image.blobs]
ME = Credentials("me", "secret word")
# of "secret word", by: htpasswd -nbB me "secret word"
HTPASSWD = "me:$2a$05$QvV3xfhWig3hJcjwx4LsX.ktapJZEZhSkWhZJ.ZPTrgNutPE6mHke\n"


def push(target, who=None):
    return Registry(target, who, sleep=lambda _: None).push(INDEX, MANIFESTS, BLOBS)


@pytest.fixture
def real(tmp_path):
    """The real registry on loopback, which wants to know who we are."""
    try:
        program = toolchain.ensure(cache_directory(os.environ), print, [REGISTRY]).bin / "registry"
    except GoMissingError as error:
        missing(error)
    (tmp_path / "htpasswd").write_text(HTPASSWD)
    port = free_port()
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "store")}},
        "http": {"addr": f"127.0.0.1:{port}", "secret": "s"},
        "auth": {"htpasswd": {"realm": "here", "path": str(tmp_path / "htpasswd")}},
    }
    (tmp_path / "config.json").write_text(json.dumps(settings))  # YAML, too
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([program, "serve", tmp_path / "config.json"], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                requests.get(f"http://127.0.0.1:{port}/v2/", timeout=60)
                break
            except requests.ConnectionError:
                assert process.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield Target(f"127.0.0.1:{port}", "me/ccm", "1.0")
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
def test_a_real_registry_gives_back_what_was_pushed(real):
    assert push(real, ME) == 3  # the layer is of both images
    answer = requests.get(
        f"{real.root}/manifests/1.0",
        headers={"Accept": INDEX.media_type},
        auth=("me", "secret word"),
        timeout=60,
    )
    assert answer.content == INDEX.content
    assert answer.headers["Docker-Content-Digest"] == INDEX.digest
    layer = requests.get(f"{real.root}/blobs/{BLOBS[1].digest}", auth=("me", "secret word"), timeout=60)
    assert layer.content == LAYER.content


@pytest.mark.slow
def test_what_a_registry_has_is_not_sent_again(real):
    push(real, ME)
    assert push(Target(real.registry, real.name, "1.1"), ME) == 0


@pytest.mark.slow
def test_a_real_registry_refuses_strangers(real):
    with pytest.raises(RegistryError, match="wants to know who you are: type 'docker login'"):
        push(real)
    with pytest.raises(RegistryError, match=r"refused .* with HTTP 401") as caught:
        push(real, Credentials("me", "wrong password"))
    assert "wrong password" not in str(caught.value)


class Odd:
    """A registry that asks for a token, and sends uploads to another host; `troubles` are answered first."""

    def __init__(self):
        self.troubles: list[int] = []
        self.seen: list[tuple[str, str, str | None]] = []
        self.forms: list[dict[str, list[str]]] = []
        self.content: dict[str, bytes] = {}
        self.realm = "http://127.0.0.1:{port}/token"
        self.uploads = ""
        self.has = 200
        self.token_status = 200
        self.token: object = {"token": "T"}

    def handler(odd):  # noqa: C901, N805 (one method a kind of request)
        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self):
                self.serve()

            do_GET = do_POST = do_PUT = do_HEAD  # noqa: N815

            def serve(self):
                path, _, query = self.path.partition("?")
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                odd.seen.append((self.command, path, self.headers["Authorization"]))
                if path == "/token":
                    odd.forms.append(parse_qs(body.decode() or query))
                    return self.answer(odd.token_status, json.dumps(odd.token).encode())
                if odd.troubles:
                    return self.answer(odd.troubles.pop(0))
                if not path.startswith("/elsewhere") and self.headers["Authorization"] != "Bearer T":
                    realm = odd.realm.format(port=self.server.server_port)
                    challenge = f'Bearer realm="{realm}",service="odd",scope="repository:me/ccm:pull,push"'
                    return self.answer(401, headers={"WWW-Authenticate": challenge})
                return self.repository(path, query, body)

            def repository(self, path, query, body):
                name = path.rsplit("/", 1)[1]
                if self.command == "HEAD":
                    return self.answer(odd.has if name in odd.content else 404)
                if self.command == "POST":
                    return self.answer(202, headers={"Location": f"{odd.uploads}/elsewhere/7?state=x"})
                digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
                if path.startswith("/elsewhere") and parse_qs(query)["digest"] != [digest]:
                    return self.answer(400)
                odd.content[digest] = body
                return self.answer(201)

            def answer(self, status, body=b"", headers=None):
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        return Handler


@pytest.fixture
def odd():
    registry = Odd()
    with ThreadingHTTPServer(("127.0.0.1", 0), registry.handler()) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        registry.target = Target(f"127.0.0.1:{server.server_port}", "me/ccm", "1.0")
        registry.port = server.server_port
        yield registry
        server.shutdown()
        thread.join()


def test_a_token_is_asked_for_once(odd):
    assert push(odd.target, ME) == 3
    assert {blob.digest for blob in [*BLOBS, *MANIFESTS, INDEX]} == odd.content.keys()
    (asked,) = [who for _, path, who in odd.seen if path == "/token"]
    assert base64.b64decode(asked.removeprefix("Basic ")) == b"me:secret word"
    assert odd.forms == [{"service": ["odd"], "scope": ["repository:me/ccm:pull,push"]}]


def test_an_identity_token_is_changed_into_one(odd):
    push(odd.target, Credentials("", "identity"))
    assert odd.forms[0]["refresh_token"] == ["identity"]
    assert odd.forms[0]["grant_type"] == ["refresh_token"]


def test_a_strangers_host_gets_no_credentials(odd):
    odd.uploads = f"http://localhost:{odd.port}"
    push(odd.target, ME)
    assert {who for _, path, who in odd.seen if path.startswith("/elsewhere")} == {None}


@pytest.mark.parametrize("status", [302, 307])
def test_a_layer_that_is_kept_in_another_store_is_there(odd, status):
    push(odd.target, ME)
    odd.has = status
    assert push(odd.target, ME) == 0


def test_short_troubles_are_waited_for(odd):
    odd.troubles = [503, 429, 500]
    assert push(odd.target, ME) == 3


def test_long_troubles_have_an_end(odd):
    odd.troubles = [503] * 50
    with pytest.raises(RegistryError, match="HTTP 503"):
        push(odd.target, ME)
    assert len(odd.troubles) == 45


def test_a_password_never_travels_without_tls(odd):
    odd.realm = "http://auth.example.com/token"
    with pytest.raises(RegistryError, match="without TLS"):
        push(odd.target, ME)


def test_what_is_no_address_is_named(odd):
    odd.uploads = "https://[registry"
    with pytest.raises(RegistryError, match=r"names an address that is none: 'https://\[registry/elsewhere"):
        push(odd.target, ME)
    odd.realm = "https://[auth"
    with pytest.raises(RegistryError, match=r"names an address that is none: 'https://\[auth'"):
        push(odd.target, ME)


def test_an_answer_without_a_token_is_refused(odd):
    odd.token = ["T"]
    with pytest.raises(RegistryError, match=r"refused to log in .* with HTTP 200"):
        push(odd.target, ME)


@pytest.mark.parametrize("place", ["http://registry.example.com", "HTTP://10.0.0.1:5000", "ftp://127.0.0.1"])
def test_a_layer_never_travels_without_tls(odd, place):
    odd.uploads = place
    with pytest.raises(RegistryError, match=r"wants layers sent without TLS, to '.*/elsewhere/7'") as caught:
        push(odd.target, ME)
    assert "state=x" not in str(caught.value)
    assert {command for command, _, _ in odd.seen if command == "PUT"} == set()


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("https://registry.example.com/v2/me/ccm", "Bearer T"),
        ("http://registry.example.com/v2/me/ccm", None),
        ("https://registry.example.com:444/v2/me/ccm", None),
    ],
)
def test_what_is_for_a_host_with_tls_is_not_for_the_same_host_without(address, told):
    header = _Header(("https", "registry.example.com"), "Bearer T")
    prepared = requests.Request("PUT", address, auth=header).prepare()
    assert prepared.headers.get("Authorization") == told


def test_no_proxy_is_asked_for_this_machine(odd, monkeypatch):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert push(odd.target, ME) == 3


def test_wrong_credentials_are_told_without_them(odd):
    odd.token_status = 401
    with pytest.raises(RegistryError, match="refused to log in for me/ccm with HTTP 401") as caught:
        push(odd.target, ME)
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(ME)


def test_a_registry_that_is_not_there():
    with pytest.raises(RegistryError, match="did not answer HEAD"):
        push(Target("127.0.0.1:1", "me/ccm", "1"))


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("registry.example.com/me/ccm:1.0", "https://registry.example.com/v2/me/ccm"),
        ("docker.io/me/ccm:1.0", "https://registry-1.docker.io/v2/me/ccm"),
        ("localhost:5000/ccm:latest", "http://localhost:5000/v2/ccm"),
        ("registry.example.com:5000/a/b-c/d__e:x", "https://registry.example.com:5000/v2/a/b-c/d__e"),
    ],
)
def test_targets(text, root):
    assert parse_target(text).root == root
    assert str(parse_target(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "ccm:1",
        "me/ccm:1",
        "registry.example.com/me/ccm",
        "registry.example.com/Me/ccm:1",
        "https://registry.example.com/a:1",
        "",
    ],
)
def test_what_is_no_target(text):
    with pytest.raises(RegistryError, match="is no REGISTRY/NAME:TAG"):
        parse_target(text)


def docker(folder: Path, content) -> dict[str, str]:
    (folder / "config.json").write_text(json.dumps(content))
    return {"DOCKER_CONFIG": str(folder)}


def test_the_environment_comes_first(tmp_path):
    environment = docker(
        tmp_path, {"auths": {"registry.example.com": {"auth": base64.b64encode(b"a:b").decode()}}}
    )
    assert credentials.find("registry.example.com", environment) == Credentials("a", "b")
    with pytest.raises(VariableError, match=r"USERNAME='me': has to be given together with .*PASSWORD"):
        credentials.find("registry.example.com", environment | {credentials.USERNAME: "me"})
    environment |= {credentials.USERNAME: "me", credentials.PASSWORD: "p"}
    assert credentials.find("registry.example.com", environment) == Credentials("me", "p")


def test_where_nobody_has_logged_in(tmp_path):
    assert credentials.find("registry.example.com", {"HOME": str(tmp_path)}) is None
    assert (
        credentials.find("other.example.com", docker(tmp_path, {"auths": {"registry.example.com": {}}}))
        is None
    )


def test_docker_keeps_its_own_registry_under_another_name(tmp_path):
    entry = {"identitytoken": "T"}
    environment = docker(tmp_path, {"auths": {"https://index.docker.io/v1/": entry}})
    assert credentials.find("docker.io", environment) == Credentials("", "T")


def test_a_helper_is_asked(tmp_path):
    asked = []

    def ask(helper, registry):
        asked.append((helper, registry))
        return json.dumps({"Username": "me", "Secret": "p"}) if registry == "registry.example.com" else None

    environment = docker(tmp_path, {"credsStore": "all", "credHelpers": {"registry.example.com": "own"}})
    assert credentials.find("registry.example.com", environment, ask) == Credentials("me", "p")
    assert credentials.find("other.example.com", environment, ask) is None
    assert asked == [("own", "registry.example.com"), ("all", "other.example.com")]


def test_a_helper_that_is_not_there_is_named(tmp_path):
    environment = docker(tmp_path, {"credsStore": "nonsense"})
    with pytest.raises(RegistryError, match="docker-credential-nonsense failed"):
        credentials.find("registry.example.com", environment)


@pytest.mark.parametrize("auth", ["no base64!", base64.b64encode(b"\xff").decode()])
def test_a_broken_entry_is_told_without_it(tmp_path, auth):
    environment = docker(tmp_path, {"auths": {"registry.example.com": {"auth": auth}}})
    with pytest.raises(RegistryError, match="has an entry in Docker's file that can't be read") as caught:
        credentials.find("registry.example.com", environment)
    assert auth not in str(caught.value)


@pytest.mark.parametrize(
    "content", [{"auths": None}, {"auths": {"registry.example.com": None}}, {"credHelpers": None}]
)
def test_what_docker_left_empty_is_nobody(tmp_path, content):
    assert credentials.find("registry.example.com", docker(tmp_path, content)) is None


@pytest.mark.parametrize("answer", ["p4ssword", "[]", '{"Secret": "p4ssword"}'])
def test_what_a_helper_should_not_say_is_told_without_it(tmp_path, answer):
    environment = docker(tmp_path, {"credsStore": "odd"})
    with pytest.raises(RegistryError, match="docker-credential-odd gave no user and secret") as caught:
        credentials.find("registry.example.com", environment, lambda *_: answer)
    assert caught.value.__suppress_context__
    assert "p4ssword" not in str(caught.value)
