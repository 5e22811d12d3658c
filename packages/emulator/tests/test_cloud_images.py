"""Images of servers' disks; their life cycle is a scenario of ``test_hcloud_go.py``."""

import hcloud
import pytest
from cloud_emulator import OTHER_TOKEN, SERVER, Emulator, Made, RecordingBackend, Start
from hcloud.images import Image
from hcloud.server_types import ServerType

from hetzner_emulator.backend import BackendError

CX23 = ServerType(name="cx23")


async def test_backups_are_deleted_with_their_server_unless_they_become_snapshots(emulator: Emulator):
    def work(client: hcloud.Client) -> None:
        server = client.servers.create("web", CX23, Image(name="debian-12")).server
        with pytest.raises(hcloud.APIException, match="backups are not enabled"):
            server.create_image(type="backup")
        server.enable_backup().wait_until_finished()
        made = [server.create_image(type="backup").image for _ in range(8)]
        kept = client.images.get_all(bound_to=[str(server.id)])
        assert [image.id for image in kept] == [image.id for image in made[1:]], "the oldest went"
        with pytest.raises(hcloud.APIException, match="'delete'"):
            kept[0].change_protection(delete=True)
        kept[0].update(type="snapshot")
        server.disable_backup().wait_until_finished()
        assert [i.id for i in client.images.get_all(type=["backup", "snapshot"])] == [kept[0].id]
        server.enable_backup().wait_until_finished()
        server.create_image(type="backup").action.wait_until_finished()
        server.delete().wait_until_finished()
        assert [i.id for i in client.images.get_all(type=["backup", "snapshot"])] == [kept[0].id]

    await emulator.official(work)


async def test_system_images_and_foreign_images_cannot_be_changed(emulator: Emulator):
    system = f"/images/{(await emulator.get('/images'))[0]['id']}"
    await emulator.expect("unsupported_error", "PUT", system, {"description": "x"})
    await emulator.expect("unsupported_error", "DELETE", system)
    await emulator.deny("unsupported_error", f"{system}/actions/change_protection", delete=True)
    image = await snapshot(emulator, await emulator.make_server())
    await emulator.expect("not_found", "GET", f"/images/{image}", token=OTHER_TOKEN)
    new_server = {**SERVER, "image": image}
    error = await emulator.refused("POST", "/servers", new_server, token=OTHER_TOKEN)
    assert (error["code"], error["message"]) == ("invalid_input", "image not found")
    error = await emulator.refused("POST", "/servers", {**new_server, "server_type": "cax11"})
    assert "architecture" in error["reasons"][0]
    await emulator.ok("POST", "/servers", {**new_server, "server_type": "cx33"})
    image = await snapshot(emulator, await emulator.make_server("large", server_type="cx33"))
    error = await emulator.refused("POST", "/servers", {**new_server, "image": image, "name": "y"})
    assert "needs a disk of" in error["reasons"][0]


async def snapshot(emulator: Emulator, server: Made, **body: str) -> int:
    """The ID of a new image of a server."""
    return (await emulator.ok("POST", f"{server.path}/actions/create_image", body))["image"]["id"]


def copies(backend: RecordingBackend) -> set[int]:
    made = {call[1] for call in backend.calls if call[0] == "create_image"}
    return made - set(backend.of("delete_image"))


async def test_machines_use_the_snapshot_and_a_failed_image_is_discarded(start: Start):
    backend = RecordingBackend()
    emulator = await start(backend)
    server = await emulator.make_server()
    image = await snapshot(emulator, server)
    assert (await emulator.get(f"/images/{image}"))["image_size"] == 1.0
    await emulator.make_server("copy", image=str(image))
    await emulator.act(server.path, "rebuild", image=image)
    assert [machine.snapshot for machine in backend.of("create_machine")] == [None, image, image]
    backend.failure = BackendError("no space left")
    failed = await emulator.ok("POST", f"{server.path}/actions/create_image", {})
    assert failed["action"]["error"]["message"] == "no space left"
    assert copies(backend) == {image}
    await emulator.expect("not_found", "GET", f"/images/{failed['image']['id']}")
    backend.failure = None
    await emulator.ok("DELETE", f"/images/{image}")
    assert copies(backend) == set()


async def test_a_backup_that_cannot_be_deleted_loses_its_server(start: Start):
    backend = RecordingBackend()
    emulator = await start(backend)
    server = await emulator.make_server()
    await emulator.act(server.path, "enable_backup")
    image = f"/images/{await snapshot(emulator, server, type='backup')}"
    backend.failure, backend.failing = BackendError("device busy"), "image"
    await emulator.ok("DELETE", server.path)
    shown = await emulator.get(image)
    assert (shown["type"], shown["bound_to"]) == ("backup", None)
    backend.failure = None
    await emulator.ok("DELETE", image)
    assert copies(backend) == set()
