"""The body of ``POST /servers``, decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetzner_emulator.resources.servers.resource import SERVERS
from hetzner_emulator.wire.fields import Fields

_LARGEST_USER_DATA = 32 * 1024
FAMILIES = ("ipv4", "ipv6")


@dataclass(frozen=True)
class CreateServer:
    """A server that a client asks for; whether the cloud can create it is not checked here.

    Attributes:
        name: A valid hostname.
        labels: The user's.
        server_type: Name or id.
        image: Name or id.
        location: Name or id; empty for any.
        ssh_keys: Names, ids, or fingerprints.
        user_data: For cloud-init.
        start: Whether the server starts after its creation.
        primary_ips: By family that the server has an address of: the id of a primary IP, 0 for a new one.
        networks: Ids.
        firewalls: Ids.
        volumes: Ids.
        automount: Whether the server mounts them.
        placement_group: Id, or None.
    """

    name: str
    labels: dict[str, str]
    server_type: str
    image: str
    location: str
    ssh_keys: Sequence[str]
    user_data: str
    start: bool
    primary_ips: Mapping[str, int]
    networks: Sequence[int]
    firewalls: Sequence[int]
    volumes: Sequence[int]
    automount: bool
    placement_group: int | None


def decode(fields: Fields) -> CreateServer:
    """Decode the body of a request.

    Raises:
        InvalidInput: Names every field that is wrong.
    """
    if "datacenter" in fields:
        fields.wrong("datacenter", "was removed from the API; use location")
    public = fields.object("public_net")
    firewalls = [item.number("firewall", required=True) for item in fields.objects("firewalls")]
    fields.check_distinct("firewalls", firewalls)
    request = CreateServer(
        name=SERVERS.read_name(fields),
        labels=fields.labels(),
        server_type=fields.reference("server_type", required=True),
        image=fields.reference("image", required=True),
        location=fields.reference("location"),
        ssh_keys=[str(key) for key in fields.items("ssh_keys")],
        user_data=read_user_data(fields),
        start=fields.flag("start_after_create", default=True),
        primary_ips={
            family: public.number(family)
            for family in FAMILIES
            if public.flag(f"enable_{family}", default=True)
        },
        networks=fields.numbers("networks", distinct=True),
        firewalls=firewalls,
        volumes=fields.numbers("volumes", distinct=True),
        automount=fields.flag("automount"),
        placement_group=fields.number("placement_group") or None,
    )
    fields.check()
    return request


def read_user_data(fields: Fields, default: str = "") -> str:
    """The field ``user_data``, whose bytes are counted."""
    user_data = fields.text("user_data", default, longest=_LARGEST_USER_DATA)
    if len(user_data.encode()) > _LARGEST_USER_DATA >= len(user_data):
        fields.wrong("user_data", "is too long")
    return user_data
