"""Actions that change a server's power."""

from __future__ import annotations

from sandbox.cloud.actions import Action
from sandbox.cloud.backend import BackendError
from sandbox.cloud.call import Call
from sandbox.cloud.cloud import Cloud
from sandbox.cloud.collection import action_reply
from sandbox.cloud.effects import effect
from sandbox.cloud.errors import ApiError
from sandbox.cloud.records import Reference
from sandbox.cloud.registry import Handler, add_operation
from sandbox.cloud.reply import Reply
from sandbox.cloud.resources.servers.state import Server

# path of the action, its command in the API
POWER = (
    ("poweron", "start_server"),
    ("poweroff", "stop_server"),
    ("shutdown", "shutdown_server"),
    ("reboot", "reboot_server"),
    ("reset", "reset_server"),
)


def free_server(call: Call) -> Server:
    """The server in the path, if nothing happens to it.

    Raises:
        NotFound: there is none.
        Locked: an action runs on it.
    """
    server = call.get(Server)
    call.cloud.actions.check_free("server", server.id)
    return server


def check_interface(server: Server) -> None:
    """Refuse to start a server that nobody could reach.

    Raises:
        ApiError: ``invalid_input``; it has neither a public nor a private address.
    """
    if server.ipv4 is None and server.ipv6 is None and not server.attachments:
        text = "no public or private network interfaces found, cannot start server"
        raise ApiError("invalid_input", text)


def _power(command: str) -> Handler:
    async def handler(call: Call) -> Reply:
        server = free_server(call)
        if command == "start_server":
            check_interface(server)
        resources = [Reference("server", server.id)]
        action = call.cloud.actions.start(command, call.project, resources, effect=command)
        return await action_reply(call, action)

    return handler


for _path, _command in POWER:
    add_operation("POST", f"/servers/{{id}}/actions/{_path}", _power(_command))


def set_status(cloud: Cloud, server: Server, status: str) -> None:
    """Keep a new status at once, so that clients see it while the action goes on."""
    server.status = status
    cloud.store.put(server)
    cloud.store.commit()


def _server(cloud: Cloud, action: Action) -> Server:
    return cloud.store.get(Server, action.project, action.resources[0].id)


@effect("start_server")
async def start(cloud: Cloud, action: Action) -> None:
    """Power on."""
    server = _server(cloud, action)
    await power_on(cloud, server)


async def power_on(cloud: Cloud, server: Server) -> None:
    """Start the machine and follow with the status."""
    set_status(cloud, server, "starting")
    try:
        async with cloud.exclusive("server", server.id):
            await cloud.backend.power_on(server.id)
    except BackendError:
        set_status(cloud, server, "off")
        raise
    set_status(cloud, server, "running")


@effect("stop_server")
async def stop(cloud: Cloud, action: Action) -> None:
    """Pull the plug."""
    server = _server(cloud, action)
    await power_off(cloud, server)


async def power_off(cloud: Cloud, server: Server) -> None:
    """Stop the machine and follow with the status."""
    before = server.status
    set_status(cloud, server, "stopping")
    try:
        async with cloud.exclusive("server", server.id):
            await cloud.backend.power_off(server.id)
    except BackendError:
        set_status(cloud, server, before)
        raise
    set_status(cloud, server, "off")


@effect("shutdown_server")
async def shutdown(cloud: Cloud, action: Action) -> None:
    """Ask the guest; it goes off in its own time, which an event tells."""
    server = _server(cloud, action)
    async with cloud.exclusive("server", server.id):
        await cloud.backend.shutdown(server.id)


@effect("reboot_server")
async def reboot(cloud: Cloud, action: Action) -> None:
    """Ask the guest, as Hetzner does by ACPI; how long it takes to stop its programs is its own affair."""
    server = _server(cloud, action)
    async with cloud.exclusive("server", server.id):
        await cloud.backend.reboot(server.id)


@effect("reset_server")
async def reset(cloud: Cloud, action: Action) -> None:
    """Pull the plug and start again."""
    server = _server(cloud, action)
    async with cloud.exclusive("server", server.id):
        await cloud.backend.reset(server.id)
    set_status(cloud, server, "running")
