import asyncio
import os
import socket
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from ccmfs_common.peers import user_of
from image import registry as pushing
from image.layer import make_layer
from image.oci import describe, index_of, write_layout
from image.platforms import PLATFORMS
from image.registry import Target
from image.tree import File
from sandbox.images.registry import Registry
from sandbox.kubernetes.components import CRANE, REGISTRY
from sandbox.kubernetes_tests import images, recipe
from tests.prepared import programs

LAYER = make_layer({"file": File(os.urandom(3 * 1024 * 1024))}, epoch=0)
IMAGE = describe(PLATFORMS[0], [LAYER], {}, {}, epoch=0)
INDEX = index_of([IMAGE], {})
ACCEPT = {"Accept": INDEX.media_type}
BLOB = next(blob for blob in IMAGE.blobs if blob.content == LAYER.content)


@pytest.fixture(scope="module")
def program():
    return programs(REGISTRY, CRANE) / "registry"


@asynccontextmanager
async def served(registry, *middlewares):
    app = web.Application(middlewares=middlewares)
    registry.add_to(app)
    async with TestServer(app, host="127.0.0.1") as server, aiohttp.ClientSession() as client:
        yield f"http://127.0.0.1:{server.port}", client


@pytest.fixture
def address():
    """A short path, because sockets need one."""
    with tempfile.TemporaryDirectory(prefix="ccmfs-") as folder:
        yield Path(folder) / "registry"


def push(program, root, name):
    target = Target(root.removeprefix("http://"), name, "1")
    pushing.push(program.with_name("crane"), target, INDEX, [IMAGE.manifest, *IMAGE.blobs])


async def is_there(client, url):
    async with client.head(url, headers=ACCEPT) as answer:
        return answer.status == 200


@pytest.mark.slow
async def test_pushed_images_have_full_names(program, tmp_path, address):
    registry = Registry(program, tmp_path / "kept", address, {os.geteuid()})
    async with served(registry) as (root, client):
        assert not (tmp_path / "kept").exists(), "it starts at the first request"
        await asyncio.to_thread(push, program, root, "app")
        for name in ("app", "library/app"):
            async with client.get(f"{root}/v2/{name}/manifests/1", headers=ACCEPT) as answer:
                assert await answer.read() == INDEX.content
                assert answer.headers["Docker-Content-Digest"] == INDEX.digest
            async with client.get(f"{root}/v2/{name}/blobs/{BLOB.digest}") as answer:
                assert await answer.read() == LAYER.content
        assert not await is_there(client, f"{root}/v2/other/manifests/1")


@pytest.mark.slow
async def test_a_missing_image_has_an_explanation(program, tmp_path, address):
    """containerd says with ``ns`` that it looks here before it asks that registry."""
    registry = Registry(program, tmp_path, address, {os.geteuid()}, "no Internet: ./dev load it")
    async with served(registry) as (root, client):
        for path, status, reason in (
            ("manifests/1?ns=docker.io", 403, "no Internet: ./dev load it"),
            ("manifests/1", 404, "Not Found"),
            (f"blobs/{BLOB.digest}?ns=docker.io", 404, "Not Found"),
        ):
            async with client.head(f"{root}/v2/library/app/{path}") as answer:
                assert (answer.status, answer.reason) == (status, reason)
        async with client.get(f"{root}/v2/library/app/manifests/1?ns=docker.io") as answer:
            assert (await answer.json())["errors"][0]["message"] == "no Internet: ./dev load it"
        await asyncio.to_thread(push, program, root, "app")
        assert await is_there(client, f"{root}/v2/library/app/manifests/1?ns=docker.io")


@pytest.mark.slow
async def test_images_of_kubernetes_tests(program, tmp_path, address, monkeypatch):
    """Under the name in its registry, out of an archive that has other images, too."""
    other = describe(PLATFORMS[1], [LAYER], {}, {}, epoch=0)
    with (tmp_path / "images.tar").open("wb") as file:
        named = {"registry.k8s.io/other:1": other.manifest, "registry.k8s.io/of/it:1": IMAGE.manifest}
        write_layout(named, [*IMAGE.blobs, *other.blobs], file)
    monkeypatch.setattr(recipe, "PULLED", ("of/it:1",))
    registry = Registry(program, tmp_path / "kept", address, {os.geteuid()}, "no Internet")
    async with served(registry) as (root, client):
        where = f"{root}/v2/of/it/manifests/1?ns=registry.k8s.io"
        for _ in range(2):
            crane, archive = program.with_name("crane"), tmp_path / "images.tar"
            await asyncio.to_thread(images.bring, crane, archive, root.removeprefix("http://"))
        async with client.get(where, headers={"Accept": IMAGE.manifest.media_type}) as answer:
            assert await answer.read() == IMAGE.manifest.content
        async with client.get(f"{root}/v2/of/it/blobs/{BLOB.digest}") as answer:
            assert await answer.read() == LAYER.content


@pytest.mark.slow
async def test_a_dead_registry_is_started_again(program, tmp_path, address):
    registry = Registry(program, tmp_path, address, {os.geteuid()})
    async with served(registry) as (root, client):
        await asyncio.to_thread(push, program, root, "app")
        process = registry._process
        process.kill()
        await process.wait()
        assert await is_there(client, f"{root}/v2/app/manifests/1")
    with socket.socket(socket.AF_UNIX) as connection, pytest.raises(OSError):
        connection.connect(str(address))


async def test_other_users_are_refused(tmp_path, address):
    registry = Registry(tmp_path / "none", tmp_path / "kept", address, {os.geteuid() + 1})
    async with served(registry) as (root, client), client.get(f"{root}/v2/") as answer:
        assert answer.status == 403
        assert (await answer.json())["errors"][0]["code"] == "DENIED"
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(("program", "said"), [(None, "./dev setup"), (Path("/bin/false"), "/log")])
async def test_a_registry_that_does_not_start(tmp_path, address, program, said):
    registry = Registry(program, tmp_path, address, {os.geteuid()})
    async with served(registry) as (root, client), client.get(f"{root}/v2/") as answer:
        assert answer.status == 503
        assert said in (await answer.json())["errors"][0]["message"]


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")]
)
def test_the_user_of_an_open_and_of_a_closed_connection(family, host):
    """The kernel shows user 0 for a closed one, which has all permissions, although data may be left."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with socket.socket(family) as client:
            client.connect((host, listening.getsockname()[1]))
            accepted, peer = listening.accept()
            assert user_of(peer, listening.getsockname()) == os.geteuid()
            assert user_of(("127.0.0.1", 1), listening.getsockname()) is None
            client.sendall(b"DELETE")
        with accepted:
            accepted.settimeout(60)
            assert (accepted.recv(10), accepted.recv(10)) == (b"DELETE", b"")
            assert user_of(peer, accepted.getsockname()) is None


IDLE_SECONDS = 5.0  # transfers that stand still are to be over, and the program answers before


@pytest.mark.slow
async def test_a_stalled_upload_is_closed(program, tmp_path, address):
    registry = Registry(program, tmp_path, address, {os.geteuid()}, idle_seconds=IDLE_SECONDS)

    async def upload():
        yield b"some"
        await asyncio.Event().wait()

    async with served(registry) as (root, client), asyncio.timeout(60):
        async with client.post(f"{root}/v2/app/blobs/uploads/") as answer:
            place = answer.headers["Location"]
        async with client.patch(f"{root}{place}", data=upload()) as answer:
            assert answer.status == 502
            assert (await answer.json())["errors"][0]["code"] == "UNAVAILABLE"
        assert not await is_there(client, f"{root}/v2/app/manifests/1"), "it serves others"
