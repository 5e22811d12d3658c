"""Volumes, by the official client and by hand."""

from __future__ import annotations

from cloud_emulator import Emulator, RecordingBackend, Start
from hcloud.locations import Location

from hetzner_emulator.backend import AttachedVolume, BackendError, VolumeSpec

PLACE = Location(name="fsn1")


async def test_a_server_is_created_with_a_volume_that_outlives_it(emulator: Emulator):
    volume = await volume_at(emulator, "data", location="fsn1")
    body = {
        "name": "web",
        "server_type": "cx23",
        "image": "debian-12",
        "location": "fsn1",
        "volumes": [volume],
    }
    made = await emulator.ok("POST", "/servers", body)
    assert [action["command"] for action in made["next_actions"]] == ["attach_volume", "start_server"]
    assert (await emulator.get(f"/volumes/{volume}"))["server"] == made["server"]["id"]
    await emulator.ok("DELETE", f"/servers/{made['server']['id']}")
    assert (await emulator.get(f"/volumes/{volume}"))["server"] is None


async def volume_at(emulator: Emulator, name: str, **more) -> int:
    body = {"name": name, "size": 10, **more}
    return (await emulator.ok("POST", "/volumes", body))["volume"]["id"]


async def test_refused_changes_of_a_volume(emulator: Emulator):
    here = await emulator.make_server("here")
    there = await emulator.make_server("there", location="nbg1")
    volume = await volume_at(emulator, "data", location="fsn1")
    path = f"/volumes/{volume}/actions"
    await emulator.expect("invalid_input", "POST", f"{path}/detach")
    await emulator.expect(["server"], "POST", f"{path}/attach", {"server": there["id"]})
    await emulator.ok("POST", f"{path}/attach", {"server": here["id"]})
    await emulator.expect("volume_already_attached", "POST", f"{path}/attach", {"server": here["id"]})
    change = {"name": "n", "server_type": "cx23", "image": "debian-12", "location": "fsn1"}
    await emulator.expect("volume_already_attached", "POST", "/servers", {**change, "volumes": [volume]})
    await emulator.expect("resource_in_use", "DELETE", f"/volumes/{volume}")
    for size in (10, 10_241):
        await emulator.expect("invalid_input", "POST", f"{path}/resize", {"size": size})
    for number in range(15):
        await volume_at(emulator, f"v{number}", server=here["id"])
    body = {"name": "more", "size": 10, "server": here["id"]}
    await emulator.expect("resource_limit_exceeded", "POST", "/volumes", body)


async def test_a_backend_failure_changes_nothing(start: Start):
    backend = RecordingBackend()
    emulator = await start(backend)
    server = (await emulator.make_server())["id"]
    volume = await volume_at(emulator, "data", location="fsn1")
    backend.failure = BackendError("no space left")
    lost = (await emulator.ok("POST", "/volumes", {"name": "b", "size": 10, "location": "fsn1"}))["action"]
    assert lost["error"]["message"] == "no space left"
    for action, body in (("attach", {"server": server}), ("resize", {"size": 11})):
        done = await emulator.ok("POST", f"/volumes/{volume}/actions/{action}", body)
        assert done["action"]["status"] == "error"
    assert (await emulator.refused("DELETE", f"/volumes/{volume}"))["message"] == "no space left"
    backend.failure = None
    shown = await emulator.get("/volumes")
    assert [(v["id"], v["size"], v["server"]) for v in shown] == [(volume, 10, None)]
    await emulator.ok("POST", f"/volumes/{volume}/actions/attach", {"server": server, "automount": True})
    await emulator.ok("POST", f"/volumes/{volume}/actions/detach")
    await emulator.ok("DELETE", f"/volumes/{volume}")
    spec = VolumeSpec(volume, 10)
    assert [call for call in backend.calls if "volume" in call[0]] == [
        ("put_volume", spec),
        ("attach_volume", server, AttachedVolume(spec, automount=True)),
        ("detach_volume", server, volume),
        ("delete_volume", volume),
    ]
