"""Operations on zones.

What an action of a zone does is done before the answer, and an action locks nothing: clients such as
Terraform ask for the next change of a zone without waiting for the one before.
"""

from __future__ import annotations

import asyncio

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.errors import ApiError, Protected, UniquenessError
from hetzner_emulator.models.zones import DEFAULT_TTL, PRIMARY, SECONDARY, Zone, rrsets_of, zone_wire
from hetzner_emulator.resources.zones.changes import check_changeable, fill, read_file, replace_all
from hetzner_emulator.resources.zones.names import zone_name_problem
from hetzner_emulator.resources.zones.reading import read_nameservers, read_rrsets, read_ttl
from hetzner_emulator.resources.zones.zonefile import FileSet, write_zonefile
from hetzner_emulator.wire.reply import Reply

LONGEST_FILE = 2**20

ZONES = Resource(
    "zones",
    Zone,
    zone_wire,
    filters={"mode": lambda _cloud, zone: zone.mode},
    longest_name=255,
    name_problem=zone_name_problem,
    by_name=True,
    renames=False,
    deletes=False,
)
ZONES.register()
_ONE = "/zones/{id_or_name}"


def publish(call: Call, command: str, zone: Zone) -> Action:
    """Start the action which tells that a change of a zone is on its way to the name servers."""
    return call.cloud.actions.start(command, call.project, [zone.reference], locks=())


async def published(call: Call, command: str, zone: Zone, status: int = 201) -> Reply:
    """The usual answer to a change of a zone: its action."""
    return await call.answer(publish(call, command, zone), status)


def zone_in(call: Call, mode: str) -> Zone:
    """The zone that the path names.

    Raises:
        NotFound: There is none.
        ApiError: ``incorrect_zone_mode``; it is in the other mode.
    """
    zone = ZONES.find(call)
    if zone.mode != mode:
        raise ApiError("incorrect_zone_mode", f"operation is not supported for zones in {zone.mode} mode")
    return zone


@operation("POST", "/zones")
async def create(call: Call) -> Reply:
    """Make a zone; a primary one with the records of a file or of the request."""
    fields, cloud = call.fields(), call.cloud
    name, labels = ZONES.read_name(fields), fields.labels()
    mode = fields.choice("mode", {PRIMARY, SECONDARY}, required=True)
    ttl = read_ttl(fields) or DEFAULT_TTL
    primary = mode == PRIMARY
    nameservers = read_nameservers(fields) if mode == SECONDARY else []
    text = fields.text("zonefile", longest=LONGEST_FILE) if primary else ""
    # As many as a file may have, so they are read beside the event loop, too.
    drafts = await asyncio.to_thread(read_rrsets, fields, name) if primary else []
    if text and drafts:
        fields.wrong("rrsets", "must be empty where a zone file is given")
    fields.check()
    if text:
        ttl, drafts = await read_file(text, name, ttl, whole=False)
    if cloud.store.lookup("zone_name", name):
        raise UniquenessError("zone name is already used")  # of all projects
    ZONES.check_new(call, name)
    zone = ZONES.new(call, name, labels, mode=mode, ttl=ttl, nameservers=nameservers)
    cloud.store.put(zone)
    if primary:
        fill(cloud, zone, drafts)
    (action,) = await call.wires(publish(call, "create_zone", zone))
    return created("zone", ZONES.show(call, zone), action=action)


@operation("DELETE", _ONE)
async def delete(call: Call) -> Reply:
    """Remove a zone with all that is in it."""
    zone = ZONES.find(call)
    if zone.protected:
        raise Protected("zone")
    rrsets = rrsets_of(call.cloud.store, zone)
    check_changeable(rrsets)
    for rrset in rrsets:
        call.cloud.store.remove(rrset)
    call.cloud.store.remove(zone)
    return await published(call, "delete_zone", zone)


@operation("GET", f"{_ONE}/zonefile")
async def export_zonefile(call: Call) -> Reply:
    """The zone as a file."""
    zone = zone_in(call, PRIMARY)
    sets = [
        FileSet(rrset.name, rrset.type, rrset.ttl, tuple((r.value, r.comment) for r in rrset.records))
        for rrset in rrsets_of(call.cloud.store, zone)
    ]
    return Reply(200, {"zonefile": write_zonefile(zone.name, zone.ttl, sets)})


@operation("POST", f"{_ONE}/actions/import_zonefile")
async def import_zonefile(call: Call) -> Reply:
    """Replace all records by those of a file."""
    zone, fields = zone_in(call, PRIMARY), call.fields()
    text = fields.text("zonefile", required=True, longest=LONGEST_FILE)
    fields.check()
    ttl, drafts = await read_file(text, zone.name, zone.ttl)
    replace_all(call.cloud, zone_in(call, PRIMARY), ttl, drafts)  # the zone may have gone meanwhile
    return await published(call, "import_zonefile", zone)


@operation("POST", f"{_ONE}/actions/change_ttl")
async def change_ttl(call: Call) -> Reply:
    """Change the default TTL."""
    zone, fields = zone_in(call, PRIMARY), call.fields()
    ttl = read_ttl(fields, required=True)
    fields.check()
    zone.ttl = ttl or zone.ttl
    call.cloud.store.put(zone)
    return await published(call, "change_ttl", zone)


@operation("POST", f"{_ONE}/actions/change_protection")
async def change_protection(call: Call) -> Reply:
    """Protect against deletion, or not."""
    zone, fields = ZONES.find(call), call.fields()
    wanted = fields.flag("delete", zone.protected)
    fields.check()
    zone.protected = wanted
    call.cloud.store.put(zone)
    return await published(call, "change_protection", zone)


@operation("POST", f"{_ONE}/actions/change_primary_nameservers")
async def change_primary_nameservers(call: Call) -> Reply:
    """Change where a secondary zone comes from."""
    zone, fields = zone_in(call, SECONDARY), call.fields()
    nameservers = read_nameservers(fields)
    fields.check()
    zone.nameservers = nameservers
    call.cloud.store.put(zone)
    return await published(call, "change_primary_nameservers", zone)
