"""Creating load balancers."""

from __future__ import annotations

from sandbox.cloud.actions import Action, action_wire
from sandbox.cloud.addresses import first_host
from sandbox.cloud.call import Call
from sandbox.cloud.catalog import LOCATIONS, NETWORK_ZONES
from sandbox.cloud.cloud import Cloud
from sandbox.cloud.collection import check_unique
from sandbox.cloud.effects import effect, undo
from sandbox.cloud.errors import LimitExceeded
from sandbox.cloud.fields import Fields
from sandbox.cloud.records import Reference
from sandbox.cloud.registry import operation
from sandbox.cloud.reply import Reply
from sandbox.cloud.resources.certificates.state import Certificate
from sandbox.cloud.resources.load_balancer_types import LoadBalancerType, find_load_balancer_type
from sandbox.cloud.resources.load_balancers.services import check_ports, read_service
from sandbox.cloud.resources.load_balancers.state import LoadBalancer, certificates_of, load_balancer_wire
from sandbox.cloud.resources.load_balancers.sync import apply
from sandbox.cloud.resources.load_balancers.targets import check_target, read_target
from sandbox.cloud.resources.locations import find_location
from sandbox.cloud.resources.networks.attaching import new_attachment, open_network
from sandbox.cloud.resources.networks.state import Attachment
from sandbox.cloud.resources.primary_ips.state import default_name

ALGORITHMS = ("round_robin", "least_connections")


def name_problem(name: str) -> str:
    """What is wrong with a load balancer's name, or ""."""
    return "must not begin or end with a space" if name != name.strip() else ""


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
    attachment = _attach(call, balancer, wanted_network)
    network = attachment.network if attachment else None
    for target in targets:
        check_target(call, target, balancer.targets, network, public=balancer.public_enabled)
        balancer.targets.append(target)
    check_target_count(balancer, len(balancer.targets))
    cloud.store.put(balancer)
    action = cloud.actions.start(
        "create_load_balancer",
        call.project,
        [Reference("load_balancer", balancer.id)],
        effect="create_load_balancer",
    )
    await cloud.actions.settle()
    body = {"load_balancer": load_balancer_wire(cloud, balancer), "action": action_wire(action, cloud.now())}
    return Reply(201, body)


def _read(call: Call, fields: Fields) -> LoadBalancer:
    cloud = call.cloud
    name, labels = fields.text("name", required=True, longest=128), fields.labels()
    if problem := name_problem(name):
        fields.wrong("name", problem)
    kind = fields.reference("load_balancer_type", required=True)
    algorithm = fields.object("algorithm").choice("type", ALGORITHMS, "round_robin")
    zone = fields.choice("network_zone", NETWORK_ZONES)
    location = fields.reference("location")
    if bool(zone) == bool(location):
        fields.wrong("location", "exactly one of location and network_zone is required")
    public = fields.flag("public_interface", default=True)
    fields.check()
    type_name = find_load_balancer_type(kind).name
    place = find_location(location).name if location else _first_in(zone)
    check_unique(call, LoadBalancer, name)
    cloud.check_limit("load_balancers", cloud.store.count(LoadBalancer, call.project))
    ipv4, ipv6 = cloud.addresses.new_ipv4(), first_host(cloud.addresses.new_ipv6())
    return LoadBalancer(
        id=cloud.store.new_id(LoadBalancer),
        project=call.project,
        name=name,
        labels=labels,
        created=cloud.now(),
        type=type_name,
        location=place,
        ipv4=ipv4,
        ipv6=ipv6,
        algorithm=algorithm,
        public_enabled=public,
        dns_ptr={ipv4: default_name(ipv4)},
    )


def _first_in(zone: str) -> str:
    return next(location.name for location in LOCATIONS.values() if location.network_zone == zone)


def _attach(call: Call, balancer: LoadBalancer, wanted: int) -> Attachment | None:
    if not wanted:
        return None
    network = open_network(call, wanted)
    attachment = new_attachment(call, network, LOCATIONS[balancer.location].network_zone)
    balancer.attachments = [attachment]
    return attachment


def check_services(
    call: Call, balancer: LoadBalancer, services: list[dict[str, object]], *, status: int | None = None
) -> None:
    """Refuse services that the load balancer can't have.

    Raises:
        ApiError: two of them want one port.
        LimitExceeded: there are more of them, or of their certificates, than its type allows.
        NotFound: a certificate is not there.
    """
    check_ports(services, status=status)
    kind = find_load_balancer_type(balancer.type)
    if len(services) > kind.max_services:
        raise LimitExceeded("number of services exceeded", "load_balancer_services_limit")
    certificates = {identity for service in services for identity in certificates_of(service)}
    for identity in certificates:
        call.cloud.store.get(Certificate, call.project, identity)
    if len(certificates) > kind.max_assigned_certificates:
        raise LimitExceeded("number of certificates exceeded", "load_balancer_certificates_limit")


def check_target_count(balancer: LoadBalancer, number: int, kind: LoadBalancerType | None = None) -> None:
    """Refuse more targets than the type allows.

    Raises:
        LimitExceeded: there are more.
    """
    if number > (kind or find_load_balancer_type(balancer.type)).max_targets:
        raise LimitExceeded("number of targets exceeded", "load_balancer_targets_limit")


@effect("create_load_balancer")
async def create_effect(cloud: Cloud, action: Action) -> None:
    """Make it in the world below."""
    balancer = cloud.store.get(LoadBalancer, action.project, action.resources[0].id)
    await apply(cloud, balancer)
    for attachment in balancer.attachments:
        attachment.status = "ok"
    cloud.store.put(balancer)


@undo("create_load_balancer")
async def give_up(cloud: Cloud, action: Action) -> None:
    """A load balancer that could not be made is not kept."""
    balancer = cloud.store.find(LoadBalancer, action.resources[0].id)
    if balancer is not None:
        cloud.store.remove(balancer)
