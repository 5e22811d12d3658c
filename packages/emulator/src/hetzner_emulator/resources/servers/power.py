"""Actions that change a server's power."""

from __future__ import annotations

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import Handler, add_operation
from hetzner_emulator.backend import BackendError
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.servers import Server
from hetzner_emulator.wire.reply import Reply

# path of the action, its command in the API
POWER = (
    ("poweron", "start_server"),
    ("poweroff", "stop_server"),
    ("shutdown", "shutdown_server"),
    ("reboot", "reboot_server"),
    ("reset", "reset_server"),
)


def has_interface(server: Server) -> bool:
    """Tell whether anybody could reach a server: only such a one is started."""
    return server.ipv4 is not None or server.ipv6 is not None or bool(server.attachments)


def check_interface(server: Server) -> None:
    """Refuse to start a server that nobody could reach.

    Raises:
        ApiError: ``invalid_input``; it has neither a public nor a private address.
    """
    if not has_interface(server):
        text = "no public or private network interfaces found, cannot start server"
        raise ApiError("invalid_input", text)


def booted(server: Server) -> None:
    """The rescue system is for one boot; here a machine starts from its own disk all the same."""
    server.rescue_enabled = False


def _power(command: str) -> Handler:
    async def handler(call: Call) -> Reply:
        server = call.get_free(Server)
        if command == "start_server":
            check_interface(server)
        return await call.act(command, server, effect=command)

    return handler


for _path, _command in POWER:
    add_operation("POST", f"/servers/{{id}}/actions/{_path}", _power(_command))


def set_status(cloud: Cloud, server: Server, status: str) -> None:
    """Keep a new status at once, so that clients see it while the action goes on."""
    server.status = status
    cloud.store.put(server)
    cloud.store.commit()


@effect("start_server", Server)
async def start(cloud: Cloud, server: Server, _action: Action) -> None:
    """Power on."""
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
    booted(server)
    set_status(cloud, server, "running")


@effect("stop_server", Server)
async def stop(cloud: Cloud, server: Server, _action: Action) -> None:
    """Pull the plug."""
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


@effect("shutdown_server", Server)
async def shutdown(cloud: Cloud, server: Server, _action: Action) -> None:
    """Ask the guest; it goes off in its own time, which an event tells."""
    async with cloud.exclusive("server", server.id):
        await cloud.backend.shutdown(server.id)


@effect("reboot_server", Server)
async def reboot(cloud: Cloud, server: Server, _action: Action) -> None:
    """Ask the guest, as Hetzner does by ACPI; how long it takes to stop its programs is its own affair."""
    async with cloud.exclusive("server", server.id):
        await cloud.backend.reboot(server.id)
    booted(server)
    cloud.store.put(server)


@effect("reset_server", Server)
async def reset(cloud: Cloud, server: Server, _action: Action) -> None:
    """Pull the plug and start again."""
    async with cloud.exclusive("server", server.id):
        await cloud.backend.reset(server.id)
    booted(server)
    set_status(cloud, server, "running")
