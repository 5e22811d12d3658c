"""Operations on primary IPs; those that concern a server, too, are among the servers'."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from hetzner_emulator.actions.events import reaction
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.resources.primary_ips.state import PrimaryIp, primary_ip_wire, set_name
from hetzner_emulator.state.records import Record
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply


def check_unassigned(_cloud: Cloud, ip: PrimaryIp) -> None:
    """Refuse to give an address back that is in use.

    Raises:
        ApiError: ``must_be_unassigned``; a server or load balancer has it.
    """
    if ip.assignee is not None:
        raise ApiError("must_be_unassigned", "primary IP must be unassigned before it can be deleted")


PRIMARY_IPS = Resource(
    "primary_ips",
    PrimaryIp,
    primary_ip_wire,
    sorts=("id", "created"),
    filters={"ip": lambda _cloud, ip: frozenset({ip.ip, ip.ip.partition("/")[0]})},
    flags=("auto_delete",),
    put_conflicts=True,
    protection="protected",
    check_delete=check_unassigned,
)
PRIMARY_IPS.register()


@operation("POST", "/primary_ips/{id}/actions/change_dns_ptr")
async def change_dns_ptr(call: Call) -> Reply:
    """Set or reset a reverse name."""
    ip, fields = call.get(PrimaryIp), call.fields()
    address, name = read_dns_ptr(fields, {ip.ip})
    fields.check()
    set_name(ip, address, name)
    return await call.changed("change_dns_ptr", ip)


def read_dns_ptr(fields: Fields, own: set[str]) -> tuple[str, str | None]:
    """The fields ``ip``, in its shortest form, and ``dns_ptr``.

    Args:
        fields: Of the body; what is wrong is collected there.
        own: Addresses or /64 networks, of which ``ip`` must be one.
    """
    text = fields.text("ip", required=True)
    name = fields.text("dns_ptr") if "dns_ptr" in fields else None
    address = _address(text)
    if text and (address is None or not any(address in ip_network(candidate) for candidate in own)):
        fields.wrong("ip", f"'{text}' does not belong to the resource")
    return str(address), name


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return None if "%" in text else ip_address(text)
    except ValueError:
        return None


@operation("POST", "/primary_ips/{id}/actions/change_protection")
async def change_protection(call: Call) -> Reply:
    """Protect against deletion, or not."""
    ip, fields = call.get(PrimaryIp), call.fields()
    wanted = fields.flag("delete", ip.protected, required=True)
    if wanted and ip.auto_delete:
        fields.wrong("delete", "can only be enabled if auto_delete is false")
    fields.check()
    ip.protected = wanted
    return await call.changed("change_protection", ip)


@reaction("server_deleted")
@reaction("load_balancer_deleted")
async def release(cloud: Cloud, holder: Record) -> None:
    """The addresses of a deleted server or load balancer go with it or become free."""
    for ip in list(cloud.store.lookup("assignee", holder.id)):
        if not isinstance(ip, PrimaryIp):
            continue
        ip.assignee = None
        if ip.auto_delete and not ip.protected:
            cloud.store.remove(ip)
        else:
            cloud.store.put(ip)
