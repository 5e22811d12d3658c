"""Creating load balancers."""

from __future__ import annotations

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect, undo
from hetzner_emulator.actions.events import announce
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.catalog import LOCATIONS, NETWORK_ZONES
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import created
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import LimitExceeded
from hetzner_emulator.models.certificates import Certificate
from hetzner_emulator.models.load_balancer_types import LOAD_BALANCER_TYPES
from hetzner_emulator.models.load_balancers import SETTINGS, LoadBalancer, certificates_of
from hetzner_emulator.models.primary_ips import PrimaryIp, default_name, present_ip
from hetzner_emulator.resources.load_balancers.resource import LOAD_BALANCERS
from hetzner_emulator.resources.load_balancers.services import check_ports, read_service
from hetzner_emulator.resources.load_balancers.sync import apply
from hetzner_emulator.resources.load_balancers.targets import check_target, read_target
from hetzner_emulator.resources.locations import LOCATION_CATALOG
from hetzner_emulator.resources.networks.attaching import new_attachment, open_network
from hetzner_emulator.state.addresses import first_host
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply


@operation("POST", "/load_balancers")
async def create(call: Call) -> Reply:
    """Make a load balancer with services, targets and network at once."""
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
    command = "create_load_balancer"
    (action,) = await call.wires(call.start(command, balancer, effect=command))
    return created("load_balancer", LOAD_BALANCERS.show(call, balancer), action=action)


def _read(call: Call, fields: Fields) -> LoadBalancer:
    cloud = call.cloud
    name, labels = LOAD_BALANCERS.read_name(fields), fields.labels()
    kind = fields.reference("load_balancer_type", required=True)
    settings = {one.name: one.created(fields) for one in SETTINGS}
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
        **settings,
        public_enabled=public,
        primary_ips={family: ip.id for family, ip in primary.items()},
        dns_ptr={} if "ipv4" in primary else {ipv4: default_name(ipv4)},
    )


def _first_in(zone: str) -> str:
    return next(location.name for location in LOCATIONS.values() if location.network_zone == zone)


def check_services(
    call: Call, balancer: LoadBalancer, services: list[dict[str, object]], *, status: int | None = None
) -> None:
    """Refuse services that the load balancer can't have.

    Raises:
        ApiError: Two of them want one port.
        LimitExceeded: There are more of them, or of their certificates, than its type allows.
        NotFound: A certificate is not there.
    """
    check_ports(services, status=status)
    kind = LOAD_BALANCER_TYPES.find(balancer.type)
    if len(services) > kind.max_services:
        raise LimitExceeded("number of services exceeded", "load_balancer_services_limit")
    certificates = {identity for service in services for identity in certificates_of(service)}
    for identity in certificates:
        call.cloud.store.get(Certificate, call.project, identity)
    if len(certificates) > kind.max_assigned_certificates:
        raise LimitExceeded("number of certificates exceeded", "load_balancer_certificates_limit")


def check_target_count(balancer: LoadBalancer, number: int) -> None:
    """Refuse more targets than the type allows.

    Raises:
        LimitExceeded: There are more.
    """
    if number > LOAD_BALANCER_TYPES.find(balancer.type).max_targets:
        raise LimitExceeded("number of targets exceeded", "load_balancer_targets_limit")


@effect("create_load_balancer", LoadBalancer)
async def create_effect(cloud: Cloud, balancer: LoadBalancer, _action: Action) -> None:
    """Make it in the world below."""
    await apply(cloud, balancer)
    for attachment in balancer.attachments:
        attachment.status = "ok"
    cloud.store.put(balancer)


@undo("create_load_balancer", LoadBalancer)
async def give_up(cloud: Cloud, balancer: LoadBalancer, _action: Action) -> None:
    """A load balancer that could not be made is not kept."""
    cloud.store.remove(balancer)
    await announce("load_balancer_deleted", cloud, balancer)
