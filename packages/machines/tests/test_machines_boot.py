import asyncio
from pathlib import Path

import pytest

from hetzner_emulator import descriptors
from hetzner_emulator.backend import NetworkSpec, Route
from tests.waiting import until

pytestmark = pytest.mark.machines

PANIC = Path("/proc/sys/kernel/panic")


async def test_a_machine_is_reached_by_key_at_its_public_address_and_obeys_its_user_data(world, backend):
    files = "write_files:\n- {path: /root/hello, content: hi}"
    world.user_data = f"#cloud-config\n{files}\nruncmd: [touch /root/ran]\n"
    await backend.put_network(world.network)
    await backend.create_machine(world.machine(1, memory=0.5))
    await backend.power_on(1)
    assert await world.ssh(1, "hostname") == "m1"
    assert await world.ssh(1, "cloud-init status --wait >/root/status; cat /root/hello; ls /root/ran") == (
        "hi/root/ran"
    )
    limits = "/sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max"  # one of them is there
    assert await world.ssh(1, f"cat {limits} 2>/dev/null") == "536870912"
    routes = await world.ssh(1, "ip -br -4 addr; ip route")
    assert f"{world.range[11]}/32" in routes
    assert "default via 172.31.1.1 dev eth0" in routes
    assert "10.0.0.0/8 via 10.0.0.1 dev ens10" in routes
    assert await world.ssh(1, "cat /run/ccmfs/sys_vendor /run/ccmfs/product_serial") == "Hetzner\n1"
    before = (await backend.measure())["server", 1]
    assert len(await world.ssh(1, "head -c 1000000 /dev/zero | tr '\\0' x")) == 1_000_000
    after = (await backend.measure())["server", 1]
    assert after["network.0.bandwidth.out"] - before["network.0.bandwidth.out"] > 1_000_000
    assert before["cpu"] < after["cpu"] < before["cpu"] + 6000 * 2


async def test_a_guest_can_not_change_the_kernel_of_its_host(world, backend):
    panic = PANIC.read_text()  # noqa: ASYNC240
    await backend.create_machine(world.machine(1, private=False))
    await backend.power_on(1)
    attempts = {
        "echo 1 > /proc/sys/kernel/threads-max": "Read-only file system",
        "echo 1 > /proc/sys/vm/drop_caches": "Read-only file system",
        "test -w /proc/sysrq-trigger || echo protected": "protected",
        "mkdir /sys/kernel/x": "Read-only file system",
        "date -s @1": "Operation not permitted",
        "dmesg -n 1; cat /proc/sys/kernel/panic": "10",
        "ls -d /old /.old /root/.old; mount | grep -c ' on /home '": "0",
        "echo 1 > /proc/sys/net/ipv4/ip_forward; cat /proc/sys/net/ipv4/ip_forward": "1",
    }
    for command, answer in attempts.items():
        assert answer in await world.ssh(1, command), command
    assert PANIC.read_text() == panic  # noqa: ASYNC240


async def test_a_guest_gets_the_sandboxs_limit_of_open_files(world, backend, monkeypatch):
    """It has raised its own; a service that calls select knows no descriptors above 1023."""
    monkeypatch.setattr(descriptors, "GIVEN", 512)
    await backend.create_machine(world.machine(1, private=False))
    await backend.power_on(1)
    services = "systemctl show --property=DefaultLimitNOFILESoft --value"  # a login begins with what PAM says
    assert await world.ssh(1, services) == "512"


async def test_a_guests_host_name_is_never_read_from_a_file_of_the_host(world, backend, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("of-the-host\n")
    await backend.create_machine(world.machine(1, private=False))
    await backend.power_on(1)
    turn_off = "touch /etc/cloud/cloud-init.disabled"
    await world.ssh(1, f"{turn_off}; ln -sf {secret} /etc/hostname; sync")
    await backend.reset(1)
    assert await world.ssh(1, "hostname; readlink /etc/hostname") == f"m1\n{secret}"


async def test_a_route_of_the_api_is_a_kernel_route(world, backend):
    await backend.put_network(world.network)
    for number in (1, 2):
        await backend.create_machine(world.machine(number))
        await backend.power_on(number)
    await world.ssh(2, "ip addr add 10.244.1.1/32 dev lo")
    assert " 0 received" in await world.ssh(1, "ping -c1 -W1 10.244.1.1")
    routed = NetworkSpec(1, "n", "10.0.0.0/8", ("10.0.0.0/24",), (Route("10.244.1.0/24", "10.0.0.3"),))
    await backend.put_network(routed)
    assert " 1 received" in await world.ssh(1, "ping -c1 -W2 10.244.1.1")
    await backend.put_network(world.network)
    assert " 0 received" in await world.ssh(1, "ping -c1 -W1 10.244.1.1")


async def test_networks_are_attached_and_detached_while_a_machine_runs(world, backend):
    await backend.put_network(world.network)
    for number in (1, 2):
        await backend.create_machine(world.machine(number, private=False))
        await backend.power_on(number)
    await asyncio.gather(*(world.ssh(number, "true") for number in (1, 2)))
    for number in (1, 2):
        await backend.attach(number, world.interface(number), world.network)
    assert " 1 received" in await world.ssh(1, "ping -c1 -W2 10.0.0.3")
    await backend.attach(2, world.interface(2, "10.0.0.99"), world.network)
    await world.ssh(2, "ip addr add 10.0.0.99/32 dev ens10")
    assert " 1 received" in await world.ssh(1, "ping -c1 -W2 10.0.0.99")
    await backend.detach(2, 1)
    assert "ens10" not in await world.ssh(2, "ip link")
    assert " 0 received" in await world.ssh(1, "ping -c1 -W1 10.0.0.3")
    await backend.attach(2, world.interface(2), world.network)
    assert " 1 received" in await world.ssh(1, "ping -c1 -W2 10.0.0.3")


@pytest.mark.parametrize("public_ipv6", [False, pytest.param(True, marks=pytest.mark.nightly)])
async def test_a_machine_without_public_ipv4_address_gets_its_metadata_through_its_network(
    world, backend, public_ipv6
):
    await backend.put_network(world.network)
    await backend.create_machine(world.machine(1))
    own = {"public_ipv6": str(world.ipv6(2))} if public_ipv6 else {}
    await backend.create_machine(world.machine(2, public=False, **own))
    await backend.power_on(1)
    await backend.power_on(2)
    assert "10.0.0.0/8 via 10.0.0.1" in await world.ssh(1, "ip route")
    # a port without a listener refuses at once
    seen = await world.ssh(
        1, "for i in $(seq 100); do ssh-keyscan -T1 -t ed25519 10.0.0.3 && break; sleep 0.5; done 2>&1"
    )
    assert "10.0.0.3 ssh-ed25519" in seen
    assert "m2" in (world.state / "machines/2/disk/upper/etc/hosts").read_text()  # written by cloud-init


async def test_a_boot_waits_for_metadata(world):
    backend = world.backend()
    await backend.start([], {}, world.event)
    await backend.create_machine(world.machine(1, private=False))
    await backend.power_on(1)
    log = world.state / "machines/1/disk/data/var/log/cloud-init.log"
    await until(lambda: log.exists() and "[2/" in log.read_text())  # the attempts that cloud-init has made
    async with world.metadata(backend):
        assert await world.ssh(1, "hostname") == "m1"
    await backend.stop()
