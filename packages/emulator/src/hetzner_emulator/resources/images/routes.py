"""Operations on images; an action of servers creates them."""

from collections.abc import Callable
from typing import Any

from hetzner_emulator.api.call import Call
from hetzner_emulator.api.offer import SYSTEM_IMAGES, Image
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, listing
from hetzner_emulator.backend import BackendError
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, NotFound, Protected
from hetzner_emulator.models.images import Snapshot, image_by_id, image_wire, snapshot_wire
from hetzner_emulator.wire.pagination import filter_entries, select_labels, sort_entries
from hetzner_emulator.wire.reply import Reply

SNAPSHOTS = Resource("images", Snapshot, snapshot_wire, deletes=False)
SNAPSHOTS.register()


@operation("GET", "/images")
async def _list(call: Call) -> Reply:
    """List system images, and the images of the project."""
    entries: list[Any] = [*SYSTEM_IMAGES, *call.cloud.store.of(Snapshot, call.project)]
    wires = {image.id: image_wire(call.cloud, image) for image in entries}
    filters: dict[str, Callable[[Any], str | None]] = {
        name: lambda image, name=name: wires[image.id][name] and str(wires[image.id][name])
        for name in ("type", "status", "architecture", "name", "bound_to")
    }
    entries = filter_entries(entries, call.query, filters)
    entries = select_labels(entries, call.query, lambda image: wires[image.id]["labels"])
    if call.query.get("include_deprecated") != "true":
        entries = [image for image in entries if wires[image.id]["deprecation"] is None]
    entries = sort_entries(entries, call.query.getall("sort", []), ("id", "name", "created"))
    return listing(call, "images", entries, lambda image: wires[image.id])


@operation("GET", "/images/{id}")
async def _get(call: Call) -> Reply:
    return Reply(200, {"image": image_wire(call.cloud, _known(call))})


@operation("GET", "/images/{id}/actions")
async def _list_actions(call: Call) -> Reply:
    """List the actions of an image; system images have none."""
    if isinstance(_known(call), Image):
        return listing(call, "actions", [], lambda entry: entry)
    return await SNAPSHOTS.own_actions(call)


def _known(call: Call) -> Image | Snapshot:
    identity = call.identity("id", "image")
    image = image_by_id(call.cloud, identity)
    if image is None or (isinstance(image, Snapshot) and image.project != call.project):
        raise NotFound("image", identity)
    return image


def _own(call: Call) -> Snapshot:
    """An image of the project that no action changes."""
    image = _known(call)
    if isinstance(image, Image):
        raise ApiError("unsupported_error", "only images of type snapshot and backup can be changed")
    call.cloud.actions.check_free("image", image.id)
    return image


@operation("PUT", "/images/{id}")
async def _update(call: Call) -> Reply:
    """Change description and labels, or turn a backup into a snapshot."""
    image, fields = _own(call), call.fields()
    description = fields.text("description", image.description)
    kind = fields.choice("type", {"snapshot"}, image.type)
    labels = fields.labels() if "labels" in fields else image.labels
    fields.check()
    image.description, image.type, image.labels = description, kind, labels
    if kind == "snapshot":
        image.bound_to = None
    call.cloud.store.put(image)
    return Reply(200, {"image": snapshot_wire(call.cloud, image)})


@operation("DELETE", "/images/{id}")
async def _delete(call: Call) -> Reply:
    """Delete an image; servers that were created from it stay."""
    image = _own(call)
    if image.protected:
        raise Protected("image")
    try:
        await remove(call.cloud, image)
    except BackendError as error:
        raise ApiError("service_error", str(error)) from error
    return Reply(204, None)


async def remove(cloud: Cloud, image: Snapshot) -> None:
    """Delete an image and its data; if the backend fails, the image stays."""
    cloud.store.remove(image)
    try:
        await cloud.backend.delete_image(image.id)
    except BackendError:
        cloud.store.put(image)
        raise


@operation("POST", "/images/{id}/actions/change_protection")
async def _change_protection(call: Call) -> Reply:
    image, fields = _own(call), call.fields()
    wanted = fields.flag("delete", image.protected)
    if wanted and image.type != "snapshot":
        fields.wrong("delete", "only snapshots can be protected")
    fields.check()
    image.protected = wanted
    return await call.changed("change_protection", image)
