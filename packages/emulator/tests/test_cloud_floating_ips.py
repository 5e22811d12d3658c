"""Floating IPs; their life cycle is a scenario of ``test_hcloud_go.py``."""

from cloud_emulator import NOWHERE, Emulator, RecordingBackend, Start

from hetzner_emulator.backend import BackendError


async def test_refused_changes_of_a_floating_ip(emulator: Emulator):
    server = (await emulator.make_server())["id"]
    inner = await emulator.make_network("net", "10.0.0.0/24")
    hidden = await emulator.make_server("hidden", networks=[inner["id"]], **NOWHERE)
    for place in ({}, {"home_location": "moon"}, {"server": server, "home_location": "fsn1"}):
        await emulator.deny(["server", "home_location"], "/floating_ips", type="ipv4", **place)
    ip = await emulator.make("/floating_ips", type="ipv4", home_location="fsn1")
    await emulator.deny("invalid_input", f"{ip.path}/actions/unassign")
    await emulator.deny(["server"], f"{ip.path}/actions/assign", server=hidden["id"])
    await emulator.act(ip.path, "assign", server=server)
    await emulator.deny("floating_ip_assigned", f"{ip.path}/actions/assign", server=server)
    await emulator.expect("must_be_unassigned", "DELETE", ip.path)


async def test_an_address_can_move_to_another_server(start: Start):
    backend = RecordingBackend()
    emulator = await start(backend)
    first, second = [await emulator.make_server(name) for name in ("a", "b")]
    ip = await emulator.make("/floating_ips", type="ipv4", server=first["id"])
    assert (await emulator.act(ip.path, "assign", server=second["id"]))["server"] == second["id"]
    assert [call for call in backend.calls if "floating" in call[0]] == [
        ("assign_floating_ip", first["id"], ip["ip"]),
        ("unassign_floating_ip", first["id"], ip["ip"]),
        ("assign_floating_ip", second["id"], ip["ip"]),
    ]
    for server, own in ((first, []), (second, [ip["id"]])):
        assert (await emulator.get(server.path))["public_net"]["floating_ips"] == own


async def test_a_backend_failure_leaves_the_address_unchanged(start: Start):
    backend = RecordingBackend()
    emulator = await start(backend)
    server = (await emulator.make_server())["id"]
    ip = await emulator.make("/floating_ips", type="ipv4", server=server)
    backend.failure = BackendError("no route")
    done = await emulator.ok("POST", f"{ip.path}/actions/unassign")
    assert done["action"]["error"]["message"] == "no route"
    assert (await emulator.get(ip.path))["server"] == server
    backend.failure = None
    await emulator.act(ip.path, "unassign")
    assert backend.of("unassign_floating_ip") == [ip["ip"]]
