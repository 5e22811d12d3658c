"""What the host says about itself."""

import socket
from ipaddress import IPv4Address, IPv4Network

from ccmfs_common import host

ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
cfs1\t007100CB\t026433C6\t0003\t0\t0\t0\tC0FFFFFF\t0\t0\t0
tun0\t00000000\t0100080A\t0003\t0\t0\t0\t00000080\t0\t0\t0
tun0\t00000080\t0100080A\t0003\t0\t0\t0\t00000080\t0\t0\t0
"""


def test_routes_without_the_default_route_are_used_ranges():
    assert host.parse_routes(ROUTES) == [IPv4Network("192.168.0.0/24"), IPv4Network("203.0.113.0/26")]


def test_sources_of_packages_and_name_servers_are_found_in_configuration_texts():
    texts = [
        "deb [signed-by=/k] http://mirror.example/debian bookworm main\n# see https://docs.example:8080/x",
        "search lan\nnameserver 192.0.2.53\n",
        "[global]\nindex-url = https://user:secret@packages.example/simple\n",
        "https://modules.example,direct",
    ]
    found = "mirror.example docs.example 192.0.2.53 packages.example modules.example"
    assert host.names_in(texts) == {*found.split()}


def test_an_address_resolves_to_itself():
    assert IPv4Address("127.0.0.1") in host.resolve(["127.0.0.1", "no such host"])


def test_a_port_is_free_until_a_process_listens():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        listener.listen()
        assert not host.port_is_free(port)
    assert host.port_is_free(port)
