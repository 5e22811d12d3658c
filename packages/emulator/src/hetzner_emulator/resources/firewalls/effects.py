"""Sets the rules of servers' public interfaces in the backend whenever they change."""

import logging
from typing import Any

from hetzner_emulator.actions.effects import EFFECTS
from hetzner_emulator.actions.events import reaction
from hetzner_emulator.backend import BackendError, FirewallRule
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.firewalls import Firewall
from hetzner_emulator.models.servers import Server, selected
from hetzner_emulator.resources.firewalls.routes import EFFECT

log = logging.getLogger(__name__)

_KEY = (Firewall.KIND, 0)  # all firewalls together


def _wanted_rules(cloud: Cloud) -> dict[int, tuple[FirewallRule, ...]]:
    """The rules of each server with a firewall: the union of its firewalls' rules."""
    wanted: dict[int, tuple[FirewallRule, ...]] = {}
    for firewall in cloud.store.all(Firewall):
        rules = tuple(_rule(rule) for rule in firewall.rules)
        by_label = (s.id for text in firewall.selectors for s in selected(cloud, firewall.project, text))
        for server in dict.fromkeys([*firewall.servers, *by_label]):
            wanted[server] = tuple(dict.fromkeys([*wanted.get(server, ()), *rules]))
    return wanted


def _rule(rule: dict[str, Any]) -> FirewallRule:
    ports = None
    if rule["port"] not in {None, "any"}:
        first, _, last = rule["port"].partition("-")
        ports = int(first), int(last or first)
    ranges = rule["source_ips"] if rule["direction"] == "in" else rule["destination_ips"]
    return FirewallRule(rule["direction"], rule["protocol"], ports, tuple(ranges))


@reaction("server_made")
async def _apply(cloud: Cloud, _subject: object) -> None:
    """Set the backend's rules, unless it has them. A new server is filtered before it starts; if that fails,
    its creation fails.
    """
    async with cloud.exclusive(*_KEY):
        wanted = _wanted_rules(cloud)
        if cloud.applied.get(_KEY, {}) != wanted:
            await cloud.backend.put_firewalls(wanted)
            cloud.applied[_KEY] = wanted


EFFECTS[EFFECT] = _apply  # also if the firewall is deleted meanwhile


@reaction("started")
async def _start(cloud: Cloud, subject: None) -> None:
    """Replace the rules that a former process set."""
    cloud.applied[_KEY] = None
    await _follow(cloud, subject)


@reaction("server_deleted")
async def _forget_server(cloud: Cloud, server: Server) -> None:
    for firewall in cloud.store.all(Firewall):
        if server.id in firewall.servers:
            firewall.servers = [identity for identity in firewall.servers if identity != server.id]
            cloud.store.put(firewall)
    await _follow(cloud, server)


@reaction("server_changed")
async def _follow(cloud: Cloud, subject: object) -> None:
    try:
        await _apply(cloud, subject)
    except BackendError as error:
        log.error("cannot apply the firewalls: %s", error)  # noqa: TRY400  a message, no stack trace
