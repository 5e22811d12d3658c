"""Tells the backend what the public interfaces of servers let through, whenever that changes."""

from __future__ import annotations

import logging
from typing import Any

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import general_effect
from hetzner_emulator.actions.events import reaction
from hetzner_emulator.backend import BackendError, FirewallRule
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.firewalls import Firewall
from hetzner_emulator.models.servers import Server, selected

log = logging.getLogger(__name__)

EFFECT = "filter_traffic"
KEY = (Firewall.KIND, 0)  # all firewalls are applied as one


def wanted_rules(cloud: Cloud) -> dict[int, tuple[FirewallRule, ...]]:
    """The rules of each server to which a firewall applies; those of several firewalls unite."""
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


async def apply(cloud: Cloud) -> None:
    """Make the world below equal the records; nothing is asked when it does already.

    Raises:
        BackendError: It can't.
    """
    async with cloud.exclusive(*KEY):
        wanted = wanted_rules(cloud)
        if cloud.applied.get(KEY, {}) != wanted:
            await cloud.backend.put_firewalls(wanted)
            cloud.applied[KEY] = wanted


@general_effect(EFFECT)
async def apply_effect(cloud: Cloud, _action: Action) -> None:
    """A firewall got other rules, or applies to other servers."""
    await apply(cloud)


@reaction("server_made")
async def protect(cloud: Cloud, _server: Server) -> None:
    """A new server is filtered before it starts: it is not made where that fails."""
    await apply(cloud)


@reaction("started")
async def start(cloud: Cloud, _subject: None) -> None:
    """Whatever a former process left is replaced."""
    cloud.applied[KEY] = None
    await follow(cloud, None)


@reaction("server_changed")
@reaction("server_deleted")
async def follow(cloud: Cloud, _subject: object) -> None:
    """A server's labels changed, or it is gone."""
    try:
        await apply(cloud)
    except BackendError as error:
        log.error("the firewalls could not follow: %s", error)  # noqa: TRY400  a message, no stack trace
