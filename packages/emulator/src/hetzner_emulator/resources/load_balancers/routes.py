"""Operations on load balancers; an action changes fields of the record once the backend has applied them."""

from typing import Any

import msgspec

from hetzner_emulator.api.call import Call
from hetzner_emulator.api.catalog import LOCATIONS, NETWORK_ZONES
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.catalogs import LOAD_BALANCER_TYPES, LOCATION_CATALOG
from hetzner_emulator.models.certificates import Certificate
from hetzner_emulator.models.load_balancers import (
    ALGORITHMS,
    LoadBalancer,
    certificates_of,
    load_balancer_wire,
    primary_ip_of,
)
from hetzner_emulator.models.primary_ips import PrimaryIp, default_name, present_ip, read_dns_ptr, set_name
from hetzner_emulator.resources.load_balancers.rules import (
    check_services,
    check_target,
    check_target_count,
    find_service,
    read_service,
    read_target,
)
from hetzner_emulator.resources.networks.rules import new_attachment, open_network
from hetzner_emulator.state.addresses import first_host
from hetzner_emulator.state.records import Reference
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply

LOAD_BALANCERS = Resource(
    "load_balancers",
    LoadBalancer,
    load_balancer_wire,
    name_problem=lambda name: "must not begin or end with a space" if name != name.strip() else "",
    protection="protected",
    delete_status=201,  # Hetzner's clients expect an action since the autumn of 2026
    series={
        "open_connections": ("open_connections",),
        "connections_per_second": ("connections_per_second",),
        "requests_per_second": ("requests_per_second",),
        "bandwidth": ("bandwidth.in", "bandwidth.out"),
    },
)
LOAD_BALANCERS.register()


@operation("POST", "/load_balancers")
async def _create(call: Call) -> Reply:
    fields, cloud = call.fields(), call.cloud
    balancer = _read(call, fields)
    services = [read_service(item) for item in fields.objects("services")]
    targets = [read_target(item) for item in fields.objects("targets")]
    wanted_network = fields.number("network")
    fields.check()
    check_services(call, balancer, services)
    balancer.services = services
    if wanted_network:
        network = open_network(call, wanted_network)
        zone = LOCATIONS[balancer.location].network_zone
        balancer.attachments = [new_attachment(call, network, zone)]
    check_target_count(balancer, len(targets))
    for target in targets:
        check_target(call, target, balancer)
        balancer.targets.append(target)
    cloud.store.put(balancer)
    for identity in balancer.primary_ips.values():
        ip = cloud.store.get(PrimaryIp, call.project, identity)
        ip.assignee, ip.assignee_type = balancer.id, balancer.KIND
        cloud.store.put(ip)
    (action,) = await call.wires(call.run("create_load_balancer", balancer))
    return created("load_balancer", LOAD_BALANCERS.show(call, balancer), action=action)


def _read(call: Call, fields: Fields) -> LoadBalancer:
    cloud = call.cloud
    name, labels = LOAD_BALANCERS.read_name(fields), fields.labels()
    kind = fields.reference("load_balancer_type", required=True)
    algorithm = fields.object("algorithm").choice("type", ALGORITHMS, "round_robin")
    zone = fields.choice("network_zone", NETWORK_ZONES)
    location = fields.reference("location")
    if bool(zone) == bool(location):
        fields.wrong("location", "exactly one of location and network_zone is required")
    public = fields.flag("public_interface", default=True)
    public_net = fields.object("public_net")
    wanted = {family: public_net.number(family) for family in ("ipv4", "ipv6")}
    fields.check()
    type_name = LOAD_BALANCER_TYPES.find(kind).name
    place = LOCATION_CATALOG.find(location).name if location else _first_in(zone)
    LOAD_BALANCERS.check_new(call, name)
    primary = {
        family: present_ip(cloud, call.project, identity, family, place)
        for family, identity in wanted.items()
        if identity
    }
    ipv4 = primary["ipv4"].ip if "ipv4" in primary else cloud.addresses.new_ipv4()
    ipv6 = first_host(primary["ipv6"].ip if "ipv6" in primary else cloud.addresses.new_ipv6())
    return LOAD_BALANCERS.new(
        call,
        name,
        labels,
        type=type_name,
        location=place,
        ipv4=ipv4,
        ipv6=ipv6,
        algorithm=algorithm,
        public_enabled=public,
        primary_ips={family: ip.id for family, ip in primary.items()},
        dns_ptr={} if "ipv4" in primary else {ipv4: default_name(ipv4)},
    )


def _first_in(zone: str) -> str:
    return next(location.name for location in LOCATIONS.values() if location.network_zone == zone)


async def _change(call: Call, command: str, balancer: LoadBalancer, **values: Any) -> Reply:
    # The locks prevent the deletion of a certificate before the service has it.
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
async def _add_service(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    service = read_service(fields)
    fields.check()
    services = [*balancer.services, service]
    check_services(call, balancer, services)
    return await _change(call, "add_service", balancer, services=services)


@LOAD_BALANCERS.action("update_service")
async def _update_service(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    present = find_service(balancer.services, fields.number("listen_port"))
    service = read_service(fields, present)
    fields.check()
    services = [service if other is present else other for other in balancer.services]
    check_services(call, balancer, services, status=422)
    return await _change(call, "update_service", balancer, services=services)


@LOAD_BALANCERS.action("delete_service")
async def _delete_service(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    listen_port = fields.number("listen_port", required=True)
    fields.check()
    gone = find_service(balancer.services, listen_port)
    services = [service for service in balancer.services if service is not gone]
    return await _change(call, "delete_service", balancer, services=services)


@LOAD_BALANCERS.action("add_target")
async def _add_target(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    target = read_target(fields)
    fields.check()
    check_target(call, target, balancer)
    check_target_count(balancer, len(balancer.targets) + 1)
    return await _change(call, "add_target", balancer, targets=[*balancer.targets, target])


@LOAD_BALANCERS.action("remove_target")
async def _remove_target(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    target = read_target(fields)
    fields.check()
    targets = [other for other in balancer.targets if not other.same(target)]
    if len(targets) == len(balancer.targets):
        raise ApiError("not_found", "load balancer target not found")
    return await _change(call, "remove_target", balancer, targets=targets)


@LOAD_BALANCERS.action("attach_to_network")
async def _attach(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    """Attach to a network; a load balancer can have one."""
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
async def _detach(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    """Detach from the network; targets with private addresses get no more traffic."""
    identity = fields.number("network", required=True)
    fields.check()
    if balancer.network != identity:
        raise ApiError(
            "load_balancer_not_attached_to_network", "load balancer is not attached to the network"
        )
    return await _change(call, "detach_from_network", balancer, attachments=[])


@LOAD_BALANCERS.action("change_algorithm")
async def _change_algorithm(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    algorithm = fields.choice("type", ALGORITHMS, "round_robin", required=True)
    fields.check()
    return await _change(call, "change_algorithm", balancer, algorithm=algorithm)


@LOAD_BALANCERS.action("change_type")
async def _change_type(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
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
async def _enable_public_interface(call: Call, balancer: LoadBalancer, _fields: Fields) -> Reply:
    return await _change(call, "enable_public_interface", balancer, public_enabled=True)


@LOAD_BALANCERS.action("disable_public_interface")
async def _disable_public_interface(call: Call, balancer: LoadBalancer, _fields: Fields) -> Reply:
    if not balancer.attachments:
        raise ApiError("load_balancer_not_attached_to_network", "load balancer is not attached to a network")
    if any(not target.use_private_ip for target in balancer.targets if target.type != "ip"):
        text = "the load balancer has targets that use the public network instead of the private network"
        raise ApiError("targets_without_use_private_ip", text)
    return await _change(call, "disable_public_interface", balancer, public_enabled=False)


@LOAD_BALANCERS.action("change_dns_ptr")
async def _change_dns_ptr(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
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
async def _change_protection(call: Call, balancer: LoadBalancer, fields: Fields) -> Reply:
    wanted = fields.flag("delete", balancer.protected)
    fields.check()
    return await _change(call, "change_protection", balancer, protected=wanted)
