import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hetzner_emulator.backend import MachineSpec
from hetzner_machines import capacity, errors, libc, mounts, namespaces

pytestmark = pytest.mark.machines


def ip(*words: object) -> None:
    subprocess.run(["ip", *map(str, words)], check=True, timeout=60)


async def test_a_range_that_the_host_uses_is_refused(world):
    device = f"cft{world.site}"
    ip("link", "add", device, "type", "veth", "peer", "name", f"cfu{world.site}")
    try:
        ip("addr", "add", f"{world.range[20]}/32", "dev", device)
        with pytest.raises(errors.BackendError, match=f"address {world.range[20]} on {device}"):
            await world.backend().start([], {}, world.event)
    finally:
        ip("link", "del", device)
    assert not [name for name in namespaces.listing() if world.site in name]


async def test_a_full_disk_leaves_no_incomplete_machine(world):
    small = world.state / "small"
    small.mkdir()
    libc.mount("tmpfs", small, "tmpfs", options="size=64k")
    backend = replace(world, state=small).backend()
    try:
        await backend.start([], {}, world.event)
        with pytest.raises(errors.DiskFull, match=r"the disk of .*small.* is full"):
            await backend.create_machine(world.machine(1, private=False))
        await backend.delete_machine(1)
        await backend.remove_all()
        assert list(small.iterdir()) == []
    finally:
        libc.unmount(small)


async def test_too_many_machines_name_the_kernels_setting(world, backend, monkeypatch):
    await backend.create_machine(world.machine(1, private=False))
    monkeypatch.setattr(capacity, "INSTANCES_OF_A_MACHINE", capacity.instances_allowed() + 1)
    with pytest.raises(errors.BackendError, match=r"fs\.inotify\.max_user_instances"):
        await backend.power_on(1)
    assert f"ccmfs-{world.site}-srv-1" not in namespaces.listing()


async def test_two_sandboxes_of_one_site_are_refused(world, backend):
    second = world.backend()
    await second.start([], {}, world.event)
    with pytest.raises(errors.NotPermitted, match=r"listen at 169\.254\.169\.254.*Address already in use"):
        async with world.metadata(second):
            pass


async def test_a_machine_that_can_not_start_does_not_stop_others(world, backend, caplog):
    bad = MachineSpec(2, "m2", str(world.range[12]), None, 2, -1.0, ())  # more memory limit than there can be
    good = world.machine(1, private=False)
    second = world.backend()
    await second.start([], {bad: True, good: True}, world.event)
    assert await world.next_event() == (2, "failed")
    assert "m2 is off: could not create the cgroups of server m2" in caplog.text
    assert await world.ssh(1, "hostname") == "m1"
    await second.stop()


def test_mounts_are_private_in_a_chroot_without_a_root_mount(tmp_path):
    # As in a build chroot; there the kernel refuses to change the root's propagation, and to pivot it.
    (tmp_path / "proc").mkdir()
    (tmp_path / "inside").mkdir()

    def in_chroot() -> tuple[str, list[str], str]:
        libc.unshare(libc.CLONE_NEWNS)
        assert mounts.leave_the_hosts() == ""
        libc.mount("/proc", tmp_path / "proc", flags=libc.MS_BIND | libc.MS_REC)
        os.chroot(tmp_path)
        libc.unshare(libc.CLONE_NEWNS)
        prefix = mounts.leave_the_hosts()
        propagation = Path("/proc/thread-self/mountinfo").read_text()
        return prefix, [entry.name for entry in Path(prefix).iterdir()], propagation

    prefix, entries, mountinfo = namespaces.in_thread(in_chroot)
    assert prefix == str(tmp_path)
    assert sorted(entries) == ["inside", "proc"]
    assert "shared:" not in mountinfo
