import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from hetzner_emulator.backend import NetworkSpec, Route
from hetzner_machines import cgroups, libc, namespaces, processes
from hetzner_machines.cleanup import remove_all
from tests.child_processes import run

pytestmark = pytest.mark.machines

# A sandbox that dies at its Nth program run, in the middle of making a network and two machines.
DYING = """
import asyncio, os, signal, sys
from ipaddress import IPv4Network
from pathlib import Path
from hetzner_emulator.backend import MachineSpec, NetworkSpec, PrivateInterface
from hetzner_machines import runner
from hetzner_machines.backend import MachinesBackend
from hetzner_machines.disk import Image

site, state, range_, rootfs, store, left, *specs = sys.argv[1:]
left = int(left)

async def run(command, text=""):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return await runner.run(command, text)

async def main():
    image = Image(Path(rootfs), Path(store))
    backend = MachinesBackend(site, Path(state), IPv4Network(range_), image, run=run)
    await backend.start([], {}, print)
    await backend.put_network(NetworkSpec(1, "n", "10.0.0.0/8", ("10.0.0.0/24",), ()))
    for spec in specs:
        machine = eval(spec)
        await backend.create_machine(machine)
        await backend.power_on(machine.id)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def die(world, programs, *specs):
    """Run a sandbox that is killed after so many programs; it leaves what it made."""
    image = (world.image.rootfs, world.image.container_store)
    arguments = map(str, (world.site, world.state, world.range, *image, programs))
    command = [sys.executable, "-c", DYING, *arguments, *map(repr, specs)]
    done = run(command, env={"PATH": os.environ["PATH"]})
    assert done.returncode == -signal.SIGKILL, done.stderr


def footprint(world) -> dict[str, list[str]]:
    """Everything on the host that bears the site's name or lies in its folder."""
    lines = {
        "mounts": Path("/proc/self/mountinfo").read_text().splitlines(),
        "links": [entry.name for entry in Path("/sys/class/net").iterdir()],
        "namespaces": namespaces.listing(),
        "routes": run(["ip", "route"], check=True).stdout.splitlines(),
        "processes": [
            command.decode(errors="replace") for pid, command in processes.commands() if pid != os.getpid()
        ],
    }
    found = {
        kind: [line for line in entries if world.site in line or str(world.state) in line]
        for kind, entries in lines.items()
    }
    found["cgroups"] = [str(path) for path in cgroups.find(f"ccmfs-{world.site}")]
    return {kind: entries for kind, entries in found.items() if entries}


@pytest.mark.parametrize(
    "programs", [31, 1000, *(pytest.param(each, marks=pytest.mark.nightly) for each in (3, 10, 17, 24))]
)
async def test_the_start_after_a_kill_repairs_everything(world, programs):
    specs = world.machine(1), world.machine(2)
    die(world, programs, *specs)
    backend = world.backend()
    await backend.start([world.network], dict.fromkeys(specs, True), world.event)
    async with world.metadata(backend):
        await asyncio.gather(*(world.ssh(number, "true") for number in (1, 2)))
        assert " 1 received" in await world.ssh(1, "ping -c1 -W2 10.0.0.3")
    await backend.remove_all()
    assert footprint(world) == {}


@pytest.mark.parametrize(
    "programs", [22, *(pytest.param(each, marks=pytest.mark.nightly) for each in (5, 1000))]
)
def test_removing_everything_by_names_and_files(world, programs):
    die(world, programs, world.machine(1), world.machine(2))
    assert footprint(world)
    assert remove_all(world.site, world.state)
    assert footprint(world) == {}
    assert not (world.state / "machines").exists()
    assert remove_all(world.site, world.state) == []


def test_mounts_and_sockets_are_removed_in_any_state_folder(world):
    point = world.state / "machines/1/a folder"
    point.mkdir(parents=True)
    libc.mount("tmpfs", point, "tmpfs")
    sockets = Path(f"/run/ccmfs-{world.site}")
    (sockets / "lb-1").mkdir(parents=True)
    removed = remove_all(world.site, world.state)
    assert f"mount {point}" in removed
    assert not point.exists()
    assert not sockets.exists()
    assert footprint(world) == {}


async def test_a_running_machine_is_adopted_and_updated(world, backend):
    specs = [world.machine(number, private=number == 1) for number in (1, 2, 3)]
    await backend.put_network(world.network)
    for spec in specs:
        await backend.create_machine(spec)
        await backend.power_on(spec.id)
    keeper = backend._fleet.known(1).keeper
    await asyncio.gather(*(world.ssh(number, "true") for number in (1, 2, 3)))
    await backend.stop()
    await world.ssh(2, "systemctl poweroff")
    processes.wait_gone(backend._fleet.known(2).run.keeper, 20)
    route = Route("10.244.1.0/24", "10.0.0.3")
    network = NetworkSpec(1, "n", "10.0.0.0/8", ("10.0.0.0/24",), (route,))
    plugged = world.machine(1, private=False)
    second = world.backend()
    await second.start([network], {plugged: True, specs[1]: True}, world.event)
    assert second._fleet.known(1).keeper == keeper
    assert "ens10" not in await world.ssh(1, "ip link")  # the cloud detached it meanwhile
    assert await world.next_event() == (2, "off")
    assert f"ccmfs-{world.site}-srv-3" not in namespaces.listing()  # it is forgotten
    assert not (world.state / "machines/3").exists()
    await world.ssh(1, "systemctl poweroff")
    assert await world.next_event() == (1, "off")
    await second.stop()


async def test_deleting_leaves_nothing_but_the_router(world, backend):
    await backend.put_network(world.network)
    before = footprint(world)
    await backend.create_machine(world.machine(1))
    await backend.power_on(1)
    assert footprint(world) != before
    await backend.delete_machine(1)
    await backend.delete_machine(1)
    after = footprint(world)
    assert after.pop("cgroups")  # the site's own, empty ones
    assert after == before
    assert list((world.state / "machines").iterdir()) == []
    await backend.delete_network(1)
    await backend.delete_network(1)
    assert footprint(world)["namespaces"] == [f"ccmfs-{world.site}-router"]
