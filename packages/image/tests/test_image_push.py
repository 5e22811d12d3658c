import base64
import json
import os
import subprocess
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import pytest

from image.errors import RegistryError, VariableError
from image.layer import make_layer
from image.oci import describe, index_of
from image.platforms import PLATFORMS
from image.registry import PASSWORD, USERNAME, Target, parse_target, push
from image.tree import File
from sandbox.kubernetes.components import CRANE, REGISTRY
from tests import prepared
from tests.http_server import Json, serving
from tests.ports import free_port, listens
from tests.waiting import wait

LAYER = make_layer({"file": File(b"content")}, epoch=0)
IMAGES = [describe(platform, [LAYER], {}, {}, epoch=0) for platform in PLATFORMS]
INDEX = index_of(IMAGES, {})
MANIFESTS = [image.manifest for image in IMAGES]
BLOBS = [blob for image in IMAGES for blob in image.blobs]
ME = {USERNAME: "me", PASSWORD: "secret word"}
# of "secret word", by: htpasswd -nbB me "secret word"
HTPASSWD = "me:$2a$05$QvV3xfhWig3hJcjwx4LsX.ktapJZEZhSkWhZJ.ZPTrgNutPE6mHke\n"


def send(programs, target, variables):
    own = {"PATH": os.environ["PATH"], "HOME": "/nowhere", **variables}
    push(programs / "crane", target, INDEX, [*MANIFESTS, *BLOBS], own)


@pytest.fixture(scope="module")
def programs():
    return prepared.programs(REGISTRY, CRANE)


@pytest.fixture
def real(programs, tmp_path):
    """The real registry on loopback, which wants to know who we are."""
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
        command = [programs / "registry", "serve", tmp_path / "config.json"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait(lambda: listens(port) or process.poll() is not None)
        assert process.poll() is None, (tmp_path / "log").read_text()
        yield Target(f"127.0.0.1:{port}", "me/ccm", "1.0")
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
def test_a_real_registry_refuses_strangers(programs, real):
    with pytest.raises(RegistryError, match="Run 'docker login'"):
        send(programs, real, {})
    with pytest.raises(RegistryError, match="Run 'docker login'") as caught:
        send(programs, real, {USERNAME: "me", PASSWORD: "wrong password"})
    assert "wrong password" not in str(caught.value)


class Proxy(Json, BaseHTTPRequestHandler):
    """Leads nowhere, and notes what it was asked for."""

    asked: ClassVar[list[str]] = []

    def do_CONNECT(self):
        self.asked.append(self.command)
        self.send_error(502)

    do_HEAD = do_GET = do_POST = do_PUT = do_CONNECT  # noqa: N815


@pytest.mark.slow
@pytest.mark.parametrize("registry", ["10.0.0.1:5000", "registry.local", "registry.example.com"])
def test_without_tls_nothing_leaves_this_machine(programs, registry):
    with serving(Proxy) as port:
        Proxy.asked.clear()
        proxies = {f"{kind}_PROXY": f"http://127.0.0.1:{port}" for kind in ("HTTP", "HTTPS")}
        with pytest.raises(RegistryError, match="rejected the image me/ccm"):
            send(programs, Target(registry, "me/ccm", "1"), {**ME, **proxies})
    assert set(Proxy.asked) == {"CONNECT"}


TARGETS = "registry.example.com/me/ccm:1.0 docker.io/me/ccm:1.0 localhost:5000/ccm:latest [::1]:5000/a:x"
OTHERS = "ccm:1 me/ccm:1 registry.example.com/me/ccm registry.example.com/Me/ccm:1 https://a.example.com/a:1"


@pytest.mark.parametrize("text", TARGETS.split())
def test_targets(text):
    assert str(parse_target(text)) == text


@pytest.mark.parametrize("text", [*OTHERS.split(), ""])
def test_what_is_no_target(text):
    with pytest.raises(RegistryError, match="isn't REGISTRY/NAME:TAG"):
        parse_target(text)


def test_a_username_needs_its_password():
    with pytest.raises(VariableError, match=r"USERNAME='me': must be given together with .*PASSWORD"):
        send(Path("/nowhere"), Target("registry.example.com", "me/ccm", "1"), {USERNAME: "me"})


@pytest.mark.slow
def test_what_docker_keeps_is_used_where_the_environment_says_nothing(programs, real, tmp_path):
    login = {"auths": {real.registry: {"auth": base64.b64encode(b"me:secret word").decode()}}}
    (tmp_path / "config.json").write_text(json.dumps(login))
    docker = {"DOCKER_CONFIG": str(tmp_path)}
    for variables in (docker, docker, ME):  # what is there already does no harm
        send(programs, real, variables)
    with pytest.raises(RegistryError):
        send(programs, real, {**docker, USERNAME: "me", PASSWORD: "another"})
