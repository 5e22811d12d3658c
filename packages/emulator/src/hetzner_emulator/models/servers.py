"""The record of a server."""

from collections.abc import Callable
from ipaddress import IPv6Network
from typing import Any, ClassVar

import msgspec

from hetzner_emulator.api.catalog import LOCATIONS
from hetzner_emulator.backend import MachineSpec, PrivateInterface
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.catalogs import ISOS, SERVER_TYPES, server_type_wire
from hetzner_emulator.models.floating_ips import floating_ips_of
from hetzner_emulator.models.images import Snapshot, image_by_id, image_wire
from hetzner_emulator.models.networks import Attachment, Holder
from hetzner_emulator.models.placement_groups import PlacementGroup, placement_group_wire
from hetzner_emulator.models.primary_ips import PrimaryIp, dns_ptr_wire
from hetzner_emulator.models.volumes import attached, volumes_of
from hetzner_emulator.state.records import record
from hetzner_emulator.wire.labels import parse_selector

INCLUDED_TRAFFIC = 20 * 1024**4

Contribution = Callable[[Cloud, "Server"], list[Any]]
FIREWALLS_OF: list[Contribution] = []
"""Functions that return the firewalls of a server. ``models/firewalls.py`` adds a function to this list."""


@record
class Server(Holder):
    """A server."""

    KIND: ClassVar[str] = "server"
    FIRST_ID: ClassVar[int] = 4_000_001

    status: str  # as in the API
    server_type: str  # name
    image: int | None  # ID, or None when unknown
    location: str  # name
    # of the SSH keys chosen at creation, for the metadata service
    public_keys: list[str] = msgspec.field(default_factory=list)
    user_data: str = ""  # as given
    ipv4: int | None = None  # ID of its primary IP of that type, or None
    ipv6: int | None = None  # likewise
    placement_group: int | None = None  # ID, or None
    iso: int | None = None  # ID, or None
    disk: int = 0  # size of the disk in GB
    rescue_enabled: bool = False  # whether the next boot uses the rescue system
    backup_window: str | None = None
    delete_protected: bool = False
    rebuild_protected: bool = False

    @property
    def has_interface(self) -> bool:
        """Whether it has a public or private address; without one it can't start."""
        return self.ipv4 is not None or self.ipv6 is not None or bool(self.attachments)

    def attachment(self, network_id: int) -> Attachment | None:
        """Its attachment to a network, or None."""
        return next((a for a in self.attachments if a.network == network_id), None)

    def attached(self, network_id: int) -> Attachment:
        """Its attachment to a network; raises ``not_found`` without one."""
        if (attachment := self.attachment(network_id)) is None:
            raise ApiError("not_found", f"server {self.id} is not attached to network {network_id}")
        return attachment


def address(cloud: Cloud, identity: int | None) -> PrimaryIp | None:
    """The primary IP with this ID, or None."""
    return None if identity is None else cloud.store.find(PrimaryIp, identity)


def server_wire(cloud: Cloud, server: Server) -> dict[str, Any]:
    """The server as the API shows it."""
    image = image_by_id(cloud, server.image)
    group = cloud.store.find(PlacementGroup, server.placement_group) if server.placement_group else None
    iso = ISOS.by_id(server.iso)
    return {
        **server.common_wire("status", "rescue_enabled", "backup_window"),
        "public_net": _public_net(cloud, server),
        "private_net": [_private_net(a) for a in server.attachments if a.status != "attaching"],
        "server_type": server_type_wire(cloud, SERVER_TYPES.known(server.server_type)),
        "location": LOCATIONS[server.location].wire(),
        "image": None if image is None else image_wire(cloud, image),
        "iso": None if iso is None else iso.wire(),
        "locked": cloud.actions.locked("server", server.id),
        "outgoing_traffic": 0,
        "ingoing_traffic": 0,
        "included_traffic": INCLUDED_TRAFFIC,
        "protection": {"delete": server.delete_protected, "rebuild": server.rebuild_protected},
        "volumes": [volume.id for volume in volumes_of(cloud, server.id)],
        "load_balancers": [balancer.id for balancer in cloud.store.lookup("target", server.id)],
        "primary_disk_size": server.disk,
        "placement_group": None if group is None else placement_group_wire(cloud, group),
    }


def _public_net(cloud: Cloud, server: Server) -> dict[str, Any]:
    ipv4, ipv6 = address(cloud, server.ipv4), address(cloud, server.ipv6)
    return {
        "ipv4": ipv4 and {**_address(ipv4), "dns_ptr": ipv4.dns_ptr.get(ipv4.ip, "")},
        "ipv6": ipv6 and {**_address(ipv6), "dns_ptr": dns_ptr_wire(ipv6)},
        "floating_ips": [ip.id for ip in floating_ips_of(cloud, server.id)],
        "firewalls": [entry for source in FIREWALLS_OF for entry in source(cloud, server)],
    }


def _address(ip: PrimaryIp) -> dict[str, Any]:
    return {"id": ip.id, "ip": ip.ip, "blocked": ip.blocked}


def _private_net(attachment: Attachment) -> dict[str, Any]:
    return {name: getattr(attachment, name) for name in ("network", "ip", "alias_ips", "mac_address")}


def interface(attachment: Attachment) -> PrivateInterface:
    """The attachment as the backend sees it."""
    aliases = tuple(attachment.alias_ips)
    return PrivateInterface(attachment.network, attachment.ip, aliases, attachment.mac_address)


def server_spec(cloud: Cloud, server: Server) -> MachineSpec:
    """The server as the backend sees it."""
    ipv4, ipv6 = address(cloud, server.ipv4), address(cloud, server.ipv6)
    server_type = SERVER_TYPES.known(server.server_type)
    image = image_by_id(cloud, server.image)
    return MachineSpec(
        id=server.id,
        name=server.name,
        public_ipv4=ipv4.ip if ipv4 else None,
        public_ipv6=str(IPv6Network(ipv6.ip)) if ipv6 else None,
        cores=server_type.cores,
        memory=server_type.memory,
        private=tuple(interface(attachment) for attachment in server.attachments),
        architecture=server_type.architecture,
        image=image.name if image else "",
        snapshot=image.id if isinstance(image, Snapshot) else None,
        volumes=attached(cloud, server.id),
        floating_ips=tuple(ip.ip for ip in floating_ips_of(cloud, server.id)),
    )


def selected(cloud: Cloud, project: str, selector: str) -> list[Server]:
    """The servers of a project that match a label selector now."""
    parsed = parse_selector(selector)
    return [server for server in cloud.store.of(Server, project) if parsed.matches(server.labels)]
