"""Servers and the world below: from the start, when both are brought together, to a server's deletion."""

from __future__ import annotations

import logging

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import removal
from hetzner_emulator.actions.events import announce, reaction
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.networks import Network, network_spec
from hetzner_emulator.models.servers import Server, server_spec
from hetzner_emulator.resources.servers.power import set_status

log = logging.getLogger(__name__)
_UNFINISHED = frozenset({"initializing", "deleting"})


def settled(cloud: Cloud) -> list[Server]:
    """The servers whose machines should be there: no unfinished action makes or removes them."""
    unfinished = {
        action.resources[0].id
        for action in cloud.store.all(Action)
        if action.status == "running" and action.effect in {"create_server", "delete_server"}
    }
    return [server for server in cloud.store.all(Server) if server.id not in unfinished]


@reaction("start")
async def start(cloud: Cloud, _subject: None) -> None:
    """Show the whole picture to the backend."""

    def event(server_id: int, state: str) -> None:
        guest_event(cloud, server_id, state)

    networks = [network_spec(network) for network in cloud.store.all(Network)]
    machines = {server_spec(cloud, server): server.status == "running" for server in settled(cloud)}
    cloud.guest_event = event
    await cloud.backend.start(networks, machines, event)


def guest_event(cloud: Cloud, server_id: int, state: str) -> None:
    """A guest went off, came up by itself, or could not be started: that is on record as an action."""
    server = cloud.store.find(Server, server_id)
    if server is None or server.status in _UNFINISHED:
        return
    log.info("server %d %s: %s by itself", server_id, server.name, state)
    if state == "failed":
        reason = "the server could not be started; the sandbox's log says why"
        cloud.actions.note_failure("start_server", server.project, [server.reference], reason)
        state = "off"
    if (state == "off" and server.status == "running") or (state == "running" and server.status == "off"):
        set_status(cloud, server, state)


@reaction("network_deleted")
async def leave_network(cloud: Cloud, network: Network) -> None:
    """Servers leave a network that is deleted."""
    for server in list(cloud.store.lookup("network_members", network.id)):
        if not isinstance(server, Server):
            continue
        async with cloud.exclusive("server", server.id):
            await cloud.backend.detach(server.id, network.id)
            if cloud.store.find(Server, server.id) is None:
                continue  # deleted while we waited; putting it back would make it immortal
            server.attachments = [a for a in server.attachments if a.network != network.id]
            cloud.store.put(server)


@removal("delete_server", Server)
async def delete(cloud: Cloud, server: Server, _action: Action) -> None:
    """Remove the machine, then the record and what hangs on it; routes in networks stay, as at Hetzner."""
    set_status(cloud, server, "deleting")
    async with cloud.exclusive("server", server.id):
        await cloud.backend.delete_machine(server.id)
    cloud.store.remove(server)
    await announce("server_deleted", cloud, server)
