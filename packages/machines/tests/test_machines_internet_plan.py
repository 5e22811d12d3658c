import asyncio
import socket
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetzner_machines import internet, resolver
from hetzner_machines.errors import NoWayOut

SEVERAL = [
    {"dst": "0.0.0.0/1", "dev": "tun0"},
    {"dst": "default", "dev": "eth0"},
    {"dst": "10.0.0.0/8", "dev": "docker0"},
    {"dst": "192.0.2.7", "dev": "eth1"},
    {"dst": "128.0.0.0/1", "dev": "tun0"},
    {"dst": "224.0.0.0/4", "dev": "eth2"},
]


def test_uplinks_are_interfaces_with_a_default_route():
    eth0, wlan0 = ({"dst": "default", "dev": name} for name in ("eth0", "wlan0"))
    assert internet.ways_out([eth0]) == ["eth0"]
    assert internet.ways_out([wlan0, eth0]) == ["eth0", "wlan0"]
    hops = [{"dst": "default", "nexthops": [{"dev": "a"}, {"dev": "b.100"}]}]
    assert internet.ways_out(hops) == ["a", "b.100"]
    assert internet.ways_out(SEVERAL) == ["eth0", "tun0"]


@pytest.mark.parametrize("routes", [[], [{"dst": "default"}], [{"dst": "default", "dev": 'a"; flush'}]])
def test_hosts_without_a_usable_uplink_are_refused(routes):
    with pytest.raises(NoWayOut, match="--internet"):
        internet.ways_out(routes)


@pytest.mark.parametrize(
    ("family", "policy", "found"),
    [("ip", "drop", ["ip t c"]), ("inet", "drop", ["inet t c"]), ("ip6", "drop", []), ("ip", "accept", [])],
)
def test_other_chains_that_drop_forwarded_packets_are_named(family, policy, found):
    chain = {"family": family, "table": "t", "name": "c", "hook": "forward", "policy": policy}
    assert internet.refusing([chain, {"family": "ip", "table": "t", "name": "jumped-to"}]) == found


def test_the_first_name_servers_are_used():
    text = "# no nameserver 9\nsearch x\nnameserver 127.0.0.53\nnameserver\nnameserver fe80::1%eth0 \n"
    assert resolver.name_servers(text) == ["127.0.0.53", "fe80::1%eth0"]
    assert resolver.name_servers("nameserver 192.0.2.1\n" * 9) == ["192.0.2.1"] * 3
    assert resolver.name_servers("") == []


@pytest.mark.parametrize(
    "wrong", ["ns..example", "é" * 70, "a" * 64 + ".b", "1.1", "::1%\0", "::1%", "1.1.1.1%a"]
)
def test_a_name_server_without_an_address_is_ignored(wrong):
    assert resolver.name_servers(f"nameserver {wrong}\nnameserver ::1\n") == ["::1"]


@given(st.lists(st.text() | st.from_regex(r"nameserver [^\n]*", fullmatch=True)).map("\n".join))
def test_name_servers_of_any_configuration_are_addresses(text):
    found = resolver.name_servers(text)
    assert len(found) <= 3
    for address in found:
        with suppress(OSError):  # an interface that is not there
            socket.getaddrinfo(address, 53, flags=socket.AI_NUMERICHOST)


@asynccontextmanager
async def forwarding():
    """A resolver before a name server: who asks and answers, as sockets, and where the first has to ask."""
    server, asking, own = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(3))
    with server, asking:
        for one in (server, asking, own):
            one.bind(("127.0.0.1", 0))
            one.setblocking(False)
        address = own.getsockname()
        resolves = resolver.Resolver(lambda: ["127.0.0.1"], server.getsockname()[1])
        await resolves.serve(own, socket.create_server(("127.0.0.1", 0)))
        async with asyncio.timeout(60):
            yield server, asking, address
        await resolves.close()


async def test_an_answer_with_another_id_is_ignored():
    loop = asyncio.get_running_loop()
    async with forwarding() as (server, asking, address):
        await loop.sock_sendto(asking, b"\x00\x01 who is it?", address)
        question, back = await loop.sock_recvfrom(server, 512)
        assert question == b"\x00\x01 who is it?"
        await loop.sock_sendto(server, b"\x00\x02 me", back)
        await loop.sock_sendto(server, b"\x00\x01 you", back)
        assert await loop.sock_recv(asking, 512) == b"\x00\x01 you"


LABEL = st.binary(max_size=80).map(lambda text: bytes([len(text)]) + text)
QUESTION = st.lists(LABEL, max_size=8).map(lambda labels: bytes(12) + b"".join(labels))


@given(st.lists(st.binary() | QUESTION, max_size=5))
def test_queries_are_forwarded_unchanged_or_dropped(asked):
    asked.append(b"the last of all")
    expected = [each for each in asked if len(each) >= 12]

    async def ask():
        loop, wrong = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda _, context: wrong.append(context))
        async with forwarding() as (server, asking, address):
            for question in asked:
                await loop.sock_sendto(asking, question, address)
            passed = [await loop.sock_recv(server, 1 << 16) for _ in expected]
        return passed, wrong

    passed, wrong = asyncio.run(ask())
    assert (sorted(passed), wrong) == (sorted(expected), [])
