"""Effects of servers' actions on the backend, and reactions to the start and to other resources."""

import logging

import msgspec

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect, removal, undo
from hetzner_emulator.actions.events import announce, reaction
from hetzner_emulator.backend import BackendError
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, NotFound
from hetzner_emulator.models.images import Snapshot, backups_of, image_by_id
from hetzner_emulator.models.networks import Network, network_spec
from hetzner_emulator.models.servers import Server, interface, server_spec
from hetzner_emulator.resources.images.routes import remove

log = logging.getLogger(__name__)

BACKUP_SLOTS = 7
"""A new backup replaces the oldest backup: https://docs.hetzner.com/cloud/servers/backups-snapshots/overview"""
_UNFINISHED = frozenset({"initializing", "deleting"})


def _set_status(cloud: Cloud, server: Server, status: str) -> None:
    """Write a new status at once, so that clients see it while the action runs."""
    server.status = status
    cloud.store.put(server)
    cloud.store.commit()


def _check_image(cloud: Cloud, identity: int | None) -> None:
    """Refuse to create a disk from an image that was deleted since the request."""
    if identity is not None and image_by_id(cloud, identity) is None:
        raise NotFound("image", identity)


@effect("create_server", Server)
async def _create(cloud: Cloud, server: Server, action: Action) -> None:
    """Create the machine; another action starts it."""
    _check_image(cloud, server.image)
    async with cloud.exclusive("server", server.id):
        await cloud.backend.create_machine(server_spec(cloud, server))
    await announce("server_made", cloud, server)
    if not action.arguments["start"]:
        server.status = "off"
    cloud.store.put(server)


@undo("create_server", Server)
@undo("start_server", Server)
@undo("rebuild_server", Server)
async def _note_failure(cloud: Cloud, server: Server, _action: Action) -> None:
    """Record a server as off if its creation or rebuild failed, so that clients can start or delete it."""
    if server.status in {"initializing", "rebuilding"}:
        server.status = "off"
        cloud.store.put(server)


@removal("delete_server", Server)
async def _delete(cloud: Cloud, server: Server, _action: Action) -> None:
    """Remove the machine, then the records; routes to the server stay in networks, as at Hetzner."""
    _set_status(cloud, server, "deleting")
    async with cloud.exclusive("server", server.id):
        await cloud.backend.delete_machine(server.id)
    cloud.store.remove(server)
    await announce("server_deleted", cloud, server)


@effect("start_server", Server)
async def _power_on(cloud: Cloud, server: Server, _action: Action) -> None:
    """Start the machine and set the status."""
    _set_status(cloud, server, "starting")
    try:
        async with cloud.exclusive("server", server.id):
            await cloud.backend.power_on(server.id)
    except BackendError:
        _set_status(cloud, server, "off")
        raise
    server.rescue_enabled = False  # valid for one boot; here a machine starts from its own disk anyway
    _set_status(cloud, server, "running")


@effect("stop_server", Server)
async def _power_off(cloud: Cloud, server: Server, _action: Action) -> None:
    """Stop the machine at once and set the status."""
    before = server.status
    _set_status(cloud, server, "stopping")
    try:
        async with cloud.exclusive("server", server.id):
            await cloud.backend.power_off(server.id)
    except BackendError:
        _set_status(cloud, server, before)
        raise
    _set_status(cloud, server, "off")


@effect("shutdown_server", Server)
async def _shutdown(cloud: Cloud, server: Server, _action: Action) -> None:
    """Signal the guest, which powers off later; a guest event reports it."""
    async with cloud.exclusive("server", server.id):
        await cloud.backend.shutdown(server.id)


@effect("reboot_server", Server)
async def _reboot(cloud: Cloud, server: Server, _action: Action) -> None:
    """Signal the guest, as Hetzner does by ACPI; the action doesn't wait for its programs to stop."""
    async with cloud.exclusive("server", server.id):
        await cloud.backend.reboot(server.id)
    server.rescue_enabled = False
    cloud.store.put(server)


@effect("reset_server", Server)
async def _reset(cloud: Cloud, server: Server, _action: Action) -> None:
    async with cloud.exclusive("server", server.id):
        await cloud.backend.reset(server.id)
    server.rescue_enabled = False
    _set_status(cloud, server, "running")


@effect("change_server_type", Server)
async def _change_type(cloud: Cloud, server: Server, action: Action) -> None:
    """Resize the machine and start it, as Hetzner's document says, if it has an interface."""
    server.server_type, server.disk = action.arguments["server_type"], action.arguments["disk"]
    cloud.store.put(server)
    async with cloud.exclusive("server", server.id):
        await cloud.backend.create_machine(server_spec(cloud, server))
    if server.has_interface:
        await _power_on(cloud, server, action)


@effect("rebuild_server", Server)
async def _rebuild(cloud: Cloud, server: Server, action: Action) -> None:
    """Replace the machine by a new one with the same addresses."""
    _check_image(cloud, action.arguments["image"])
    await _power_off(cloud, server, action)
    _set_status(cloud, server, "rebuilding")
    server.image, server.user_data = action.arguments["image"], action.arguments["user_data"]
    async with cloud.exclusive("server", server.id):
        await cloud.backend.delete_machine(server.id)
        await cloud.backend.create_machine(server_spec(cloud, server))
        for attachment in server.attachments:
            network = cloud.store.get(Network, server.project, attachment.network)
            await cloud.backend.attach(server.id, interface(attachment), network_spec(network))
    _set_status(cloud, server, "off")
    if action.arguments["on"]:
        await _power_on(cloud, server, action)


@effect("attach_to_network", Server)
async def _attach(cloud: Cloud, server: Server, action: Action) -> None:
    attachment = server.attachment(action.arguments["network"])
    if attachment is None:
        raise ApiError("not_found", "the network was deleted meanwhile")
    network = cloud.store.get(Network, action.project, attachment.network)
    async with cloud.exclusive("server", server.id):
        await cloud.backend.attach(server.id, interface(attachment), network_spec(network))
    attachment.status = "ok"
    cloud.store.put(server)
    await announce("server_changed", cloud, server)


@undo("attach_to_network", Server)
async def _release_address(cloud: Cloud, server: Server, action: Action) -> None:
    network = action.arguments["network"]
    server.attachments = [a for a in server.attachments if a.network != network or a.status != "attaching"]
    cloud.store.put(server)


@effect("detach_from_network", Server)
async def _detach(cloud: Cloud, server: Server, action: Action) -> None:
    network = action.arguments["network"]
    async with cloud.exclusive("server", server.id):
        await cloud.backend.detach(server.id, network)
    server.attachments = [a for a in server.attachments if a.network != network]
    cloud.store.put(server)
    await announce("server_changed", cloud, server)


@effect("change_alias_ips", Server)
async def _change_alias_ips(cloud: Cloud, server: Server, action: Action) -> None:
    network = cloud.store.get(Network, action.project, action.arguments["network"])
    attachment = server.attached(network.id)
    wanted = msgspec.structs.replace(attachment, alias_ips=list(action.arguments["alias_ips"]))
    async with cloud.exclusive("server", server.id):
        await cloud.backend.attach(server.id, interface(wanted), network_spec(network))
    attachment.alias_ips, attachment.status, attachment.coming = wanted.alias_ips, "ok", []
    cloud.store.put(server)


@undo("detach_from_network", Server)
@undo("change_alias_ips", Server)
async def _restore_attachment(cloud: Cloud, server: Server, action: Action) -> None:
    attachment = server.attachment(action.arguments["network"])
    if attachment is not None:
        attachment.status, attachment.coming = "ok", []
        cloud.store.put(server)


@effect("create_image", Server)
async def _create_image(cloud: Cloud, server: Server, action: Action) -> None:
    """Copy the disk; if all slots have a backup, the new one replaces the oldest."""
    image = cloud.store.get(Snapshot, action.project, action.resources[1].id)
    async with cloud.exclusive("server", server.id):
        image.size = await cloud.backend.create_image(image.id, server.id)
    image.status = "available"
    cloud.store.put(image)
    for old in backups_of(cloud, server.id)[:-BACKUP_SLOTS]:
        await remove(cloud, old)


@undo("create_image", Server)
async def _discard_image(cloud: Cloud, _server: Server, action: Action) -> None:
    image = cloud.store.find(Snapshot, action.resources[1].id)
    if image is not None and image.status == "creating":
        cloud.store.remove(image)


@effect("disable_backup", Server)
async def _delete_backups(cloud: Cloud, server: Server, _action: Action) -> None:
    for image in backups_of(cloud, server.id):
        await remove(cloud, image)


@reaction("server_deleted")
async def _delete_backups_of_deleted(cloud: Cloud, server: Server) -> None:
    """Delete the backups; one that the backend can't delete stays, without a server."""
    for image in backups_of(cloud, server.id):
        try:
            await remove(cloud, image)
        except BackendError as error:
            log.warning("can't delete backup %d of server %s: %s", image.id, server.name, error)
            image.bound_to = None
            cloud.store.put(image)


@reaction("start")
async def _start_backend(cloud: Cloud, _subject: None) -> None:
    """Give the backend all networks, and the servers that no unfinished action creates or deletes."""

    def event(server_id: int, state: str) -> None:
        _guest_event(cloud, server_id, state)

    unfinished = {
        action.resources[0].id
        for action in cloud.store.all(Action)
        if action.status == "running" and action.effect in {"create_server", "delete_server"}
    }
    networks = [network_spec(network) for network in cloud.store.all(Network)]
    servers = [server for server in cloud.store.all(Server) if server.id not in unfinished]
    cloud.guest_event = event
    machines = {server_spec(cloud, server): server.status == "running" for server in servers}
    await cloud.backend.start(networks, machines, event)


def _guest_event(cloud: Cloud, server_id: int, state: str) -> None:
    """Record that a guest powered off, started, or couldn't start; a failed start becomes an action."""
    server = cloud.store.find(Server, server_id)
    if server is None or server.status in _UNFINISHED:
        return
    log.info("server %d %s: the state changed to %s without an API request", server_id, server.name, state)
    if state == "failed":
        reason = "the server could not be started. The sandbox's log contains the reason"
        cloud.actions.note_failure("start_server", server.project, [server.reference], reason)
        state = "off"
    if (state == "off" and server.status == "running") or (state == "running" and server.status == "off"):
        _set_status(cloud, server, state)


@reaction("network_deleted")
async def _leave_network(cloud: Cloud, network: Network) -> None:
    for server in list(cloud.store.lookup("network_members", network.id)):
        if not isinstance(server, Server):
            continue
        async with cloud.exclusive("server", server.id):
            await cloud.backend.detach(server.id, network.id)
            if cloud.store.find(Server, server.id) is None:
                continue  # deleted in the meantime; storing it would create it again
            server.attachments = [a for a in server.attachments if a.network != network.id]
            cloud.store.put(server)
