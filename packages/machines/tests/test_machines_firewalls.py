import asyncio
import re
import socket

import pytest

from hetzner_emulator.backend import FirewallRule
from hetzner_machines import namespaces
from hetzner_machines.firewalls import ruleset

EVERYBODY = ("0.0.0.0/0", "::/0")
SSH = FirewallRule("in", "tcp", (22, 22), EVERYBODY)


def test_overlapping_ranges_become_one_and_families_are_kept_apart():
    rule = FirewallRule("in", "tcp", (80, 90), ("10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32"))
    lines = ruleset("t", {7: (rule, FirewallRule("in", "icmp", None, ("::/0",)))}).splitlines()
    assert lines[lines.index("chain in_7 {") + 1 :][:5] == [
        "ip saddr { 10.0.0.0/8 } tcp dport 80-90 return",
        "ip6 saddr { 2001:db8::/32 } tcp dport 80-90 return",
        "ip6 saddr { ::/0 } meta l4proto 58 return",
        "drop",
        "}",
    ]
    assert lines[lines.index("chain out_7 {") + 1] == "}", "all goes out where no rule is about it"


@pytest.mark.parametrize(
    ("protocol", "numbers"),
    [("icmp", (1, 58)), ("tcp", (6, 6)), ("udp", (17, 17)), ("gre", (47, 47)), ("esp", (50, 50))],
)
def test_protocols_are_numbers_because_a_small_debian_knows_no_names(protocol, numbers):
    text = ruleset("t", {7: (FirewallRule("in", protocol, None, EVERYBODY),)})
    for family, number in zip(("ip", "ip6"), numbers, strict=True):
        assert re.search(rf"^{family} saddr .* meta l4proto {number} return$", text, re.MULTILINE)


def answers(address: str, port: int) -> bool:
    """Whether a connection from the host is taken or refused, and not dropped."""
    try:
        with socket.create_connection((address, port), timeout=1.5):  # a drop must show
            return True
    except ConnectionRefusedError:
        return True
    except TimeoutError:
        return False


@pytest.mark.machines
async def test_firewalls_apply_to_public_interfaces_only(world, backend):
    await backend.put_network(world.network)
    for number in (1, 2):
        await backend.create_machine(world.machine(number))
    await asyncio.gather(*(backend.power_on(number) for number in (1, 2)))
    await asyncio.gather(*(world.ssh(number, "true") for number in (1, 2)))
    one, two = (str(world.range[10 + number]) for number in (1, 2))
    assert await asyncio.to_thread(answers, two, 8080)

    elsewhere = FirewallRule("in", "tcp", (8000, 8100), (f"{one}/32",))
    every_protocol = tuple(FirewallRule("in", kind, None, ("10.0.0.0/8",)) for kind in ("esp", "gre", "udp"))
    await backend.put_firewalls({2: (SSH, elsewhere, *every_protocol)})
    assert not await asyncio.to_thread(answers, two, 8080)
    assert await asyncio.to_thread(answers, one, 8080), "the other server has no firewall"
    assert "refused" in await world.ssh(1, f"timeout 30 bash -c 'exec 3<>/dev/tcp/{two}/8080'")
    ipv6 = str(world.ipv6(2)[1])
    for address, received, seconds in ((two, 0, 1), (ipv6, 0, 1), ("10.0.0.3", 1, 30)):
        assert f" {received} received" in await world.ssh(1, f"ping -c1 -W{seconds} {address}"), address
    assert " 1 received" in await world.ssh(2, f"ping -c1 -W30 {one}"), "what it asked for comes back"
    own = "http://169.254.169.254/hetzner/v1/metadata/instance-id"
    assert await world.ssh(2, f"curl -s -m 30 {own}") == "2", "metadata does not come through it"
    assert await world.ssh(2, "nft flush ruleset; ip route get 1.1.1.1 >/dev/null; echo done") == "done"
    assert not await asyncio.to_thread(answers, two, 8080), "the machine's root can't lift it"

    ping = tuple(FirewallRule(direction, "icmp", None, EVERYBODY) for direction in ("in", "out"))
    await backend.put_firewalls({2: (SSH, *ping)})
    for address in (two, ipv6):
        assert " 1 received" in await world.ssh(1, f"ping -c1 -W30 {address}")
    assert " 1 received" in await world.ssh(2, f"ping -c1 -W30 {one}")
    dropped = await world.ssh(2, f"timeout 1 bash -c 'exec 3<>/dev/tcp/{one}/22'; echo $?")
    assert dropped.endswith("124"), "with a rule for what goes out, the rest does not"

    await backend.put_firewalls({})
    assert await asyncio.to_thread(answers, two, 8080)
    router = f"ccmfs-{world.site}-router"
    assert namespaces.exists(router)
