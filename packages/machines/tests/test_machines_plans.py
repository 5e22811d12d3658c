import errno
import os
import signal
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetzner_emulator.backend import BackendError, MachineSpec, PrivateInterface
from hetzner_machines import (
    capacity,
    cgroups,
    devices,
    disk,
    errors,
    libc,
    machine,
    mounts,
    processes,
    records,
)
from hetzner_machines.airgap import Airgap
from hetzner_machines.guest import root
from hetzner_machines.machine import Machine
from hetzner_machines.names import Names, host_name

OWN_V1 = "5:memory:/user/x\n4:cpu,cpuacct:/\n3:pids:/user\n1:name=systemd:/user\n0::/user\n"
MOUNTS_V1 = """\
30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
34 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
35 30 0:31 /user /sys/fs/cgroup/pids rw shared:3 - cgroup cgroup rw,pids
36 25 0:32 / /mnt/other rw - cgroup cgroup rw,memory
"""
OWN_V2 = "0::/user.slice/session-1.scope\n"
MOUNTS_V2 = "30 25 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def boot(**changes) -> records.Boot:
    facts = {"name": "m1", "serial": "7", "directory": "/state/machines/7", "lower": "/cache/rootfs"}
    facts |= {"namespace": "/run/netns/x", "keeper_cgroup": "/c/keeper", "volumes": ("var/log",)}
    facts["hierarchies"] = (records.Hierarchy("/c/mem", "cgroup", "memory", "memory"),)
    return records.Boot(**facts | changes)


def test_hierarchies_of_a_mixed_host_and_of_one_with_only_version_2():
    assert cgroups.parse(OWN_V2, MOUNTS_V2) == (records.Hierarchy("/sys/fs/cgroup", "cgroup2", "", ""),)
    assert set(cgroups.parse(OWN_V1, MOUNTS_V1)) == {
        records.Hierarchy("/sys/fs/cgroup/unified/user", "cgroup2", "unified", ""),
        records.Hierarchy("/sys/fs/cgroup/systemd/user", "cgroup", "systemd", "none,name=systemd"),
        records.Hierarchy("/sys/fs/cgroup/memory/user/x", "cgroup", "memory", "memory"),
        records.Hierarchy("/sys/fs/cgroup/cpu,cpuacct", "cgroup", "cpu,cpuacct", "cpu,cpuacct"),
        records.Hierarchy("/sys/fs/cgroup/pids", "cgroup", "pids", "pids"),
    }


def test_limits_are_those_of_the_server_type():
    assert cgroups.limits("cgroup", "memory", 2, 4.0) == {"memory.limit_in_bytes": "4294967296"}
    assert cgroups.limits("cgroup", "cpu,cpuacct", 2, 4.0) == {"cpu.cfs_quota_us": "200000"}
    assert cgroups.limits("cgroup", "cpuacct", 2, 4.0) == cgroups.limits("cgroup2", "unified", 2, 4.0) == {}
    both = {"cpu.max": "200000 100000", "memory.max": "4294967296"}
    assert cgroups.limits("cgroup2", "", 2, 4.0) == both


def test_cgroups_of_a_site_are_found_and_removed(tmp_path):
    for hierarchy in ("memory/a", "cpu"):
        (tmp_path / hierarchy / "ccmfs-0/srv-1").mkdir(parents=True)
    found = cgroups.find("ccmfs-0", tmp_path)
    assert len(found) == 2
    assert cgroups.remove(found, timeout=0) == []  # it looks once
    assert cgroups.find("ccmfs-0", tmp_path) == []


def test_mounts_of_a_root():
    steps = list(root.plan(boot()))
    mounts = {step.target: step for step in steps if isinstance(step, root.Mount) and step.kind}
    assert mounts["sys"].flags & libc.MS_RDONLY
    assert mounts["dev"].kind == "tmpfs"
    read_only = {s.target for s in steps if isinstance(s, root.Mount) and s.flags & libc.MS_REMOUNT}
    assert read_only >= {"proc/sys/kernel", "proc/sys/vm", "proc/sys/fs", "proc/sysrq-trigger"}
    order = [s.target for s in steps if isinstance(s, root.Mount)]
    assert order.index("proc/sys/kernel/panic") > order.index("proc/sys/kernel")  # or it would be covered
    volume = root.Mount("/state/machines/7/disk/data/var/log", "var/log", flags=libc.MS_BIND)
    assert volume in steps
    assert root.File("run/ccmfs/product_serial", "7\n") in steps
    assert all(not s.target.startswith("/") for s in steps if isinstance(s, root.Mount))
    separators = root.overlay_options("/a:b,c\\d")
    assert separators == "lowerdir=/a\\:b\\,c\\\\d,upperdir=upper,workdir=work"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (b"m1\n", "m1"),
        (b"m1\n# more\n", "m1"),
        (b"", ""),
        (b"a" * 64, "a" * 64),
        (b"a" * 65, ""),
        (b"\xff" * 64, ""),
        (b"a" * 100_000, ""),
    ],
)
def test_a_valid_host_name_of_the_guest_is_used(tmp_path, written, name):
    file = tmp_path / "hostname"
    file.write_bytes(written)
    assert root.own_name(file) == name


def test_only_a_file_has_a_host_name(tmp_path):
    assert root.own_name(tmp_path) == root.own_name(tmp_path / "none") == ""
    (tmp_path / "round").symlink_to("round")
    assert root.own_name(tmp_path / "round") == ""
    os.mkfifo(tmp_path / "pipe")
    assert root.own_name(tmp_path / "pipe") == ""


@pytest.mark.parametrize(
    ("link", "leads_to", "path"),
    [
        ("var", "..", "var/lib/rancher"),
        ("var/lib", "/nowhere", "var/lib/rancher"),
        ("var/lib/rancher", "../../../outside", "var/lib/rancher"),
        ("proc", "/proc", "proc/sys/kernel"),
    ],
)
def test_symbolic_links_of_a_guest_are_refused(tmp_path, monkeypatch, link, leads_to, path):
    monkeypatch.chdir(tmp_path)
    Path(link).parent.mkdir(parents=True, exist_ok=True)
    Path(link).symlink_to(leads_to)
    with pytest.raises(OSError, match="symbolic link") as refused:
        root.refuse_links(Path(path))
    assert refused.value.filename == f"/{link}"


_LABEL = st.text("ab1", min_size=1, max_size=63)


@given(st.lists(_LABEL, min_size=1, max_size=4).map(".".join))
def test_host_names_are_shortened(name):
    found = host_name(name)
    assert 0 < len(found) <= 64
    assert found == name if len(name) <= 64 else name.startswith(found + ".")


def test_cgroups_of_a_root_follow_the_host():
    cpu = records.Hierarchy("/c/cpu", "cgroup", "cpu,cpuacct", "cpu,cpuacct")
    steps = list(root.plan(boot(hierarchies=(cpu, records.Hierarchy("/c/u", "cgroup2", "unified", "")))))
    assert root.Link("sys/fs/cgroup/cpuacct", "cpu,cpuacct") in steps
    targets = [s.target for s in steps if isinstance(s, root.Mount) and "cgroup" in s.kind]
    assert targets == ["sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/unified"]
    modern = boot(hierarchies=(records.Hierarchy("/c", "cgroup2", "", ""),))
    targets = [s.target for s in root.plan(modern) if isinstance(s, root.Mount) and "cgroup" in s.target]
    assert targets == ["sys/fs/cgroup"]


def test_a_process_is_known_by_its_start_too():
    own = processes.identify(os.getpid())
    assert processes.alive(own)
    other = processes.Identity(own.pid, own.start_time + 1, own.boot_id)
    assert not processes.alive(other)
    assert not processes.send(other, signal.SIGKILL)
    assert not processes.send(processes.Identity(own.pid, own.start_time, "another boot"), signal.SIGKILL)
    assert processes.wait_gone(other, 0)
    assert not processes.wait_gone(own, 0)


@given(st.text(alphabet="ab) (\n", max_size=15))
def test_a_process_may_have_any_name(name):
    text = f"12 ({name}) S " + " ".join(str(n) for n in range(4, 22)) + " 4242 23 24\n"
    assert processes.parse_stat(text) == ("S", 4242)


interfaces = st.builds(
    PrivateInterface, st.integers(1, 5), st.just("10.0.0.2"), st.just(()), st.just("86:00:00:00:00:01")
)


@given(st.lists(st.one_of(interfaces, st.integers(1, 5)), max_size=12))
def test_interfaces_keep_their_number_while_others_come_and_go(changes):
    known = Machine(Path("/x"), MachineSpec(1, "m", None, None, 1, 1.0, ()))
    for change in changes:
        before = known
        if isinstance(change, int):
            known = known.without_interface(change)
        else:
            known = known.with_interface(change)
            assert known.interface(change.network_id) == change
        assert {i.network_id for i in known.spec.private} == set(known.slots)
        assert len(set(known.slots.values())) == len(known.slots)
        assert all(before.slots[n] == known.slots[n] for n in before.slots if n in known.slots)


@pytest.fixture
def small_image(tmp_path):
    store = tmp_path / "store"
    (store / "blobs").mkdir(parents=True)
    (store / "blobs/sha").write_text("layer")
    (store / "meta.db").write_text("database")
    (store / "link").symlink_to("blobs/sha")
    (tmp_path / "rootfs/var/log/journal").mkdir(parents=True)
    (tmp_path / "rootfs/var/log/journal").chmod(0o2755)
    return SimpleNamespace(rootfs=tmp_path / "rootfs", container_store=store)


@pytest.fixture
def airgap(tmp_path):
    return Airgap(tmp_path / "state")


def test_a_disk_shares_what_is_never_written_and_copies_databases(tmp_path, small_image, airgap):
    folder = tmp_path / "machines/7"
    folder.mkdir(parents=True)
    disk.create(folder, small_image, airgap, "m1", "site/7")
    data = folder / "disk/data/var/lib/containerd"
    assert (data / "blobs/sha").samefile(small_image.container_store / "blobs/sha")
    assert not (data / "meta.db").samefile(small_image.container_store / "meta.db")
    assert (data / "meta.db").read_text() == "database"
    assert (data / "link").readlink() == Path("blobs/sha")
    assert (folder / "disk/data/var/log/journal").stat().st_mode & 0o7777 == 0o2755
    assert (folder / "disk/upper/etc/hostname").read_text() == "m1\n"
    identity = (folder / "disk/upper/etc/machine-id").read_text()
    assert len(identity) == 33
    (folder / "disk/upper/root").mkdir()
    disk.create(folder, small_image, airgap, "other", "site/7")  # a disk that is whole is kept
    assert (folder / "disk/upper/root").exists()


@pytest.mark.parametrize(
    ("asked", "differs"), [("ubuntu-24.04", True), ("debian-13", True), ("debian-12", False), ("", False)]
)
def test_a_machine_names_its_actual_image(tmp_path, small_image, airgap, asked, differs):
    (small_image.rootfs / "etc").mkdir()
    release = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n'
    (small_image.rootfs / "etc/os-release").write_text(release)
    folder = tmp_path / "machines/7"
    folder.mkdir(parents=True)
    disk.create(folder, small_image, airgap, "m1", "site/7", asked=asked)
    message = folder / "disk/upper/etc/motd"
    assert message.exists() == differs
    if differs:
        assert f"requested with the image {asked}." in message.read_text()
        assert "\nDebian GNU/Linux 12 (bookworm), whatever" in message.read_text()


def test_a_new_machine_has_the_loaded_images(tmp_path, small_image, airgap):
    (tmp_path / "machines/7").mkdir(parents=True)
    for content in (b"first", b"second"):
        airgap.keep(lambda file, content=content: file.write(content), replaces=lambda _: False)
    disk.create(tmp_path / "machines/7", small_image, airgap, "m1", "site/7")
    images = tmp_path / "machines/7/disk/data/var/lib/rancher/k3s/agent/images"
    assert [path.read_bytes() for path in sorted(images.glob("*.tar"))] == [b"first", b"second"]
    # k3s only reads them: a machine more takes no more of the disk
    assert all((images / kept.name).samefile(kept) for kept in airgap.archives())


def test_an_image_that_is_loaded_again_replaces_the_old_one(airgap):
    first, _ = airgap.keep(lambda file: file.write(b"app:1"), replaces=lambda _: False)
    other, _ = airgap.keep(lambda file: file.write(b"other"), replaces=lambda _: False)
    last, gone = airgap.keep(lambda file: file.write(b"app:1 again"), replaces=lambda old: old == first)
    assert gone == [first.name]
    assert airgap.archives() == [other, last]  # k3s imports by name: the last one counts


def test_an_image_that_can_not_be_written_changes_nothing(airgap):
    def fail(file):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "full")

    kept, _ = airgap.keep(lambda file: file.write(b"whole"), replaces=lambda _: False)
    with pytest.raises(OSError, match="full"):
        airgap.keep(fail, replaces=lambda _: True)
    assert airgap.archives() == [kept]
    assert [path.name for path in kept.parent.iterdir() if path.name.startswith(".new")] == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_explained(tmp_path, number):
    with pytest.raises(errors.DiskFull, match="is full"), disk.explained(tmp_path / "7"):
        raise OSError(number, os.strerror(number))
    with pytest.raises(BackendError, match="could not write to the folder"), disk.explained(tmp_path / "7"):
        raise PermissionError(errno.EACCES, "no")


def test_a_machine_comes_back_from_its_folder(tmp_path, small_image, airgap):
    interface = PrivateInterface(5, "10.0.0.2", ("10.0.0.9",), "86:00:00:00:00:01")
    spec = MachineSpec(7, "m", "203.0.113.9", None, 2, 4.0, (interface,))
    made = machine.create(tmp_path / "7", spec, small_image, airgap, "site")
    assert machine.load(tmp_path / "7") == made
    assert (made.slots, made.run, made.keeper) == ({5: 0}, None, None)
    machine.delete(tmp_path / "7")
    machine.delete(tmp_path / "7")
    assert machine.load(tmp_path / "7") is None


def test_inotify_instances_are_counted_inside_our_machines(tmp_path):
    for pid, targets in {"10": ["anon_inode:inotify", "/dev/null"], "11": ["anon_inode:inotify"] * 2}.items():
        (tmp_path / pid / "ns").mkdir(parents=True)
        (tmp_path / pid / "fd").mkdir()
        (tmp_path / pid / "ns/pid").write_text("")
        for number, target in enumerate(targets):
            (tmp_path / pid / "fd" / str(number)).symlink_to(target)
    (tmp_path / "meminfo").write_text("")
    ours = capacity.process_namespace(11, tmp_path)
    assert capacity.instances_inside({ours}, tmp_path) == 2
    assert capacity.instances_inside((), tmp_path) == 0
    assert capacity.process_namespace(99, tmp_path) is None


@given(st.sampled_from(["net", "srv", "lb"]), st.integers(1, 2**40))
def test_names_are_parsed(kind, number):
    names = Names("0a1b2c")
    made = {"net": names.network, "srv": names.server, "lb": names.load_balancer}[kind](number)
    assert names.parse(made) == (kind, number)
    assert Names("ffffff").parse(made) is None
    assert names.parse(names.router) is None
    assert len(names.host_link) <= 15


DRIVERS = """\
Character devices:
  1 mem
  5 /dev/console
 10 misc
 21 sg
136 pts
241 nvme

Block devices:
  7 loop
254 virtblk
"""


def test_devices_with_disk_commands_are_denied():
    assert devices.denied(DRIVERS) == ["b *:* rw", "c 21:* rw", "c 241:* rw"]


@pytest.mark.parametrize(
    ("kind", "access", "majors", "allowed"),
    [
        ("block", "rw", [7], False),
        ("block", "m", [254], True),
        ("block", "r", [1, 254], False),
        ("block", "wm", [254], False),
        ("character", "rw", [1, 5, 10, 128, 143], True),
        ("character", "rw", [144], False),
        ("character", "r", [21], False),
        ("character", "m", [21], True),
        ("character", "w", [2**32 - 1], False),
    ],
)
def test_the_program_decides_as_the_controller_does(kind, access, majors, allowed):
    asked = {"block": 1, "character": 2}[kind] | sum({"m": 1, "r": 2, "w": 4}[a] for a in access) << 16
    for major in majors:
        assert interpreted(devices.program(), (asked, major, 3)) == int(allowed)
        assert interpreted(devices.program([2, 4]), (asked, major, 3)) == int(allowed)


def test_a_machine_can_only_open_its_volumes():
    code = devices.program([3, 2**20 - 1])
    for major, minor in ((7, 3), (7, 2**20 - 1)):
        assert interpreted(code, (1 | 6 << 16, major, minor)) == 1
    for major, minor in ((7, 0), (7, 4), (8, 3), (254, 2**20 - 1), (2**32 - 1, 3)):
        assert interpreted(code, (1 | 6 << 16, major, minor)) == 0


CALCULATIONS = {
    0xBF: lambda _old, other, _number: other,
    0x77: lambda old, _other, number: old >> number,
    0x67: lambda old, _other, number: old << number,
    0x4F: lambda old, other, _number: old | other,
    0x57: lambda old, _other, number: old & number,
    0xB7: lambda _old, _other, number: number,
}


def interpreted(code: bytes, asked: tuple[int, int, int]) -> int:
    """What a BPF program of the few instructions that ours has answers."""
    instructions = list(struct.iter_unpack("<BBhi", code))
    registers, place = [0] * 11, 0
    while True:
        operation, both, offset, number = instructions[place]
        target, source = both & 15, both >> 4
        if operation == 0x61:
            registers[target] = asked[offset // 4]
        elif operation == 0x95:
            return registers[0]
        elif operation == 0x15:
            place += offset if registers[target] == number else 0
        else:
            registers[target] = CALCULATIONS[operation](registers[target], registers[source], number)
        place += 1


def test_a_host_without_a_device_controller():
    def one(kind: str, name: str) -> records.Hierarchy:
        return records.Hierarchy(f"/c/{name}/m", kind, name, "")

    memory, both, second = one("cgroup", "memory"), one("cgroup", "devices"), one("cgroup2", "unified")
    assert cgroups.deciding_about_devices([both, memory, second]) == [second, both]
    assert cgroups.deciding_about_devices([memory, both]) == [both]
    with pytest.raises(OSError, match="control access to devices"):
        cgroups.fence([memory], [])


MOUNTS = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:5 / /state rw - tmpfs x rw
23 22 0:6 / /state/it\\040s/root rw - overlay overlay rw
24 21 0:7 / /statement rw - tmpfs x rw
"""


def test_mounts_below_a_folder():
    outer, inner = Path("/state"), Path("/state/it s/root")
    assert mounts.below(outer, MOUNTS) == [inner, outer]
    assert mounts.below(inner.parent, MOUNTS) == [inner]
    assert mounts.below(Path("/state/it"), MOUNTS) == mounts.below(Path("/statement/x"), MOUNTS) == []
