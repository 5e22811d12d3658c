"""Operations on firewalls."""

from collections.abc import Iterable

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.firewalls import (
    MAX_PER_SERVER,
    Firewall,
    firewall_wire,
    firewalls_of,
    too_many_firewalls,
)
from hetzner_emulator.models.servers import Server, selected
from hetzner_emulator.resources.firewalls.rules import read_rules
from hetzner_emulator.state.records import Reference
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.labels import parse_selector
from hetzner_emulator.wire.reply import Reply

EFFECT = "filter_traffic"


def _check_unused(_cloud: Cloud, firewall: Firewall) -> None:
    if firewall.servers or firewall.selectors:
        raise ApiError("resource_in_use", f"firewall with ID {firewall.id} is still in use")


FIREWALLS = Resource("firewalls", Firewall, firewall_wire, put_conflicts=True, check_delete=_check_unused)
FIREWALLS.register()


def _not_found(text: str, status: int = 404) -> ApiError:
    return ApiError("firewall_resource_not_found", text, status=status)


def _read_targets(call: Call, fields: Fields, name: str, *, required: bool) -> tuple[list[int], list[str]]:
    servers: list[int] = []
    selectors: list[str] = []
    for item in fields.objects(name, required=required):
        if item.choice("type", {"server", "label_selector"}, required=True) == "server":
            servers.append(item.object("server", required=True).number("id", required=True))
        else:
            selectors.append(item.object("label_selector", required=True).text("selector", required=True))
    fields.check_distinct(name, selectors)
    fields.check()
    for selector in selectors:
        parse_selector(selector, name)
    known = {server.id: server for server in call.cloud.store.of(Server, call.project)}
    for identity in servers:
        if identity not in known:
            # Only creating a firewall answers 422 for this.
            raise _not_found(f"server with ID '{identity}' not found", 404 if required else 422)
        if name == "apply_to" and known[identity].ipv4 is None and known[identity].ipv6 is None:
            raise ApiError("private_net_only_server", f"server {identity} has no public interface")
    if len(set(servers)) < len(servers):
        raise ApiError("server_already_added", "the request contains the same server more than once")
    return servers, selectors


def _start(call: Call, command: str, firewall: Firewall, servers: Iterable[int]) -> list[Action]:
    own = firewall.reference
    resources = [[own, Reference("server", identity)] for identity in servers] or [[own]]
    return [
        call.cloud.actions.start(command, call.project, each, effect=EFFECT, locks=[own])
        for each in resources
    ]


def _set_and_apply(call: Call, firewall: Firewall) -> list[Action]:
    """Start the actions of new rules: one on the firewall, then one for each server."""
    actions = _start(call, "set_firewall_rules", firewall, [])
    return actions + (_start(call, "apply_firewall", firewall, firewall.servers) if firewall.servers else [])


@operation("POST", "/firewalls")
async def _create(call: Call) -> Reply:
    fields = call.fields()
    name, labels, rules = FIREWALLS.read_name(fields), fields.labels(), read_rules(fields)
    servers, selectors = _read_targets(call, fields, "apply_to", required=False)
    FIREWALLS.check_new(call, name)
    _check_counts(call, servers, selectors)
    firewall = FIREWALLS.new(call, name, labels, rules=rules, servers=servers, selectors=selectors)
    call.cloud.store.put(firewall)
    actions = await call.wires(*_set_and_apply(call, firewall))
    return created("firewall", FIREWALLS.show(call, firewall), actions=actions)


@operation("POST", "/firewalls/{id}/actions/set_rules")
async def _set_rules(call: Call) -> Reply:
    firewall, fields = call.get(Firewall), call.fields()
    rules = read_rules(fields, required=True)
    fields.check()
    firewall.rules = rules
    call.cloud.store.put(firewall)
    return created("actions", await call.wires(*_set_and_apply(call, firewall)))


@operation("POST", "/firewalls/{id}/actions/apply_to_resources")
async def _apply(call: Call) -> Reply:
    firewall = call.get(Firewall)
    servers, selectors = _read_targets(call, call.fields(), "apply_to", required=True)
    if set(servers) & set(firewall.servers) or set(selectors) & set(firewall.selectors):
        raise ApiError("firewall_already_applied", "firewall is already applied to resource")
    _check_counts(call, servers, selectors)
    firewall.servers = [*firewall.servers, *servers]
    firewall.selectors = [*firewall.selectors, *selectors]
    call.cloud.store.put(firewall)
    return created("actions", await call.wires(*_start(call, "apply_firewall", firewall, servers)))


def _check_counts(call: Call, servers: Iterable[int], selectors: Iterable[str]) -> None:
    """Refuse one more firewall for servers with the maximum number."""
    concerned = [call.cloud.store.get(Server, call.project, identity) for identity in servers]
    concerned += [server for text in selectors for server in selected(call.cloud, call.project, text)]
    for server in concerned:
        if len(firewalls_of(call.cloud, server)) >= MAX_PER_SERVER:
            raise too_many_firewalls()


@operation("POST", "/firewalls/{id}/actions/remove_from_resources")
async def _remove(call: Call) -> Reply:
    firewall = call.get(Firewall)
    servers, selectors = _read_targets(call, call.fields(), "remove_from", required=True)
    unnamed = set(servers) - set(firewall.servers)
    by_label = {s.id for text in firewall.selectors for s in selected(call.cloud, call.project, text)}
    if unnamed & by_label:
        text = "firewall is applied via a label selector and cannot be removed manually"
        raise ApiError("firewall_managed_by_label_selector", text)
    if unnamed or set(selectors) - set(firewall.selectors):
        raise _not_found("firewall is not applied to resource")
    firewall.servers = [identity for identity in firewall.servers if identity not in servers]
    firewall.selectors = [text for text in firewall.selectors if text not in selectors]
    call.cloud.store.put(firewall)
    return created("actions", await call.wires(*_start(call, "remove_firewall", firewall, servers)))
