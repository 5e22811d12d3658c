"""The way out: a namespace plays the host, and another one the Internet; no packet leaves this machine."""

import asyncio
import logging
import socket
from contextlib import ExitStack, contextmanager

import pytest

from hetzner_machines import internet, namespaces
from hetzner_machines.cleanup import remove_all
from hetzner_machines.errors import NoWayOut
from hetzner_machines.names import Names
from hetzner_machines.runner import run_blocking
from tests.internet_stage import BRIDGE, CONTAINER, FAR, HOST, METADATA, PROVIDER, Stage

pytestmark = pytest.mark.machines

ETHERTYPE_IPV4 = 0x0800
QUESTION = b"\x12\x34 who is far.example?"


@pytest.fixture
def stage():
    with ExitStack() as held:
        yield Stage(held)


def ask(namespace: str, address: str, *, source: str = "", answers: bool = True) -> str:
    """What a server tells whoever asks from a namespace; or why it does not."""

    def connect() -> str:
        with socket.socket() as made:
            made.settimeout(60 if answers else 2)  # there may be no answer
            made.bind((source, 0))
            try:
                made.connect((address, 80))
                made.settimeout(60)
                return made.recv(100).decode()
            except OSError as error:
                return error.strerror or "silence"

    return namespaces.inside(namespace, connect)


def ask_for_a_name(namespace: str, kind: socket.SocketKind) -> bytes:
    def question() -> bytes:
        with socket.socket(socket.AF_INET, kind) as asking:
            asking.settimeout(30)
            asking.connect(("169.254.169.254", 53))
            asking.send(QUESTION)
            return asking.recv(512)

    return namespaces.inside(namespace, question)


def test_machines_reach_the_internet_but_not_the_host(world, stage):
    machine, other = world.machine(1, private=False), world.machine(2, private=False)
    private = world.machine(3, public=False)
    inside = f"ccmfs-{world.site}-srv-1"
    stage.serve(stage.outside)
    stage.serve(stage.host)
    stage.serve_names()

    async def life() -> None:
        backend = world.backend(internet=True, name_servers=lambda: [HOST, PROVIDER])  # the first refuses
        await backend.start([], {}, world.event)
        for spec in (machine, other):
            await backend._fabric.create_server(spec, {}, {})
        asked = (FAR, HOST, str(world.range[1]), CONTAINER, METADATA)
        seen = await asyncio.to_thread(lambda: {address: ask(inside, address) for address in asked})
        assert seen == {
            FAR: HOST,
            HOST: "No route to host",
            str(world.range[1]): machine.public_ipv4,  # as without a way out
            CONTAINER: "No route to host",
            METADATA: "No route to host",
        }
        assert await asyncio.to_thread(ask, stage.host, METADATA) == HOST
        stage.ip(inside, "addr add 10.9.9.9/32 dev lo")
        assert await asyncio.to_thread(ask, inside, FAR, source="10.9.9.9", answers=False) == "silence"
        assert await asyncio.to_thread(ask, stage.host, CONTAINER) == BRIDGE  # which the host reaches
        datagram = await asyncio.to_thread(ask_for_a_name, inside, socket.SOCK_DGRAM)
        assert datagram == QUESTION + f" {HOST}".encode()
        stream = await asyncio.to_thread(ask_for_a_name, inside, socket.SOCK_STREAM)
        assert stream == QUESTION + b" at length"
        await backend.put_network(world.network)
        await backend._fabric.create_server(private, {1: 0}, {1: world.network})
        own = f"ccmfs-{world.site}-srv-3"
        assert await asyncio.to_thread(ask_for_a_name, own, socket.SOCK_DGRAM) == datagram
        assert await asyncio.to_thread(ask_for_a_name, own, socket.SOCK_STREAM) == stream
        stage.serve(inside)
        assert await asyncio.to_thread(ask, stage.host, machine.public_ipv4) == str(world.range[1])
        stage.ip(stage.outside, f"route add {world.range} via {HOST}", f"route add {BRIDGE}/32 via {HOST}")
        assert await asyncio.to_thread(ask, stage.outside, machine.public_ipv4, answers=False) == "silence"
        assert stage.forwards("wan") == stage.forwards(f"cfs{world.site}") == "1"
        assert stage.forwards("bridge") == "0"
        await backend.stop()
        second = world.backend()
        await second.start([], {machine: False, other: False}, world.event)
        assert await asyncio.to_thread(ask, f"ccmfs-{world.site}-router", FAR) == "Network is unreachable"
        assert stage.forwards("wan") == "0"
        assert stage.tables() == ""
        await second.stop()
        await second.remove_all()

    stage.as_host(lambda: asyncio.run(life()))


@contextmanager
def link_of(stage: Stage, names: Names):
    stage.ip(stage.host, f"link add {names.host_link} type veth peer name peer-{names.site}")
    yield
    stage.ip(stage.host, f"link del {names.host_link}")


def test_the_last_of_two_clones_restores_the_hosts_forwarding(world, stage, tmp_path):
    one, other = Names("0a1b2c"), Names("0a1b2d")
    with link_of(stage, one), link_of(stage, other):
        stage.as_host(lambda: internet.open_way(one, world.range))
        stage.as_host(lambda: internet.open_way(other, world.range))
        stage.as_host(lambda: internet.open_way(one, world.range))  # again
        assert stage.as_host(lambda: internet.close_way(one))
        assert stage.forwards("wan") == "1"
        assert stage.tables() == f"table inet {other.table}\n"
        # what a crash has left is undone by name
        assert f"table {other.table} of nftables" in stage.as_host(lambda: remove_all(other.site, tmp_path))
        assert stage.forwards("wan") == "0"
        assert stage.tables() == ""
        assert not stage.as_host(lambda: internet.close_way(one))


def test_another_clone_stays_unreachable_from_outside(world, stage):
    one, other = Names("0a1b2c"), Names("0a1b2d")
    with link_of(stage, one), link_of(stage, other):
        stage.ip(
            stage.host,
            f"addr add 10.99.0.1/30 dev {other.host_link}",
            f"link set {other.host_link} up",
            f"link set peer-{other.site} up",
            f"neigh add 10.99.0.2 lladdr 02:00:00:00:00:01 dev {other.host_link}",
        )
        stage.ip(stage.outside, f"route add 10.99.0.0/30 via {HOST}")
        stage.as_host(lambda: internet.open_way(one, world.range))
        with stage.as_host(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)) as seen:
            seen.bind((f"peer-{other.site}", ETHERTYPE_IPV4))
            seen.settimeout(60)
            for namespace in (stage.outside, stage.host):
                sending = namespaces.inside(namespace, lambda: socket.socket(type=socket.SOCK_DGRAM))
                with sending:
                    sending.sendto(namespace.encode(), ("10.99.0.2", 9))
            assert seen.recv(2000).endswith(stage.host.encode())  # what the host sends, and nothing else
            seen.settimeout(2)  # nothing may come
            with pytest.raises(TimeoutError):
                seen.recv(2000)
        stage.as_host(lambda: internet.close_way(one))


@pytest.mark.parametrize("before", [True, False], ids=["before", "meanwhile"])
def test_a_forwarding_host_keeps_forwarding(world, stage, before):
    names = Names(world.site)
    with link_of(stage, names):
        if before:
            namespaces.set_kernel(stage.host, {"ipv4/ip_forward": "1"})
        stage.as_host(lambda: internet.open_way(names, world.range))
        if not before:
            namespaces.set_kernel(stage.host, {"ipv4/ip_forward": "1"})
        stage.as_host(lambda: internet.close_way(names))
    assert stage.forwards("wan") == "1"


def test_an_interface_without_forwarding_is_refused(world, stage):
    namespaces.set_kernel(stage.host, {"ipv4/ip_forward": "1"})
    namespaces.set_kernel(stage.host, {"ipv4/conf/wan/forwarding": "0"})
    with pytest.raises(NoWayOut, match=r"net\.ipv4\.conf\.wan\.forwarding is 0"):
        stage.as_host(lambda: internet.open_way(Names(world.site), world.range))
    assert stage.tables() == ""


def test_a_firewall_that_drops_forwarded_packets_is_found(stage):
    assert stage.as_host(internet.refusing_here) == []
    chain = "chain FORWARD { type filter hook forward priority 0; policy drop; }"
    stage.as_host(lambda: run_blocking(["nft", "-f", "-"], f"table ip filter {{\n{chain}\n}}\n"))
    assert stage.as_host(internet.refusing_here) == ["ip filter FORWARD"]


def test_a_host_without_ipv6_gets_one_warning(world, stage, caplog):
    namespaces.set_kernel(stage.host, {"ipv6/conf/all/disable_ipv6": "1"})

    async def life() -> None:
        backend = world.backend()
        await backend.start([], {}, world.event)
        for spec in (world.machine(1, private=False), world.machine(2, private=False)):
            await backend._fabric.create_server(spec, {}, {})
        await backend.stop()

    with caplog.at_level(logging.WARNING):
        stage.as_host(lambda: asyncio.run(life()))
    assert len(caplog.records) == 1
    assert "net.ipv6.conf.all.disable_ipv6" in caplog.records[0].message
    address = (str(world.ipv6(2)[1]), 80)
    listening = namespaces.inside(
        f"ccmfs-{world.site}-srv-2", lambda: socket.create_server(address, family=socket.AF_INET6)
    )
    with listening:  # among themselves machines have it
        namespaces.inside(f"ccmfs-{world.site}-srv-1", lambda: socket.create_connection(address, 30)).close()
