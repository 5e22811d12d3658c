import asyncio
from asyncio.subprocess import PIPE
from dataclasses import replace

import asyncssh
import pytest

from hetzner_emulator.backend import Route
from hetzner_machines.names import Names
from sandbox.images.send import Answer, Result, import_all
from sandbox.remote import Way, ssh
from sandbox.site import open_site

pytestmark = pytest.mark.machines

CANNOT_LOG_IN = 255  # ssh's
MASQUERADE = "iptables -t nat -A POSTROUTING -s 10.0.0.0/8 ! -d 10.0.0.0/8 -j MASQUERADE"


@pytest.mark.nightly  # environments do the same
async def test_a_private_machine_uses_the_gateway_of_its_networks_route(world, backend):
    await backend.put_network(world.network)
    for spec in (world.machine(1), world.machine(2, public=False), world.machine(3, private=False)):
        await backend.create_machine(spec)
        await backend.power_on(spec.id)
    somewhere = str(world.range[13])
    await world.ssh(1, "for i in $(seq 100); do ssh-keyscan -T1 10.0.0.3 && break; sleep 0.1; done")
    login = {"username": "root", "client_keys": [world.key], "known_hosts": None, "config": None}
    login |= {"agent_path": None, "connect_timeout": 60}
    async with (
        asyncssh.connect(str(world.range[11]), **login) as jump,
        asyncssh.connect("10.0.0.3", tunnel=jump, **login) as inside,
    ):

        async def reaches() -> bool:
            done = await inside.run(f"ping -c1 -W1 {somewhere}", timeout=60)
            return " 1 received" in done.stdout

        assert "default" not in (await inside.run("ip route", timeout=60)).stdout
        await inside.run("ip route add default via 10.0.0.1", timeout=60, check=True)
        assert not await reaches(), "the network has no route yet"
        out = replace(world.network, routes=(Route("0.0.0.0/0", "10.0.0.2"),))
        await backend.put_network(out)
        assert not await reaches(), "private addresses don't answer from outside"
        await jump.run(MASQUERADE, timeout=60, check=True)
        assert await reaches()
        # neighbors are still neighbors
        assert " 1 received" in (await inside.run("ping -c1 -W2 10.0.0.2", timeout=60)).stdout
        await backend.put_network(world.network)
        assert not await reaches()


@pytest.fixture
def login(world, tmp_path):
    """What logs in to a machine to which no address leads, in its own namespace."""
    clone = tmp_path / "clone"
    clone.mkdir()
    site = open_site(clone, {"XDG_CACHE_HOME": str(clone)}, list, lambda _: True)
    site.ssh_key.touch(mode=0o600)
    site.ssh_key.write_bytes(world.key.export_private_key())
    return lambda number: ssh(site, Way("127.0.0.1", namespace=Names(world.site).server(number)))


async def test_an_unreachable_private_machine_gets_images_in_its_namespace(world, backend, login):
    await backend.put_network(world.network)
    await backend.create_machine(world.machine(1, public=False))
    await backend.power_on(1)
    # no k3s is there yet, which the machine itself says
    assert await import_all({"m1": login(1)}, "loaded-000001.tar") == {"m1": Answer(Result.WAITS)}


async def test_machines_with_the_same_address_in_two_networks_get_their_own_metadata(world, login):
    other = replace(world.network, id=2)
    twin = replace(world.interface(1), network_id=2, mac_address="86:00:00:00:01:01")
    specs = (world.machine(1, public=False), replace(world.machine(2, public=False), private=(twin,)))
    assert [spec.private[0].ip for spec in specs] == ["10.0.0.2", "10.0.0.2"]
    world.specs[other.id, twin.ip] = specs[1]
    backend = world.backend()
    await backend.start([world.network], {}, world.event)
    async with world.metadata(backend):
        await backend.put_network(other)
        for spec in specs:
            await backend.create_machine(spec)
            await backend.power_on(spec.id)
        # each has its name and the key that works only from there
        assert [await said(login(number), "hostname") for number in (1, 2)] == ["m1", "m2"]
    await backend.stop()

    # and after a restart of the sandbox they get the same
    again = world.backend()
    await again.start([world.network, other], dict.fromkeys(specs, True), world.event)
    async with world.metadata(again):
        ask = "curl -sf --max-time 10 http://169.254.169.254/hetzner/v1/metadata/instance-id"
        assert [await said(login(number), ask) for number in (1, 2)] == ["1", "2"]
    await again.stop()


async def said(login, command):
    """What a command on a machine prints, as soon as the machine lets us in."""
    async with asyncio.timeout(60):
        while True:
            process = await asyncio.create_subprocess_exec(*login, command, stdout=PIPE, stderr=PIPE)
            printed, error = await process.communicate()
            if process.returncode == 0:
                return printed.decode().strip()
            assert process.returncode == CANNOT_LOG_IN, error
            await asyncio.sleep(0.05)
