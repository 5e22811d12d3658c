"""Volumes, by the official client and by hand."""

from __future__ import annotations

import hcloud
import pytest
from cloud_emulator import Emulator, RecordingBackend, Start
from hcloud.images import Image
from hcloud.locations import Location
from hcloud.server_types import ServerType

from hetzner_emulator.backend import AttachedVolume, BackendError, VolumeSpec

PLACE = Location(name="fsn1")


async def test_the_life_of_a_volume(emulator: Emulator):
    def work(client: hcloud.Client) -> None:
        made = client.volumes.create(10, "data", {"a": "b"}, location=PLACE, format="ext4")
        made.action.wait_until_finished()
        volume = made.volume
        volume.reload()
        assert (volume.status, volume.size, volume.format, volume.server) == ("available", 10, "ext4", None)
        assert volume.linux_device == f"/dev/disk/by-id/scsi-0HC_Volume_{volume.id}"
        server = client.servers.create(
            "web", ServerType(name="cx23"), Image(name="debian-12"), location=PLACE, volumes=[volume]
        )
        assert [a.command for a in server.next_actions] == ["attach_volume", "start_server"]
        volume.reload()
        assert volume.server.id == server.server.id
        volume.detach().wait_until_finished()
        volume.attach(server.server, automount=True).wait_until_finished()
        volume.resize(20).wait_until_finished()
        volume.update(name="more", labels={})
        volume.change_protection(delete=True).wait_until_finished()
        volume.reload()
        assert (volume.size, volume.name, volume.protection["delete"]) == (20, "more", True)
        assert [v.id for v in client.servers.get_by_name("web").volumes] == [volume.id]
        server.server.delete().wait_until_finished()
        volume.reload()
        assert volume.server is None, "a volume outlives its server"
        with pytest.raises(hcloud.APIException, match="protected"):
            volume.delete()
        volume.change_protection(delete=False).wait_until_finished()
        assert [a.command for a in volume.get_actions()][:2] == ["create_volume", "attach_volume"]
        volume.delete()
        assert client.volumes.get_all() == []
        other = client.servers.create("x", ServerType(name="cx23"), Image(name="debian-12"), location=PLACE)
        at_once = client.volumes.create(10, "at-once", server=other.server, automount=True)
        assert [a.command for a in at_once.next_actions] == ["attach_volume"]
        assert client.volumes.get_by_name("at-once").server.id == other.server.id

    await emulator.official(work)


async def volume_at(emulator: Emulator, name: str, **more) -> int:
    body = {"name": name, "size": 10, **more}
    return (await emulator.ok("POST", "/volumes", body))["volume"]["id"]


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"size": 9}, "size"),
        ({"size": 10_241}, "size"),
        ({"format": "btrfs"}, "format"),
        ({"name": "-a"}, "name"),
        ({"name": "a" * 65}, "name"),
        ({"location": None}, "location"),
        ({"server": 4_000_001}, "location"),
        ({"automount": True}, "automount"),
    ],
)
async def test_volumes_that_are_none(emulator: Emulator, wish, field):
    error = await emulator.refused("POST", "/volumes", {"name": "a", "size": 10, "location": "fsn1", **wish})
    assert (error["code"], error["details"]["fields"][0]["name"]) == ("invalid_input", field)


async def test_what_a_volume_refuses(emulator: Emulator):
    here = await emulator.make_server("here")
    there = await emulator.make_server("there", location="nbg1")
    volume = await volume_at(emulator, "data", location="fsn1")
    path = f"/volumes/{volume}/actions"
    await emulator.expect("invalid_input", "POST", f"{path}/detach")
    await emulator.expect(["server"], "POST", f"{path}/attach", {"server": there["id"]})
    await emulator.ok("POST", f"{path}/attach", {"server": here["id"]})
    await emulator.expect("volume_already_attached", "POST", f"{path}/attach", {"server": here["id"]})
    wish = {"name": "n", "server_type": "cx23", "image": "debian-12", "location": "fsn1"}
    await emulator.expect("volume_already_attached", "POST", "/servers", {**wish, "volumes": [volume]})
    await emulator.expect("resource_in_use", "DELETE", f"/volumes/{volume}")
    for size in (10, 10_241):
        await emulator.expect("invalid_input", "POST", f"{path}/resize", {"size": size})
    for number in range(15):
        await volume_at(emulator, f"v{number}", server=here["id"])
    body = {"name": "more", "size": 10, "server": here["id"]}
    await emulator.expect("resource_limit_exceeded", "POST", "/volumes", body)


async def test_a_failure_below_leaves_things_as_they_were(start: Start):
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
    shown = (await emulator.ok("GET", "/volumes"))["volumes"]
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
