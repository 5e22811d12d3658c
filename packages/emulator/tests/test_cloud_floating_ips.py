"""Floating IPs; their life cycle is a scenario of ``test_hcloud_go.py``."""

from __future__ import annotations

from cloud_emulator import Emulator, RecordingBackend, Start

from hetzner_emulator.backend import BackendError


async def test_refused_changes_of_a_floating_ip(emulator: Emulator):
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
    ip = await emulator.make("/floating_ips", type="ipv4", home_location="fsn1")
    path = f"/floating_ips/{ip['id']}"
    await emulator.expect("invalid_input", "POST", f"{path}/actions/unassign")
    await emulator.expect(["server"], "POST", f"{path}/actions/assign", {"server": hidden})
    await emulator.ok("POST", f"{path}/actions/assign", {"server": server})
    await emulator.expect("floating_ip_assigned", "POST", f"{path}/actions/assign", {"server": server})
    await emulator.expect("must_be_unassigned", "DELETE", path)


async def test_an_address_can_move_to_another_server(start: Start):
    backend = RecordingBackend()
    emulator = await start(backend)
    first, second = [(await emulator.make_server(name))["id"] for name in ("a", "b")]
    ip = await emulator.make("/floating_ips", type="ipv4", server=first)
    path = f"/floating_ips/{ip['id']}"
    done = (await emulator.ok("POST", f"{path}/actions/assign", {"server": second}))["action"]
    assert (done["command"], done["status"]) == ("assign_floating_ip", "success")
    assert [call for call in backend.calls if "floating" in call[0]] == [
        ("assign_floating_ip", first, ip["ip"]),
        ("unassign_floating_ip", first, ip["ip"]),
        ("assign_floating_ip", second, ip["ip"]),
    ]
    assert (await emulator.ok("GET", path))["floating_ip"]["server"] == second
    for server, own in ((first, []), (second, [ip["id"]])):
        shown = await emulator.get(f"/servers/{server}")
        assert shown["public_net"]["floating_ips"] == own


async def test_a_backend_failure_leaves_the_address_unchanged(start: Start):
    backend = RecordingBackend()
    emulator = await start(backend)
    server = (await emulator.make_server())["id"]
    ip = await emulator.make("/floating_ips", type="ipv4", server=server)
    backend.failure = BackendError("no route")
    done = await emulator.ok("POST", f"/floating_ips/{ip['id']}/actions/unassign")
    assert done["action"]["error"]["message"] == "no route"
    assert (await emulator.get(f"/floating_ips/{ip['id']}"))["server"] == server
    backend.failure = None
    await emulator.ok("POST", f"/floating_ips/{ip['id']}/actions/unassign")
    assert backend.of("unassign_floating_ip") == [ip["ip"]]
