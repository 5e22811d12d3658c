"""Operations on floating IPs; those that concern a server, too, are among the servers'."""

from __future__ import annotations

from hetzner_emulator.actions.events import reaction
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.resource import Resource
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.resources.floating_ips.state import FloatingIp, floating_ip_wire, floating_ips_of
from hetzner_emulator.resources.primary_ips.routes import read_dns_ptr
from hetzner_emulator.resources.primary_ips.state import set_name
from hetzner_emulator.state.records import Record
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply


def check_unassigned(_cloud: Cloud, ip: FloatingIp) -> None:
    """Refuse to give an address back that is led to a server.

    Raises:
        ApiError: ``must_be_unassigned``.
    """
    if ip.server is not None:
        raise ApiError("must_be_unassigned", "floating IP must be unassigned before it can be deleted")


FLOATING_IPS = Resource(
    "floating_ips",
    FloatingIp,
    floating_ip_wire,
    sorts=("id", "created"),
    texts=("description",),
    protection="protected",
    check_delete=check_unassigned,
)
FLOATING_IPS.register()


@FLOATING_IPS.action("change_dns_ptr")
async def change_dns_ptr(call: Call, ip: FloatingIp, fields: Fields) -> Reply:
    """Set or reset a reverse name."""
    address, name = read_dns_ptr(fields, {ip.ip})
    fields.check()
    set_name(ip, address, name)
    return await call.changed("change_dns_ptr", ip, locks=())  # of several addresses at once


@FLOATING_IPS.action("change_protection")
async def change_protection(call: Call, ip: FloatingIp, fields: Fields) -> Reply:
    """Protect against deletion, or not."""
    ip.protected = fields.flag("delete", ip.protected, required=True)
    fields.check()
    return await call.changed("change_protection", ip)


@reaction("server_deleted")
async def release(cloud: Cloud, server: Record) -> None:
    """A deleted server's floating IPs stay, led to nobody."""
    for ip in floating_ips_of(cloud, server.id):
        ip.server = None
        cloud.store.put(ip)
