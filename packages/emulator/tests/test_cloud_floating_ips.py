"""Floating IPs, by the official client and by hand."""

from __future__ import annotations

import hcloud
import pytest
from cloud_emulator import Emulator, Start
from hcloud.images import Image
from hcloud.locations import Location
from hcloud.server_types import ServerType

from hetzner_emulator.backend import BackendError, RecordsBackend


async def test_the_life_of_a_floating_ip(emulator: Emulator):
    def work(client: hcloud.Client) -> None:
        made = client.floating_ips.create("ipv4", "main", {"a": "b"}, home_location=Location(name="nbg1"))
        ip = made.floating_ip
        assert made.action is None
        assert (ip.home_location.name, ip.description, ip.server) == ("nbg1", "main", None)
        server = client.servers.create("web", ServerType(name="cx23"), Image(name="debian-12")).server
        ip.assign(server).wait_until_finished()
        ip.reload()
        assert ip.server.id == server.id
        assert [f.id for f in client.servers.get_by_name("web").public_net.floating_ips] == [ip.id]
        ip.update(description="other", name="www")
        ip.change_dns_ptr(ip.ip, "www.example.com").wait_until_finished()
        ip.change_protection(delete=True).wait_until_finished()
        ip.reload()
        assert (ip.name, ip.description, ip.dns_ptr[0]["dns_ptr"]) == ("www", "other", "www.example.com")
        ip.unassign().wait_until_finished()
        with pytest.raises(hcloud.APIException, match="protected"):
            ip.delete()
        ip.change_protection(delete=False).wait_until_finished()
        assert [a.command for a in ip.get_actions()][:2] == ["assign_floating_ip", "change_dns_ptr"]
        ip.delete()
        six = client.floating_ips.create("ipv6", server=server)
        six.action.wait_until_finished()
        assert six.floating_ip.ip.endswith("/64")
        assert client.floating_ips.get_by_id(six.floating_ip.id).server.id == server.id
        server.delete().wait_until_finished()
        six.floating_ip.reload()
        assert six.floating_ip.server is None, "a floating IP outlives its server"

    await emulator.official(work)


async def test_what_a_floating_ip_refuses(emulator: Emulator):
    server = (await emulator.make_server())["id"]
    inner = await emulator.make_network("net", "10.0.0.0/24")
    nowhere = {"enable_ipv4": False, "enable_ipv6": False}
    hidden = (await emulator.make_server("hidden", public_net=nowhere, networks=[inner["id"]]))["id"]
    for body in (
        {"type": "ipv4"},
        {"type": "ipv4", "home_location": "moon"},
        {"type": "ipv4", "server": server, "home_location": "fsn1"},
    ):
        error = await emulator.refused("POST", "/floating_ips", body)
        assert error["message"] == "invalid input in fields 'server', 'home_location'"
    body = {"type": "ipv4", "home_location": "fsn1"}
    ip = (await emulator.ok("POST", "/floating_ips", body))["floating_ip"]
    path = f"/floating_ips/{ip['id']}"
    assert (await emulator.refused("POST", f"{path}/actions/unassign"))["code"] == "invalid_input"
    error = await emulator.refused("POST", f"{path}/actions/assign", {"server": hidden})
    assert error["details"]["fields"][0]["name"] == "server"
    await emulator.ok("POST", f"{path}/actions/assign", {"server": server})
    error = await emulator.refused("POST", f"{path}/actions/assign", {"server": server})
    assert error["code"] == "floating_ip_assigned"
    assert (await emulator.refused("DELETE", path))["code"] == "must_be_unassigned"


async def test_an_address_moves_to_another_server(start: Start):
    backend = Routes()
    emulator = await start(backend)
    first, second = [(await emulator.make_server(name))["id"] for name in ("a", "b")]
    ip = (await emulator.ok("POST", "/floating_ips", {"type": "ipv4", "server": first}))["floating_ip"]
    path = f"/floating_ips/{ip['id']}"
    done = (await emulator.ok("POST", f"{path}/actions/assign", {"server": second}))["action"]
    assert (done["command"], done["status"]) == ("assign_floating_ip", "success")
    assert backend.led == {(second, ip["ip"])}
    assert (await emulator.ok("GET", path))["floating_ip"]["server"] == second
    for server, own in ((first, []), (second, [ip["id"]])):
        shown = (await emulator.ok("GET", f"/servers/{server}"))["server"]
        assert shown["public_net"]["floating_ips"] == own


class Routes(RecordsBackend):
    """Knows where addresses are led to, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.led: set[tuple[int, str]] = set()
        self.failure: BackendError | None = None

    async def assign_floating_ip(self, server_id: int, address: str) -> None:
        if self.failure:
            raise self.failure
        self.led.add((server_id, address))

    async def unassign_floating_ip(self, server_id: int, address: str) -> None:
        if self.failure:
            raise self.failure
        self.led.discard((server_id, address))


async def test_a_failure_below_leaves_the_address_where_it_was(start: Start):
    backend = Routes()
    emulator = await start(backend)
    server = (await emulator.make_server())["id"]
    ip = (await emulator.ok("POST", "/floating_ips", {"type": "ipv4", "server": server}))["floating_ip"]
    assert backend.led == {(server, ip["ip"])}
    backend.failure = BackendError("no route")
    done = await emulator.ok("POST", f"/floating_ips/{ip['id']}/actions/unassign")
    assert done["action"]["error"]["message"] == "no route"
    assert (await emulator.ok("GET", f"/floating_ips/{ip['id']}"))["floating_ip"]["server"] == server
    backend.failure = None
    await emulator.ok("POST", f"/floating_ips/{ip['id']}/actions/unassign")
    assert backend.led == set()
