import os
import stat
import uuid
from pathlib import Path

import pytest

from hetzner_machines import cgroups, devices
from tests.child_processes import run

pytestmark = pytest.mark.machines

# Joins a cgroup, makes a node and opens it.
OPEN = 'echo 0 >"$1/cgroup.procs"; mknod "$2" $3 && head -c 0 "$2"; exec 3<"$2"'


@pytest.fixture
def disk(tmp_path) -> tuple[str, str]:
    """Name and numbers of a block device that this test may open, so that a refusal is the fence's."""
    lines = [line.split() for line in Path("/proc/partitions").read_text().splitlines()[2:]]
    for name, major, minor in [("loop0", 7, 0), *((line[3], int(line[0]), int(line[1])) for line in lines)]:
        node = tmp_path / f"own-{name}"
        os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(major, minor))
        try:
            os.close(os.open(node, os.O_RDONLY))
        except OSError:
            continue
        return name, f"b {major} {minor}"
    return pytest.skip("the host permits no block devices")


@pytest.mark.parametrize("kind", ["cgroup", "cgroup2"])
def test_both_versions_of_cgroups_keep_processes_from_disks(kind, disk, tmp_path):
    host = [mounted for mounted in cgroups.discover() if mounted.kind == kind]
    if kind == "cgroup":
        host = [mounted for mounted in host if "devices" in mounted.name.split(",")]
    if not host:
        pytest.skip(f"the host has no {kind} that decides about devices")
    site = Path(host[0].directory, f"ccmfs-test-{uuid.uuid4().hex}")
    pod = site / "machine/pod"
    pod.mkdir(parents=True)
    try:
        for _ in range(70):  # as often as machines start; the kernel takes 64 programs
            devices.fence(site, kind)
        if kind == "cgroup":
            (pod / "devices.allow").write_text("a *:* rwm")  # as runc does for a privileged Pod
        numbers = {"disk": disk[1], "null": "c 1 3", "tun": "c 10 200"}
        opened = {}
        for name, number in numbers.items():
            command = ["sh", "-c", OPEN, "sh", str(pod), str(tmp_path / name), number]
            done = run(command)
            opened[name] = "Operation not permitted" not in done.stderr
            assert (tmp_path / name).exists(), done.stderr
        assert opened == {"disk": False, "null": True, "tun": True}
    finally:
        assert cgroups.remove([site]) == []


async def test_root_of_a_machine_can_not_open_the_hosts_disks(world, backend, disk):
    await backend.create_machine(world.machine(1, private=False))
    await backend.power_on(1)
    name, numbers = disk
    before = await world.ssh(1, f"mknod /root/disk {numbers} && head -c 1 /root/disk | wc -c")
    assert "Operation not permitted" in before
    # Other ways to a disk.
    tried = await world.ssh(
        1,
        "echo 'a *:* rwm' >/sys/fs/cgroup/devices/devices.allow; "
        "echo 'b *:* rwm' >/sys/fs/cgroup/devices/devices.allow; "
        f"mkdir /root/dev; mount -t devtmpfs none /root/dev; "
        f"head -c 1 /root/disk | wc -c; head -c 1 /root/dev/{name} | wc -c",
    )
    assert [line for line in tried.splitlines() if line.isdecimal()] == ["0", "0"], tried
    assert await world.ssh(1, "head -c 1 /dev/zero | wc -c; exec 3<>/dev/net/tun && echo open") == "1\nopen"
