"""Actions of load balancers; each is one change of the record that the backend must follow."""

from __future__ import annotations

from typing import Any

import msgspec

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect, undo
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.catalog import LOCATIONS
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.certificates import Certificate
from hetzner_emulator.models.load_balancer_types import LOAD_BALANCER_TYPES
from hetzner_emulator.models.load_balancers import (
    SETTINGS,
    LoadBalancer,
    Setting,
    certificates_of,
    primary_ip_of,
)
from hetzner_emulator.models.primary_ips import default_name, set_name
from hetzner_emulator.resources.load_balancers.create import check_services, check_target_count
from hetzner_emulator.resources.load_balancers.resource import LOAD_BALANCERS
from hetzner_emulator.resources.load_balancers.services import find_service, read_service
from hetzner_emulator.resources.load_balancers.sync import apply, catch_up, drop_gone
from hetzner_emulator.resources.load_balancers.targets import check_target, read_target
from hetzner_emulator.resources.networks.attaching import new_attachment, open_network
from hetzner_emulator.resources.primary_ips.resource import read_dns_ptr
from hetzner_emulator.state.records import Reference
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply


@effect("change_load_balancer", LoadBalancer)
async def change_effect(cloud: Cloud, balancer: LoadBalancer, action: Action) -> None:
    """Give the record the values in the arguments once the backend has followed."""
    values = {**msgspec.to_builtins(balancer), **action.arguments}
    wanted = msgspec.convert(values, LoadBalancer)
    await apply(cloud, wanted)
    drop_gone(cloud, wanted)  # the request named it, and it was deleted since
    for name in action.arguments:
        setattr(balancer, name, getattr(wanted, name))
    cloud.store.put(balancer)


@undo("change_load_balancer", LoadBalancer)
async def give_up_change(cloud: Cloud, balancer: LoadBalancer, _action: Action) -> None:
    """A place in a network that was only reserved is free again; what servers changed meanwhile counts."""
    balancer.attachments = [a for a in balancer.attachments if a.status != "attaching"]
    cloud.store.put(balancer)
    await catch_up(cloud, balancer)


async def _change(call: Call, command: str, balancer: LoadBalancer, **values: Any) -> Reply:
    # A certificate that a service is to have must not be deleted before the service has it.
    certificates = {
        Reference(Certificate.KIND, identity)
        for service in values.get("services", ())
        for identity in certificates_of(service)
    }
    action = call.cloud.actions.start(
        command,
        call.project,
        [balancer.reference],
        effect="change_load_balancer",
        arguments=msgspec.to_builtins(values),
        locks=[balancer.reference, *certificates],
    )
    return await call.answer(action)


@LOAD_BALANCERS.action("add_service")
async def add_service(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    """Listen on one more port."""
    service = read_service(fields)
    fields.check()
    services = [*balancer.services, service]
    check_services(call, balancer, services)
    return await _change(call, "add_service", balancer, services=services)


@LOAD_BALANCERS.action("update_service")
async def update_service(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    """Change the service on a port; what the request leaves out stays."""
    present = find_service(balancer.services, fields.number("listen_port"))
    service = read_service(fields, present)
    fields.check()
    services = [service if other is present else other for other in balancer.services]
    check_services(call, balancer, services, status=422)
    return await _change(call, "update_service", balancer, services=services)


@LOAD_BALANCERS.action("delete_service")
async def delete_service(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    """Stop listening on a port."""
    listen_port = fields.number("listen_port", required=True)
    fields.check()
    gone = find_service(balancer.services, listen_port)
    services = [service for service in balancer.services if service is not gone]
    return await _change(call, "delete_service", balancer, services=services)


@LOAD_BALANCERS.action("add_target")
async def add_target(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    """Send traffic to one more server, label or address."""
    target = read_target(fields)
    fields.check()
    check_target(call, target, balancer)
    check_target_count(balancer, len(balancer.targets) + 1)
    return await _change(call, "add_target", balancer, targets=[*balancer.targets, target])


@LOAD_BALANCERS.action("remove_target")
async def remove_target(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    """Send no more traffic to a target."""
    target = read_target(fields)
    fields.check()
    targets = [other for other in balancer.targets if not other.same(target)]
    if len(targets) == len(balancer.targets):
        raise ApiError("not_found", "load balancer target not found")
    return await _change(call, "remove_target", balancer, targets=targets)


@LOAD_BALANCERS.action("attach_to_network")
async def attach(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    """Attach to a network; it can be in one only."""
    identity = fields.number("network", required=True)
    ip, ip_range = fields.address("ip"), fields.network("ip_range")
    fields.check()
    if balancer.attachments:
        raise ApiError("load_balancer_already_attached", "load balancer is already attached to a network")
    network = open_network(call, identity)
    zone = LOCATIONS[balancer.location].network_zone
    attachment = new_attachment(call, network, zone, ip, ip_range)
    balancer.attachments = [attachment]
    call.cloud.store.put(balancer)
    return await _change(
        call, "attach_to_network", balancer, attachments=[msgspec.structs.replace(attachment, status="ok")]
    )


@LOAD_BALANCERS.action("detach_from_network")
async def detach(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    """Leave the network; targets with private addresses get no more traffic."""
    identity = fields.number("network", required=True)
    fields.check()
    if balancer.network != identity:
        raise ApiError(
            "load_balancer_not_attached_to_network", "load balancer is not attached to the network"
        )
    return await _change(call, "detach_from_network", balancer, attachments=[])


def _register(setting: Setting) -> None:
    name = f"change_{setting.name}"

    @LOAD_BALANCERS.action(name)
    async def change(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
        value = setting.changed(fields)
        fields.check()
        return await _change(call, name, balancer, **{setting.name: value})


for _one in SETTINGS:
    _register(_one)


@LOAD_BALANCERS.action("change_type")
async def change_type(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    """Become larger or smaller, as far as what is there fits."""
    name = fields.reference("load_balancer_type", required=True)
    fields.check()
    kind = LOAD_BALANCER_TYPES.find(name)
    certificates = {identity for service in balancer.services for identity in certificates_of(service)}
    fits = (
        len(balancer.services) <= kind.max_services
        and len(balancer.targets) <= kind.max_targets
        and len(certificates) <= kind.max_assigned_certificates
    )
    if not fits:
        text = "the load balancer type does not fit for the given load balancer"
        raise ApiError("invalid_load_balancer_type", text)
    return await _change(call, "change_load_balancer_type", balancer, type=kind.name)


@LOAD_BALANCERS.action("enable_public_interface")
async def enable_public_interface(call: Call, balancer: LoadBalancer, _fields: Fields) -> Reply:
    """Answer on the public addresses."""
    return await _change(call, "enable_public_interface", balancer, public_enabled=True)


@LOAD_BALANCERS.action("disable_public_interface")
async def disable_public_interface(call: Call, balancer: LoadBalancer, _fields: Fields) -> Reply:
    """Answer on the private address only."""
    if not balancer.attachments:
        raise ApiError("load_balancer_not_attached_to_network", "load balancer is not attached to a network")
    if any(not target.use_private_ip for target in balancer.targets if target.type != "ip"):
        text = "the load balancer has targets that use the public network instead of the private network"
        raise ApiError("targets_without_use_private_ip", text)
    return await _change(call, "disable_public_interface", balancer, public_enabled=False)


@LOAD_BALANCERS.action("change_dns_ptr")
async def change_dns_ptr(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    """Set or reset the reverse name of one of its addresses."""
    ip, name = read_dns_ptr(fields, {balancer.ipv4, balancer.ipv6})
    fields.check()
    primary = primary_ip_of(call.cloud, balancer, "ipv6" if ":" in ip else "ipv4")
    if primary is not None:
        set_name(primary, ip, name)
        call.cloud.store.put(primary)
        return await _change(call, "change_dns_ptr", balancer)
    names = {key: value for key, value in balancer.dns_ptr.items() if key != ip}
    if name is None and ":" not in ip:
        name = default_name(ip)
    return await _change(call, "change_dns_ptr", balancer, dns_ptr={**names, ip: name} if name else names)


@LOAD_BALANCERS.action("change_protection")
async def change_protection(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    """Protect against deletion, or not."""
    wanted = fields.flag("delete", balancer.protected)
    fields.check()
    return await _change(call, "change_protection", balancer, protected=wanted)
