"""Images of servers' disks, by the official client and by hand."""

from __future__ import annotations

import hcloud
import pytest
from cloud_emulator import OTHER_TOKEN, Emulator, Start
from hcloud.images import Image
from hcloud.server_types import ServerType

from hetzner_emulator.backend import BackendError, MachineSpec, RecordsBackend

CX23, CX33 = ServerType(name="cx23"), ServerType(name="cx33")


async def test_the_life_of_an_image(emulator: Emulator):
    def work(client: hcloud.Client) -> None:
        server = client.servers.create("web", CX23, Image(name="debian-12")).server
        made = server.create_image("mine", labels={"a": "b"})
        made.action.wait_until_finished()
        image = made.image
        image.reload()
        assert (image.type, image.status, image.description) == ("snapshot", "available", "mine")
        assert image.image_size > 0
        assert (image.os_flavor, image.architecture, image.created_from.id) == ("debian", "x86", server.id)
        assert [i.id for i in client.images.get_all(type=["snapshot"])] == [image.id]
        assert [i.id for i in client.images.get_all(label_selector="a=b")] == [image.id]
        assert client.images.get_by_name_and_architecture("debian-12", "x86").type == "system"
        assert len(client.images.get_all(sort=["created:desc"])) > 5
        copy = client.servers.create("copy", CX33, image).server
        assert client.servers.get_by_id(copy.id).image.id == image.id
        copy.rebuild(image).action.wait_until_finished()
        image.change_protection(delete=True).wait_until_finished()
        with pytest.raises(hcloud.APIException, match="protected"):
            image.delete()
        image.change_protection(delete=False).wait_until_finished()
        image.update(description="ours", labels={})
        assert client.images.get_by_id(image.id).description == "ours"
        assert next(a.command for a in image.get_actions()) == "create_image"
        image.delete()
        assert client.servers.get_by_id(copy.id).image is None
        with pytest.raises(hcloud.APIException, match="not found"):
            client.servers.create("late", CX23, image)

    await emulator.official(work)


async def test_backups_go_with_their_server_unless_they_become_snapshots(emulator: Emulator):
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


async def test_images_of_the_system_and_of_others_are_not_changed(emulator: Emulator):
    system = (await emulator.ok("GET", "/images"))["images"][0]["id"]
    for method, path, body in (
        ("PUT", "", {"description": "x"}),
        ("DELETE", "", None),
        ("POST", "/actions/change_protection", {"delete": True}),
    ):
        error = await emulator.refused(method, f"/images/{system}{path}", body)
        assert error["code"] == "unsupported_error"
    server = (await emulator.make_server())["id"]
    image = (await emulator.ok("POST", f"/servers/{server}/actions/create_image", {}))["image"]["id"]
    assert (await emulator.refused("GET", f"/images/{image}", token=OTHER_TOKEN))["code"] == "not_found"
    wish = {"name": "x", "server_type": "cx23", "image": image}
    error = await emulator.refused("POST", "/servers", wish, token=OTHER_TOKEN)
    assert (error["code"], error["message"]) == ("invalid_input", "image not found")
    for change, text in (({"server_type": "cax11"}, "architecture"), ({"server_type": "cx33"}, "")):
        made = await emulator.call("POST", "/servers", {**wish, **change})
        assert made.status == (422 if text else 201)
        assert text in await made.text()
    large = await emulator.make_server("large", server_type="cx33")
    image = (await emulator.ok("POST", f"/servers/{large['id']}/actions/create_image", {}))["image"]["id"]
    error = await emulator.refused("POST", "/servers", {**wish, "image": image, "name": "y"})
    assert "needs a disk of" in error["reasons"][0]


async def test_no_text_means_what_has_no_name_and_no_server(emulator: Emulator):
    server = (await emulator.make_server())["id"]
    await emulator.ok("POST", f"/servers/{server}/actions/create_image", {})
    for query in ("name=None", "bound_to=None"):
        assert (await emulator.ok("GET", f"/images?{query}"))["images"] == []


class Copies(RecordsBackend):
    """Knows what was copied, or has no room."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: set[int] = set()
        self.begun: list[int | None] = []
        self.failure: BackendError | None = None

    async def create_image(self, image_id: int, _server_id: int) -> float | None:
        if self.failure:
            raise self.failure
        self.kept.add(image_id)
        return 1.5

    async def delete_image(self, image_id: int) -> None:
        if self.failure:
            raise self.failure
        self.kept.discard(image_id)

    async def create_machine(self, machine: MachineSpec) -> None:
        self.begun.append(machine.snapshot)


async def test_machines_begin_as_the_image_says_and_a_failure_leaves_none(start: Start):
    backend = Copies()
    emulator = await start(backend)
    server = (await emulator.make_server())["id"]
    path = f"/servers/{server}/actions/create_image"
    image = (await emulator.ok("POST", path, {}))["image"]["id"]
    assert (await emulator.ok("GET", f"/images/{image}"))["image"]["image_size"] == 1.5
    await emulator.make_server("copy", image=str(image))
    await emulator.ok("POST", f"/servers/{server}/actions/rebuild", {"image": image})
    assert backend.begun == [None, image, image]
    backend.failure = BackendError("no space left")
    failed = await emulator.ok("POST", path, {})
    assert failed["action"]["error"]["message"] == "no space left"
    assert backend.kept == {image}
    assert (await emulator.refused("GET", f"/images/{failed['image']['id']}"))["code"] == "not_found"
    backend.failure = None
    await emulator.ok("DELETE", f"/images/{image}")
    assert backend.kept == set()


async def test_a_backup_that_can_not_go_with_its_server_is_bound_to_none(start: Start):
    backend = Copies()
    emulator = await start(backend)
    path = f"/servers/{(await emulator.make_server())['id']}"
    await emulator.ok("POST", f"{path}/actions/enable_backup")
    image = (await emulator.ok("POST", f"{path}/actions/create_image", {"type": "backup"}))["image"]["id"]
    backend.failure = BackendError("device busy")
    await emulator.ok("DELETE", path)
    shown = (await emulator.ok("GET", f"/images/{image}"))["image"]
    assert (shown["type"], shown["bound_to"]) == ("backup", None)
    backend.failure = None
    await emulator.ok("DELETE", f"/images/{image}")
    assert backend.kept == set()
