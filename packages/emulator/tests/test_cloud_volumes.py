"""Volumes; their life cycle is a scenario of ``test_hcloud_go.py``."""

from cloud_emulator import SERVER, Emulator, Made, RecordingBackend, Start

from hetzner_emulator.backend import AttachedVolume, BackendError, VolumeSpec


async def volume_at(emulator: Emulator, name: str = "data", **more) -> Made:
    return await emulator.make("/volumes", name=name, size=10, **more or {"location": "fsn1"})


async def test_a_server_is_created_with_a_volume_that_outlives_it(emulator: Emulator):
    volume = await volume_at(emulator)
    made = await emulator.ok("POST", "/servers", {**SERVER, "location": "fsn1", "volumes": [volume["id"]]})
    assert [action["command"] for action in made["next_actions"]] == ["attach_volume", "start_server"]
    assert (await emulator.get(volume.path))["server"] == made["server"]["id"]
    await emulator.ok("DELETE", f"/servers/{made['server']['id']}")
    assert (await emulator.get(volume.path))["server"] is None


async def test_refused_changes_of_a_volume(emulator: Emulator):
    here = (await emulator.make_server("here"))["id"]
    there = (await emulator.make_server("there", location="nbg1"))["id"]
    volume = await volume_at(emulator)
    attach, attached = f"{volume.path}/actions/attach", "volume_already_attached"
    await emulator.deny("invalid_input", f"{volume.path}/actions/detach")
    await emulator.deny(["server"], attach, server=there)
    await emulator.act(volume.path, "attach", server=here)
    await emulator.deny(attached, attach, server=here)
    await emulator.deny(attached, "/servers", **SERVER, location="fsn1", volumes=[volume["id"]])
    await emulator.expect("resource_in_use", "DELETE", volume.path)
    for size in (10, 10_241):
        await emulator.deny("invalid_input", f"{volume.path}/actions/resize", size=size)
    for number in range(15):
        await volume_at(emulator, f"v{number}", server=here)
    await emulator.deny("resource_limit_exceeded", "/volumes", name="more", size=10, server=here)


async def test_a_backend_failure_changes_nothing(start: Start):
    backend = RecordingBackend()
    emulator = await start(backend)
    server, volume = (await emulator.make_server())["id"], await volume_at(emulator)
    backend.failure = BackendError("no space left")
    lost = (await emulator.ok("POST", "/volumes", {"name": "b", "size": 10, "location": "fsn1"}))["action"]
    assert lost["error"]["message"] == "no space left"
    for action, body in (("attach", {"server": server}), ("resize", {"size": 11})):
        done = await emulator.ok("POST", f"{volume.path}/actions/{action}", body)
        assert done["action"]["status"] == "error"
    assert (await emulator.refused("DELETE", volume.path))["message"] == "no space left"
    backend.failure = None
    (shown,) = await emulator.get("/volumes")
    assert (shown["id"], shown["size"], shown["server"]) == (volume["id"], 10, None)
    await emulator.act(volume.path, "attach", server=server, automount=True)
    await emulator.act(volume.path, "detach")
    await emulator.ok("DELETE", volume.path)
    spec = VolumeSpec(volume["id"], 10)
    assert [call for call in backend.calls if "volume" in call[0]] == [
        ("put_volume", spec),
        ("attach_volume", server, AttachedVolume(spec, automount=True)),
        ("detach_volume", server, volume["id"]),
        ("delete_volume", volume["id"]),
    ]
