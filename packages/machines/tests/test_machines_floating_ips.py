import asyncio
import socket

import pytest

pytestmark = pytest.mark.machines


def ssh_answers(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=1.5):  # no answer must show
            return True
    except OSError:
        return False


async def answers(address: str) -> bool:
    return await asyncio.to_thread(ssh_answers, address)


async def test_a_floating_ip_moves_between_machines(world, backend):
    for number in (1, 2):
        await backend.create_machine(world.machine(number, private=False))
        await backend.power_on(number)
    ipv4, ipv6 = str(world.range[40]), world.ipv6(40)
    add = f"ip addr add {ipv4}/32 dev eth0; ip addr add {ipv6[1]}/64 dev eth0 nodad"
    await asyncio.gather(*(world.ssh(number, add) for number in (1, 2)))
    assert not await answers(ipv4), "while it is unassigned"
    for number in (1, 2):
        await backend.assign_floating_ip(number, ipv4)
        await backend.assign_floating_ip(number, str(ipv6))
        other = 3 - number
        seen = await world.ssh(other, f"ssh-keyscan -T30 -t ed25519 {world.range[10 + number]} 2>/dev/null")
        assert await answers(ipv4)
        assert await answers(str(ipv6[1]))
        key = seen.split()[-1]
        host = asyncio.create_subprocess_exec(
            "ssh-keyscan", "-T30", "-t", "ed25519", ipv4, stdout=asyncio.subprocess.PIPE, stderr=-3
        )
        found, _ = await asyncio.wait_for((await host).communicate(), 60)
        assert found.decode().split()[-1] == key, "the machine that it is led to answers"
        if number == 1:
            for address in (ipv4, str(ipv6)):
                await backend.unassign_floating_ip(1, address)
                await backend.unassign_floating_ip(1, address)
            assert not await answers(ipv4)
    await backend.power_off(2)
    await backend.power_on(2)
    async with asyncio.timeout(60):  # the machine's network may come up after SSH
        while not await answers(ipv4):
            await world.ssh(2, f"ip addr replace {ipv4}/32 dev eth0")
    await backend.delete_machine(2)
    assert not await answers(ipv4)
