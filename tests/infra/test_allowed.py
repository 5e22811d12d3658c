import asyncio

import pytest
from control_servers import DYNAMIC, SERVER

from ccm_pulumi.lib.errors import ConfigurationError
from ccm_pulumi.preflight.ssh_allow_list import address_seen_by, refuse_to_shut_out

STATE = {
    ("hcloud:index/firewall:Firewall", "servers"): {
        "rules": [{"port": "22", "sourceIps": ["198.51.100.0/24"]}]
    },
    (f"{DYNAMIC}KeyPair", "key"): {"private_key": "k"},
    (SERVER, "control"): {"ipv4Address": "203.0.113.7"},
    (f"{DYNAMIC}Boot", "control"): {"host_key": "h"},
}
NAT = {(SERVER, "nat"): {"ipv4Address": "203.0.113.9"}, (f"{DYNAMIC}Boot", "nat"): {"host_key": "n"}}


@pytest.mark.parametrize(
    ("allowed", "seen", "refused"),
    [
        (("192.0.2.0/24",), "198.51.100.7", True),
        (("192.0.2.0/24", "2001:db8::/32"), "198.51.100.7", True),
        (("192.0.2.0/24", "198.51.100.7/32"), "198.51.100.7", False),
        (("0.0.0.0/0", "::/0"), "198.51.100.7", False),
        (("192.0.2.0/24",), "", False),
    ],
)
def test_the_address_that_a_server_sees_has_to_be_in_it(allowed, seen, refused):
    asked = []

    def ask(host):
        asked.append(host.address)
        return seen

    if refused:
        with pytest.raises(ConfigurationError, match=f"sshAllowedCidrs: .*{seen}"):
            refuse_to_shut_out(allowed, {**STATE, **NAT}, ask)
    else:
        refuse_to_shut_out(allowed, {**STATE, **NAT}, ask)
    assert asked == ["203.0.113.9"]


@pytest.mark.parametrize(("allowed", "state"), [(("198.51.100.0/24",), STATE), (("192.0.2.0/24",), {})])
def test_nothing_is_asked_without_a_change_or_a_server(allowed, state):
    refuse_to_shut_out(allowed, state, lambda host: pytest.fail(host.address))


async def test_a_server_tells_from_where_it_is_reached(host, monkeypatch):
    # the tests' server is no OpenSSH, which sets it
    monkeypatch.setenv("SSH_CONNECTION", "2001:db8::7 50000 203.0.113.7 22")
    assert await asyncio.to_thread(address_seen_by, host) == "2001:db8::7"
    monkeypatch.setenv("SSH_CONNECTION", "")
    assert await asyncio.to_thread(address_seen_by, host) == ""
