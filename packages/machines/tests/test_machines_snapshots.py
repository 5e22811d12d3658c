import asyncio
import shutil

import pytest

from hetzner_machines import snapshots
from hetzner_machines.errors import DiskFull

pytestmark = pytest.mark.machines


async def test_a_machine_starts_from_an_image_of_a_running_one(world, backend):
    await backend.create_machine(world.machine(1, private=False))
    await backend.power_on(1)
    await world.ssh(1, "echo kept >/root/file; rm /usr/bin/less; mkfifo /root/pipe; mkdir /var/log/mine")
    size = await backend.create_image(7, 1)
    assert size is not None
    assert 0 < size < 10
    assert await backend.create_image(7, 1) == size, "a whole copy is kept"
    assert await world.ssh(1, "echo awake") == "awake", "it stood still for the copy only"
    await world.ssh(1, "echo later >/root/file")
    await backend.create_machine(world.machine(2, private=False, snapshot=7))
    await backend.power_on(2)
    assert await world.ssh(2, "hostname; cat /root/file; ls -d /var/log/mine; stat -c %F /root/pipe") == (
        "m2\nkept\n/var/log/mine\nfifo"
    )
    assert "not found" in await world.ssh(2, "less --version"), "what was deleted is deleted"
    ids = await asyncio.gather(*(world.ssh(number, "cat /etc/machine-id") for number in (1, 2)))
    assert ids[0] != ids[1]
    await backend.delete_image(7)
    await backend.delete_image(7)
    assert await world.ssh(2, "cat /root/file") == "kept", "machines need the image no more"


async def test_an_image_that_does_not_fit_is_removed(world, backend, monkeypatch):
    await backend.create_machine(world.machine(1, private=False))
    usage = shutil.disk_usage(world.state)
    monkeypatch.setattr(snapshots, "RESERVE", usage.free)
    with pytest.raises(DiskFull, match="is full"):
        await backend.create_image(7, 1)
    monkeypatch.undo()
    (world.state / "machines/1/disk/upper/etc").rename(world.state / "machines/1/disk/upper/was")
    outside = world.state / "outside"
    outside.mkdir()
    (world.state / "machines/1/disk/upper/etc").symlink_to(outside)
    assert await backend.create_image(7, 1) is not None
    with pytest.raises(Exception, match="could not write"):
        await backend.create_machine(world.machine(2, private=False, snapshot=7))
    assert list(outside.iterdir()) == [], "no link of a machine leads out of its disk"
