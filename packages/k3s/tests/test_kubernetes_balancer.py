import asyncio
import contextlib
import json
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3s_standin.balancer import ENDPOINTS as PATH
from k3s_standin.balancer import Balancer, ordered, remembered, servers_of
from tests.waiting import until

ENDPOINTS = {"subsets": [{"addresses": [{"ip": "10.0.0.3"}, {"ip": "10.0.0.2"}], "ports": [{"port": 6443}]}]}
OTHER = "/api/v1/namespaces/default/services/other"
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "other"}}
SERVICE["spec"] = {"ports": [{"port": 80}]}


@given(st.lists(st.text(), unique=True), st.sets(st.text()))
def test_failed_servers_are_tried_last(servers, failed):
    found = ordered(servers, failed)
    assert sorted(found) == sorted(servers)
    assert [url in failed for url in found] == sorted(url in failed for url in servers)


async def hang_up(writer):
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


class Echo:
    """A server that says its name and then what it hears."""

    def __init__(self, name):
        self.name = name

    async def start(self, stack):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        stack.callback(server.close)
        return server, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader, writer):
        with contextlib.suppress(ConnectionError):
            writer.write(self.name)
            while content := await reader.read(100):
                writer.write(content)
        await hang_up(writer)


@pytest.fixture
async def stack():
    async with AsyncExitStack() as running:
        yield running


def endpoints(name, ip):
    subset = {"addresses": [{"ip": ip}], "ports": [{"port": 6443}]}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name}, "subsets": [subset]}


async def connect(balancer, stack):
    reader, writer = await asyncio.open_connection("127.0.0.1", balancer.port)
    stack.push_async_callback(hang_up, writer)
    return reader, writer


async def test_clients_of_a_dead_server_are_disconnected(tmp_path, stack):
    servers = [await Echo(name).start(stack) for name in (b"a", b"b")]
    balancer = Balancer(servers[0][1], 0, tmp_path / "servers.json")
    await balancer.start()
    stack.push_async_callback(balancer.stop)
    balancer.take([url for _, url in servers])
    reader, writer = await connect(balancer, stack)
    writer.write(b"!")
    assert await reader.readexactly(2) == b"a!"

    servers[0][0].close()
    await balancer.check()

    assert await reader.read() == b""
    reader, _ = await connect(balancer, stack)
    assert await reader.readexactly(1) == b"b"


async def test_servers_are_remembered(tmp_path):
    file = tmp_path / "servers.json"
    assert remembered(file) == []
    first = Balancer("https://10.0.0.2:6443", 0, file)
    assert first.servers == ["https://10.0.0.2:6443"]
    first.take(servers_of(ENDPOINTS))
    first.take([])  # no server at all can't be

    again = Balancer("https://10.0.0.2:6443", 0, file)

    assert again.servers == ["https://10.0.0.2:6443", "https://10.0.0.3:6443"]
    assert json.loads(file.read_text())["ServerURL"] == "https://10.0.0.2:6443"


@pytest.mark.slow
async def test_servers_follow_the_cluster(shared_plane, tmp_path, stack):
    api = shared_plane.api()

    async def nowhere(_host, _port):
        raise ConnectionRefusedError

    balancer = Balancer("https://10.0.0.1:6443", 0, tmp_path / "servers.json", nowhere)
    following = asyncio.create_task(balancer.follow(api))
    stack.callback(following.cancel)
    await asyncio.to_thread(api.apply, OTHER, SERVICE)  # Endpoints without one are removed
    for path in (f"{PATH}/kubernetes", OTHER):
        stack.push_async_callback(asyncio.to_thread, api.request, "DELETE", path)

    for name, ip in (("other", "10.0.0.9"), ("kubernetes", "10.0.0.2"), ("kubernetes", "10.0.0.3")):
        await asyncio.to_thread(api.apply, f"{PATH}/{name}", endpoints(name, ip))
        if name == "kubernetes":
            await until(lambda ip=ip: balancer.servers == [f"https://{ip}:6443"])
