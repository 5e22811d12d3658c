"""The official Python client as the judge."""

from __future__ import annotations

import hcloud
import pytest
from cloud_emulator import Emulator
from hcloud.images import Image
from hcloud.locations import Location
from hcloud.networks import NetworkRoute, NetworkSubnet
from hcloud.server_types import ServerType

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDlzUOKiDxUmMbMXZPvFdYWhZPGUBsfIAzmyFAxRPBYN someone"
CX23, DEBIAN = ServerType(name="cx23"), Image(name="debian-12")


def environment(client: hcloud.Client) -> dict:
    key = client.ssh_keys.create("key", KEY, labels={"a": "b"})
    network = client.networks.create("net", "10.0.0.0/8")
    subnet = NetworkSubnet(ip_range="10.0.0.0/24", type="cloud", network_zone="eu-central")
    network.add_subnet(subnet).wait_until_finished()
    group = client.placement_groups.create("spread", "spread").placement_group
    made = client.servers.create(
        "web",
        CX23,
        DEBIAN,
        ssh_keys=[key],
        networks=[network],
        placement_group=group,
        location=Location(name="nbg1"),
        user_data="#cloud-config\n",
        labels={"role": "web"},
    )
    for action in [made.action, *made.next_actions]:
        action.wait_until_finished()
    assert made.root_password is None
    return {"network": network, "group": group, "server": client.servers.get_by_name("web"), "key": key}


async def test_an_environment_comes_and_goes(emulator: Emulator):
    def work(client: hcloud.Client) -> None:
        made = environment(client)
        server, network = made["server"], made["network"]
        assert server.status == "running"
        assert server.location.name == "nbg1"
        assert server.private_net[0].ip == "10.0.0.2"
        assert server.public_net.ipv6.ip.endswith("/64")
        assert server.placement_group.id == made["group"].id
        network.add_route(NetworkRoute("10.244.0.0/24", "10.0.0.2")).wait_until_finished()
        network.reload()
        assert [(r.destination, r.gateway) for r in network.routes] == [("10.244.0.0/24", "10.0.0.2")]
        assert [s.id for s in network.servers] == [server.id]
        assert [(m.type, m.ip, m.status) for m in client.networks.get_member_all(network)] == [
            ("server", "10.0.0.2", "ok")
        ]
        server.delete().wait_until_finished()
        network.reload()
        assert network.servers == []
        assert len(network.routes) == 1, "deleting a server leaves its routes"
        assert client.placement_groups.get_by_id(made["group"].id).servers == []
        network.delete()
        made["group"].delete()
        made["key"].delete()
        assert client.primary_ips.get_all() == []
        assert client.ssh_keys.get_all() == []

    await emulator.official(work)


async def test_every_power_action(emulator: Emulator):
    def work(client: hcloud.Client) -> None:
        server = environment(client)["server"]
        for action, status in [
            (server.power_off, "off"),
            (server.power_on, "running"),
            (server.reboot, "running"),
            (server.reset, "running"),
            (server.shutdown, "off"),
        ]:
            action().wait_until_finished()
            server.reload()
            assert server.status == status, action

    await emulator.official(work)


async def test_errors_reach_the_client_as_its_exceptions(emulator: Emulator):
    def work(client: hcloud.Client) -> None:
        with pytest.raises(hcloud.APIException) as caught:
            client.servers.get_by_id(1)
        assert caught.value.code == "not_found"
        assert caught.value.correlation_id
        assert client.servers.get_by_name("1") is None
        client.networks.create("net", "10.0.0.0/8")
        with pytest.raises(hcloud.APIException, match="uniqueness_error"):
            client.networks.create("net", "10.0.0.0/8")

    await emulator.official(work)


async def test_whatever_the_client_looked_up_it_sends_as_a_number(emulator: Emulator):
    def work(client: hcloud.Client) -> None:
        place = client.locations.get_by_name("nbg1")
        debian = client.images.get_by_name_and_architecture("debian-13", "x86")
        small, large = client.server_types.get_by_name("cx23"), client.server_types.get_by_name("cx33")
        server = client.servers.create("web", small, debian, location=place, start_after_create=False).server
        server.change_type(large, upgrade_disk=True).wait_until_finished()
        server.rebuild(debian).action.wait_until_finished()
        server.attach_iso(client.isos.get_by_name("virtio-win-0.1.271.iso")).wait_until_finished()
        server.reload()
        assert (server.server_type.name, server.image.name, server.location.name) == (
            "cx33",
            "debian-13",
            "nbg1",
        )
        kinds = client.load_balancer_types
        balancer = client.load_balancers.create("lb", kinds.get_by_name("lb11"), location=place).load_balancer
        balancer.change_type(kinds.get_by_name("lb21")).wait_until_finished()
        assert client.load_balancers.get_by_name("lb").load_balancer_type.name == "lb21"
        assert client.primary_ips.create("ipv4", "ip", location=place).primary_ip.location.name == "nbg1"

    await emulator.official(work)
