"""Every public method of every client of hcloud works, or has a documented error; without Storage Boxes."""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import hcloud
import pytest
from cloud_emulator import Emulator
from hcloud.core import ResourceClientBase
from hcloud.firewalls import FirewallResource, FirewallRule
from hcloud.images import Image
from hcloud.isos import Iso
from hcloud.load_balancer_types import LoadBalancerType
from hcloud.load_balancers import (
    LoadBalancerAlgorithm,
    LoadBalancerHealthCheck,
    LoadBalancerService,
    LoadBalancerTarget,
)
from hcloud.locations import Location
from hcloud.networks import NetworkRoute, NetworkSubnet
from hcloud.server_types import ServerType
from hcloud.volumes import Volume
from hcloud.zones import ZonePrimaryNameserver, ZoneRecord, ZoneRRSet

from hetzner_emulator.coverage import refusal

KEYS = [
    f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{middle}DxUmMbMXZPvFdYWhZPGUBsfIAzmyFAxRPBYN someone"
    for middle in ("DlzUOKi", "DlzUOKj")
]
RULE = FirewallRule(direction="in", protocol="icmp", source_ips=["0.0.0.0/0"])
SPAN = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T01:00:00Z"}
CX23, CX33 = ServerType(name="cx23"), ServerType(name="cx33")
DEBIAN, FSN1 = Image(name="debian-12"), Location("fsn1")


def service(port: int) -> LoadBalancerService:
    check = LoadBalancerHealthCheck("tcp", 80, 15, 10, 3)
    return LoadBalancerService("tcp", port, 80, proxyprotocol=False, health_check=check)


class World:
    """One of each object, by the name of the parameter that takes it."""

    def __init__(self, client: hcloud.Client) -> None:
        self.client = client
        self.ssh_key = client.ssh_keys.create("first", KEYS[0])
        subnets = [NetworkSubnet(ip_range="10.0.0.0/24", type="cloud", network_zone="eu-central")]
        self.network = client.networks.create("first", "10.0.0.0/12", subnets=subnets)
        other = [NetworkSubnet(ip_range="172.16.0.0/24", type="cloud", network_zone="eu-central")]
        self.other = client.networks.create("other", "172.16.0.0/16", subnets=other)
        self.placement_group = client.placement_groups.create("first", "spread").placement_group
        made = client.servers.create("first", CX23, DEBIAN, location=FSN1, networks=[self.network])
        self.server = made.server
        self.firewall = client.firewalls.create("first", [RULE]).firewall
        self.certificate = client.certificates.create_managed("first", ["a.invalid"]).certificate
        self.load_balancer = client.load_balancers.create(
            "first", LoadBalancerType(name="lb11"), location=FSN1, services=[service(80)]
        ).load_balancer
        self.primary_ip = client.primary_ips.create(type="ipv4", name="first", location=FSN1).primary_ip
        self.zone = client.zones.create(name="example.com", mode="primary").zone
        self.rrset = self._add_rrset(self.zone)
        self.volume = client.volumes.create(10, "first", location=FSN1).volume
        self.floating_ip = client.floating_ips.create("ipv4", name="first", home_location=FSN1).floating_ip
        self.image = client.servers.create_image(self.server).image
        for changed in (self.primary_ip, self.floating_ip):
            changed.change_protection(delete=False)  # so that they have an action

    def _add_rrset(self, zone: Any) -> ZoneRRSet:
        records = [ZoneRecord("198.51.100.1")]
        return self.client.zones.create_rrset(zone, name="www", type="A", records=records).rrset


def _same(name: str) -> Callable[[World], Any]:
    return lambda world: getattr(world, name)


OBJECTS = (
    "certificate", "firewall", "floating_ip", "image", "load_balancer", "network", "placement_group",
    "primary_ip", "rrset", "server", "ssh_key", "volume", "zone",
)  # fmt: skip
BY_PARAMETER: dict[str, Callable[[World], Any]] = {
    **{name: _same(name) for name in OBJECTS},
    "algorithm": lambda _: LoadBalancerAlgorithm("least_connections"),
    "assignee_id": lambda w: w.server.id,
    "dns_ptr": lambda _: "a.example.com",
    "end": lambda _: SPAN["end"],
    "ip_range": lambda _: "10.0.0.0/8",
    "iso": lambda _: Iso(name="virtio-win-0.1.271.iso"),
    "load_balancer_type": lambda _: LoadBalancerType(name="lb21"),
    "location": lambda _: FSN1,
    "name": lambda _: "second",
    "primary_nameservers": lambda _: [ZonePrimaryNameserver("198.51.100.2")],
    "records": lambda _: [ZoneRecord("198.51.100.1", comment="a")],
    "resources": lambda w: [FirewallResource("server", server=w.server)],
    "route": lambda _: NetworkRoute("10.9.0.0/16", "10.0.0.9"),
    "rules": lambda _: [RULE],
    "service": lambda _: service(81),
    "size": lambda _: 20,
    "start": lambda _: SPAN["start"],
    "subnet": lambda _: NetworkSubnet("10.0.1.0/24", "cloud", "eu-central"),
    "target": lambda w: LoadBalancerTarget("server", server=w.server, use_private_ip=False),
    "ttl": lambda _: 300,
    "zonefile": lambda w: w.client.zones.export_zonefile(w.zone).zonefile,
}
"""The values of parameters without a default, unless ``BY_METHOD`` has one."""

BY_METHOD: dict[str, Callable[[World], dict[str, Any]]] = {
    "certificates.create": lambda _: {"certificate": "x", "private_key": "x"},
    "certificates.create_managed": lambda _: {"domain_names": ["a.example.com"]},
    "floating_ips.change_dns_ptr": lambda w: {"ip": w.floating_ip.ip},
    "floating_ips.create": lambda _: {"type": "ipv4", "home_location": FSN1},
    "floating_ips.change_protection": lambda _: {"delete": False},
    "images.get_by_name_and_architecture": lambda _: {"name": "debian-12", "architecture": "x86"},
    "load_balancers.change_dns_ptr": lambda w: {"ip": w.load_balancer.public_net.ipv4.ip},
    "load_balancers.create": lambda _: {"location": FSN1},
    "load_balancers.get_metrics": lambda _: {"type": ["bandwidth", "open_connections"]},
    "placement_groups.create": lambda _: {"type": "spread"},
    "primary_ips.change_dns_ptr": lambda w: {"ip": w.primary_ip.ip},
    "primary_ips.change_protection": lambda _: {"delete": False},
    "primary_ips.create": lambda _: {"type": "ipv4", "location": FSN1},
    "servers.attach_to_network": lambda w: {"network": w.other},
    "servers.change_alias_ips": lambda _: {"alias_ips": ["10.0.0.9"]},
    "servers.change_dns_ptr": lambda w: {"ip": w.server.public_net.ipv4.ip},
    "servers.change_type": lambda _: {"server_type": CX33, "upgrade_disk": False},
    "servers.create": lambda _: {"server_type": CX23, "image": DEBIAN},
    "servers.get_metrics": lambda _: {"type": ["cpu", "disk", "network"]},
    "servers.rebuild": lambda _: {"image": DEBIAN},
    "ssh_keys.create": lambda _: {"public_key": KEYS[1]},
    "ssh_keys.get_by_fingerprint": lambda w: {"fingerprint": w.ssh_key.fingerprint},
    "volumes.create": lambda _: {"size": 10, "location": FSN1},
    "zones.add_rrset_records": lambda _: {"records": [ZoneRecord("198.51.100.9")]},
    "zones.change_rrset_protection": lambda _: {"change": False},
    "zones.create": lambda _: {"name": "example.org", "mode": "primary"},
    "zones.create_rrset": lambda _: {"type": "TXT", "records": [ZoneRecord('"a"')]},
    "zones.get": lambda w: {"id_or_name": w.zone.id},
    "zones.get_rrset": lambda _: {"name": "@", "type": "SOA"},
    "zones.remove_rrset_records": lambda _: {"records": [ZoneRecord("198.51.100.9")]},
}


def unassign_ipv4(world: World) -> None:
    """Unassign the server's IPv4 address."""
    world.client.servers.power_off(world.server)
    world.server.public_net.primary_ipv4.unassign()


BEFORE: dict[str, Callable[[World], Any]] = {
    "floating_ips.unassign": lambda w: w.client.floating_ips.assign(w.floating_ip, w.server),
    "primary_ips.assign": unassign_ipv4,
    "load_balancers.disable_public_interface": lambda w: w.load_balancer.remove_target(
        LoadBalancerTarget("server", server=w.server)
    ),
    "load_balancers.remove_target": lambda w: w.load_balancer.add_target(
        LoadBalancerTarget("server", server=w.server, use_private_ip=True)
    ),
    "servers.add_to_placement_group": lambda w: w.client.servers.power_off(w.server),
    "servers.change_type": lambda w: w.client.servers.power_off(w.server),
    "servers.rebuild": lambda w: w.client.servers.power_on(w.server),
    "servers.remove_from_placement_group": lambda w: w.client.servers.power_off(w.server),
    "servers.reset": lambda w: w.client.servers.power_on(w.server),
}
"""Preconditions of methods."""

REFUSED = {
    "actions.get_all": "deprecated_api_endpoint",  # without ids
    "actions.get_list": "deprecated_api_endpoint",
    "certificates.create": "invalid_input",  # of an invalid certificate
    "zones.change_primary_nameservers": "incorrect_zone_mode",  # of a primary zone
}
"""The error codes of methods that fail, as at Hetzner."""


def clients() -> Iterator[tuple[str, ResourceClientBase]]:
    for name, part in vars(hcloud.Client("token")).items():
        if isinstance(part, ResourceClientBase) and not name.startswith("storage_box"):
            yield name, part
            if hasattr(part, "actions"):
                yield f"{name}.actions", part.actions


def methods(part: ResourceClientBase) -> list[str]:
    """Public methods: those that create first, then those that read, those that delete last."""
    names = [name for name, _ in inspect.getmembers(part, inspect.ismethod) if not name.startswith("_")]
    order = ("create", "get_", "", "unassign", "detach", "delete_")

    def place(name: str) -> int:
        found = [number for number, first in enumerate(order) if name.startswith(first)]
        return len(order) if name == "delete" else max(found)

    return sorted(names, key=place)


def arguments(world: World, full: str, method: Callable[..., Any]) -> dict[str, Any]:
    special = BY_METHOD.get(full, lambda _: {})(world)
    wanted = [
        p.name
        for p in inspect.signature(method).parameters.values()
        if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    client_name = full.partition(".")[0]
    known = {**BY_PARAMETER, "id": lambda w: own_id(w, client_name, full)}
    return {name: known[name](world) for name in wanted if name not in special} | special


def own_id(world: World, client_name: str, full: str) -> int:
    """The id of an object that the client reads."""
    if "actions" in full:
        listed = getattr(world.client, client_name)
        own = world.client.servers if client_name == "actions" else listed
        return (own.actions.get_list().actions or [Volume(id=1)])[0].id
    mine = getattr(world, client_name.removesuffix("s"), None)
    return mine.id if mine is not None else getattr(world.client, client_name).get_all()[0].id


def walk(world: World, name: str, emulator: Emulator) -> dict[str, str]:
    """Call every method of a client; returns the errors by method."""
    part: Any = world.client
    for step in name.split("."):
        part = getattr(part, step)
    wrong = {}
    for method_name in methods(part):
        full, method = f"{name}.{method_name}", getattr(part, method_name)
        with contextlib.suppress(hcloud.APIException):  # the method itself may be refused then
            BEFORE.get(full, lambda _: None)(world)
        emulator.cloud.requests.clear()
        code = ""
        try:
            method(**arguments(world, full, method))
        except hcloud.APIException as error:
            code = str(error.code)
        (last,) = emulator.cloud.requests.latest(1, lambda _: True)
        if code not in {"", REFUSED.get(full, "")} and not refusal(last["operation"]):
            wrong[full] = f"{last['operation']} answered {last['status']} {code}"
    return wrong


@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", [name for name, _ in clients()])
async def test_every_method_works(emulator: Emulator, name: str):
    def work(client: hcloud.Client) -> dict[str, str]:
        return walk(World(client), name, emulator)

    assert await emulator.official(work) == {}


def test_the_clients_are_found():
    assert {"servers", "zones", "servers.actions", "actions"} <= dict(clients()).keys()
