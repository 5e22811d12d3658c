import asyncio

import pytest

from hetzner_machines import namespaces

pytestmark = pytest.mark.machines

# The guest's own start time; the kernel's boot ID is the host's.
BOOT_ID = "cat /proc/1/stat | cut -d' ' -f22"


async def test_a_guest_that_powers_off_keeps_its_disk(world, backend):
    await backend.put_network(world.network)
    await backend.create_machine(world.machine(1))
    await backend.power_on(1)
    await world.ssh(1, "cloud-init status --wait; echo kept > /root/file; systemctl poweroff")
    assert await world.next_event() == (1, "off")
    assert f"ccmfs-{world.site}-srv-1" not in namespaces.listing()
    await backend.power_on(1)
    assert await world.ssh(1, "cat /root/file") == "kept"


async def test_a_guest_that_reboots_runs_again(world, backend):
    await backend.create_machine(world.machine(1, private=False))
    await backend.power_on(1)
    before = await world.ssh(1, f"ip link add br9 type bridge; {BOOT_ID}")
    await world.ssh(1, "systemctl reboot")
    assert await world.next_event() == (1, "running")
    assert await world.ssh(1, BOOT_ID) != before
    assert "br9" not in await world.ssh(1, "ip link")  # a machine that starts has no interfaces of its past


async def test_power_actions_of_the_api(world, backend):
    await backend.create_machine(world.machine(1, private=False))
    await backend.power_on(1)
    await backend.shutdown(1)  # systemd may not listen yet: the request waits for it
    assert await world.next_event() == (1, "off")
    await backend.power_on(1)
    first = await world.ssh(1, BOOT_ID)
    await backend.power_on(1)
    assert await world.ssh(1, BOOT_ID) == first
    await backend.reboot(1)
    assert await world.next_event() == (1, "running")
    second = await world.ssh(1, BOOT_ID)
    assert second != first
    await backend.reset(1)
    assert await world.ssh(1, BOOT_ID) != second
    await backend.power_off(1)
    await backend.power_off(1)
    await backend.shutdown(1)
    await backend.reboot(1)
    assert world.events.empty()  # actions of the API are no events
    assert f"ccmfs-{world.site}-srv-1" not in namespaces.listing()


@pytest.mark.nightly
async def test_a_reboot_does_not_wait_for_the_guest(world, backend):
    await backend.create_machine(world.machine(1, private=False))
    await backend.power_on(1)
    # As a Pod that ignores SIGTERM, which systemd kills 20 s after the request.
    stubborn = "sh -c 'trap : TERM; while :; do sleep 9; done'"
    before = await world.ssh(1, f"systemd-run --property=TimeoutStopSec=20 {stubborn}; {BOOT_ID}")
    async with asyncio.timeout(15):  # the guest takes longer
        await backend.reboot(1)
    assert world.events.empty()
    assert await world.next_event() == (1, "running")
    assert await world.ssh(1, BOOT_ID) != before


async def test_a_machine_that_dies_is_off(world, backend):
    await backend.create_machine(world.machine(1, private=False))
    await backend.power_on(1)
    await asyncio.create_subprocess_exec("kill", "-9", str(backend._fleet.known(1).run.init.pid))
    assert await world.next_event() == (1, "off")


async def test_metadata_after_a_reset(world, backend):
    await backend.create_machine(world.machine(1, private=False))
    await backend.power_on(1)
    await backend.remove_all()
    assert not [name for name in namespaces.listing() if world.site in name]
    await backend.start([], {}, world.event)
    await backend.create_machine(world.machine(2, private=False))
    await backend.power_on(2)
    assert await world.ssh(2, "hostname") == "m2"
