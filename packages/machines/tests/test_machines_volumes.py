import asyncio

import pytest

from hetzner_emulator.backend import AttachedVolume, VolumeSpec
from hetzner_machines.cleanup import remove_all
from hetzner_machines.errors import VolumeBusy
from hetzner_machines.volumes import loops

pytestmark = pytest.mark.machines

EXT4 = VolumeSpec(5, 10, "ext4")
RAW = VolumeSpec(6, 10_240)
DEVICE = "/dev/disk/by-id/scsi-0HC_Volume_"


async def test_a_volume_is_a_device_of_one_machine_and_outlives_it(world, backend):
    for number in (1, 2):
        await backend.create_machine(world.machine(number, private=False))
        await backend.power_on(number)
    for volume in (EXT4, RAW):
        await backend.put_volume(volume)
    await asyncio.gather(*(world.ssh(number, "true") for number in (1, 2)))
    await backend.attach_volume(1, AttachedVolume(EXT4, automount=True))
    await backend.attach_volume(1, AttachedVolume(RAW, automount=True))
    assert await world.ssh(1, f"blockdev --getsize64 {DEVICE}5 {DEVICE}6") == f"{10 * 2**30}\n{10240 * 2**30}"
    await world.ssh(1, "echo kept >/mnt/HC_Volume_5/file")
    assert await world.ssh(1, "findmnt -no FSTYPE /mnt/HC_Volume_5") == "ext4"
    assert await world.ssh(1, f"echo raw | dd of={DEVICE}6 status=none; ls /mnt/HC_Volume_6") == ""
    number = next(n for n, path in loops(world.state / "volumes") if path.name == "5")
    stolen = await world.ssh(2, f"mknod /root/stolen b 7 {number}; head -c 1 /root/stolen | wc -c")
    assert "Operation not permitted" in stolen, "another machine's volume"

    await backend.put_volume(VolumeSpec(5, 11, "ext4"))
    assert await world.ssh(1, f"blockdev --getsize64 {DEVICE}5") == str(11 * 2**30)
    await backend.power_off(1)
    await backend.power_on(1)
    assert await world.ssh(1, f"cat /mnt/HC_Volume_5/file; head -c 3 {DEVICE}6") == "kept\nraw"

    await world.ssh(1, "mkdir /mine && mount /dev/disk/by-id/scsi-0HC_Volume_5 /mine")
    with pytest.raises(VolumeBusy, match="volume 5 is in use"):
        await backend.detach_volume(1, 5)
    assert await world.ssh(1, f"umount /mine; ls {DEVICE}5; cat /mnt/HC_Volume_5/file") == f"{DEVICE}5\nkept"
    await backend.detach_volume(1, 5)
    gone = await world.ssh(1, f"ls {DEVICE}5; mknod /root/mine b 7 {number}; head -c 1 /root/mine | wc -c")
    assert "No such file" in gone
    assert "Operation not permitted" in gone
    assert await world.ssh(1, f"head -c 3 {DEVICE}6") == "raw", "the other volume stays"

    await backend.attach_volume(2, AttachedVolume(EXT4, automount=True))
    assert await world.ssh(2, "cat /mnt/HC_Volume_5/file") == "kept"
    await backend.delete_machine(2)
    await backend.delete_volume(5)
    await backend.delete_volume(5)
    assert [path.name for _, path in loops(world.state / "volumes")] == ["6"]

    await backend.stop()
    again = world.backend()  # as after the death of the sandbox
    one = world.machine(1, private=False, volumes=(AttachedVolume(RAW, automount=False),))
    await again.start([], {one: True}, world.event)
    assert await world.ssh(1, f"head -c 3 {DEVICE}6") == "raw"
    await again.stop()
    remove_all(world.site, world.state)
    assert list(loops(world.state / "volumes")) == []
