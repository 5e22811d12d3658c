import socket
from ipaddress import IPv4Network

import msgspec
import pytest
import yaml
from aiohttp import ClientSession, TCPConnector
from cloud_emulator import KEY, NOWHERE, Emulator, Start

from hetzner_emulator.backend import RecordsBackend
from hetzner_emulator.models.servers import Server


@pytest.fixture
async def local(start: Start) -> Emulator:
    """An emulator whose servers have loopback addresses, so that a test can ask as one of them."""
    return await start(public_ipv4=IPv4Network("127.0.77.0/24"))


async def ask(emulator: Emulator, address: str, path: str) -> tuple[int, str]:
    url = emulator.server.make_url(f"/hetzner/v1/{path}")
    connector = TCPConnector(local_addr=(address, 0))
    async with ClientSession(connector=connector) as session, session.get(url) as response:
        return response.status, await response.text()


async def make(emulator: Emulator) -> str:
    await emulator.ok("POST", "/ssh_keys", {"name": "key", "public_key": KEY})
    network = await emulator.make_network("net-1", "10.0.0.0/24")
    more = {"user_data": "#cloud-config\nruncmd: [true]\n", "location": "hel1"}
    server = await emulator.make_server(networks=[network["id"]], ssh_keys=["key"], **more)
    return server["public_net"]["ipv4"]["ip"]


async def test_every_path(local: Emulator):
    address = await make(local)
    for path, text in {
        "metadata/hostname": "web",
        "metadata/instance-id": "4000001",
        "metadata/public-ipv4": address,
        "metadata/region": "eu-central",
        "metadata/availability-zone": "hel1-dc2",
        "userdata": "#cloud-config\nruncmd: [true]\n",
    }.items():
        assert await ask(local, address, path) == (200, text)
    assert (await ask(local, address, "metadata/moon"))[0] == 404
    assert (await ask(local, address, "moon"))[0] == 404
    assert (await ask(local, "127.0.0.1", "metadata"))[0] == 404, "no server has this address"


async def test_the_summary_and_the_networks_are_what_cloud_init_reads(local: Emulator):
    address = await make(local)
    summary = yaml.safe_load((await ask(local, address, "metadata"))[1])
    assert summary["instance-id"] == 4000001
    assert summary["public-keys"] == [KEY]
    assert summary["vendor_data"].startswith("#cloud-config")
    first = summary["network-config"]["config"][0]["subnets"][0]
    assert first == {"type": "static", "address": f"{address}/32", "gateway": "172.31.1.1"}
    (entry,) = yaml.safe_load((await ask(local, address, "metadata/private-networks"))[1])
    names = "ip alias_ips interface_num mac_address network_id network_name network subnet gateway"
    assert list(entry) == names.split()
    shown = [entry[name] for name in ("ip", "subnet", "gateway", "network_name")]
    assert shown == ["10.0.0.2", "10.0.0.0/24", "10.0.0.1", "net-1"]


async def test_a_server_without_networks_keys_and_data(local: Emulator):
    server = await local.make_server()
    address = server["public_net"]["ipv4"]["ip"]
    assert yaml.safe_load((await ask(local, address, "metadata/private-networks"))[1]) == []
    assert yaml.safe_load((await ask(local, address, "metadata"))[1])["public-keys"] == []
    assert await ask(local, address, "userdata") == (200, "")


class Asked(RecordsBackend):
    """Reports a network that the test sets for all connections."""

    network: int | None = None

    def network_of(self, connection: socket.socket) -> int | None:
        return self.network


async def test_networks_distinguish_servers_with_the_same_private_address(start: Start):
    asked = Asked()
    local = await start(asked)
    networks = [(await local.make_network(name, "10.0.0.0/24"))["id"] for name in "ab"]
    await local.make_server("srv-a", networks=networks[:1], user_data="of a")
    await local.make_server("srv-b", networks=networks[1:], user_data="of b", **NOWHERE)
    for server in local.cloud.store.all(Server):
        (attachment,) = server.attachments
        assert attachment.ip == "10.0.0.2"
        # from which a test can ask
        server.attachments = [msgspec.structs.replace(attachment, ip="127.1.0.2")]
        local.cloud.store.put(server)
    found = {}
    for asked.network in (*networks, None):
        found[asked.network] = await ask(local, "127.1.0.2", "userdata")
    unknown = (404, "no server has this address\n")
    assert found == {networks[0]: (200, "of a"), networks[1]: (200, "of b"), None: unknown}
    asked.network = networks[1]
    assert await ask(local, "127.1.0.2", "metadata/public-ipv4") == (200, "")
