"""Operations on zones and on their record sets.

A request changes a zone before the response, and its action locks nothing: clients such as Terraform send the
next change of a zone before the last action has ended.
"""

import asyncio
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, NamedTuple

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import Handler, add_operation, operation
from hetzner_emulator.api.resource import Resource, created, listing
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import (
    ApiError,
    InvalidInput,
    LimitExceeded,
    NotFound,
    Protected,
    UniquenessError,
)
from hetzner_emulator.models.zones import (
    DEFAULT_TTL,
    NAMESERVERS,
    PRIMARY,
    SECONDARY,
    RrSet,
    Value,
    Zone,
    rrset_wire,
    rrsets_named,
    rrsets_of,
    zone_wire,
)
from hetzner_emulator.resources.zones.rules import (
    APEX,
    MAX_RRSETS,
    TYPES,
    SetDraft,
    company_problem,
    draft_problem,
    next_serial,
    read_nameservers,
    read_records,
    read_rrset,
    read_rrsets,
    read_ttl,
    read_value,
    set_problem,
    together_problem,
    with_serial,
    zone_name_problem,
)
from hetzner_emulator.resources.zones.zonefile import ZoneFileError, read_zonefile, write_zonefile
from hetzner_emulator.state.records import timestamp
from hetzner_emulator.wire.fields import MISSING, Fields
from hetzner_emulator.wire.labels import parse_selector
from hetzner_emulator.wire.pagination import filter_entries, sort_entries, wanted_values
from hetzner_emulator.wire.reply import Reply

MAX_FILE = 2**20
_Find = Callable[[Call], tuple[Zone, RrSet]]
_Change = Callable[[Call, Zone, RrSet, Fields], None]

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
MAX_PER_PAGE = 100
MAX_PER_SET = 500
"""Maximum number of records in one record set. The sandbox sets this limit, not Hetzner."""

_RRSETS = f"{_ONE}/rrsets"
_RRSET = f"{_RRSETS}/{{rr_name}}/{{rr_type}}"
_SOA = f"{NAMESERVERS[0]} dns.hetzner.com. 0 86400 10800 3600000 3600"
_DEFAULTS = (
    SetDraft(APEX, "SOA", None, [Value(_SOA)]),
    SetDraft(APEX, "NS", None, [Value(server) for server in NAMESERVERS]),
)
"""The record sets of a new zone."""


def _publish(call: Call, command: str, zone: Zone) -> Action:
    """Start the action that stands for the transfer of a change to the name servers."""
    return call.cloud.actions.start(command, call.project, [zone.reference], locks=())


async def _published(call: Call, command: str, zone: Zone, status: int = 201) -> Reply:
    return await call.answer(_publish(call, command, zone), status)


def _zone_in(call: Call, mode: str) -> Zone:
    """The zone in the path, which must have this mode."""
    zone = ZONES.find(call)
    if zone.mode != mode:
        raise ApiError("incorrect_zone_mode", f"operation is not supported for zones in {zone.mode} mode")
    return zone


@operation("POST", "/zones")
async def _create(call: Call) -> Reply:
    """Create a zone; a primary one with the records of a file or of the request."""
    fields, cloud = call.fields(), call.cloud
    name, labels = ZONES.read_name(fields), fields.labels()
    mode = fields.choice("mode", {PRIMARY, SECONDARY}, required=True)
    ttl = read_ttl(fields) or DEFAULT_TTL
    primary = mode == PRIMARY
    nameservers = read_nameservers(fields) if mode == SECONDARY else []
    text = fields.text("zonefile", longest=MAX_FILE) if primary else ""
    # In a thread, because a request can have as many record sets as a file.
    drafts = await asyncio.to_thread(read_rrsets, fields, name) if primary else []
    if text and drafts:
        fields.wrong("rrsets", "must be empty if you set a zone file")
    fields.check()
    if text:
        ttl, drafts = await _read_file(text, name, ttl, whole=False)
    if cloud.store.lookup("zone_name", name):
        raise UniquenessError("zone name is already used")  # of all projects
    ZONES.check_new(call, name)
    zone = ZONES.new(call, name, labels, mode=mode, ttl=ttl, nameservers=nameservers)
    cloud.store.put(zone)
    if primary:
        _fill(cloud, zone, drafts)
    (action,) = await call.wires(_publish(call, "create_zone", zone))
    return created("zone", ZONES.show(call, zone), action=action)


@operation("DELETE", _ONE)
async def _delete(call: Call) -> Reply:
    zone = ZONES.find(call)
    if zone.protected:
        raise Protected("zone")
    rrsets = rrsets_of(call.cloud.store, zone)
    _check_changeable(rrsets)
    for rrset in rrsets:
        call.cloud.store.remove(rrset)
    call.cloud.store.remove(zone)
    return await _published(call, "delete_zone", zone)


@operation("GET", f"{_ONE}/zonefile")
async def _export_zonefile(call: Call) -> Reply:
    zone = _zone_in(call, PRIMARY)
    rrsets = rrsets_of(call.cloud.store, zone)
    return Reply(200, {"zonefile": write_zonefile(zone.name, zone.ttl, rrsets)})


@operation("POST", f"{_ONE}/actions/import_zonefile")
async def _import_zonefile(call: Call) -> Reply:
    zone, fields = _zone_in(call, PRIMARY), call.fields()
    text = fields.text("zonefile", required=True, longest=MAX_FILE)
    fields.check()
    ttl, drafts = await _read_file(text, zone.name, zone.ttl)
    _replace_all(call.cloud, _zone_in(call, PRIMARY), ttl, drafts)  # the zone may be deleted by now
    return await _published(call, "import_zonefile", zone)


# Actions that set one field: name, required mode of the zone, field, reader
_SETTINGS: tuple[tuple[str, str, str, Callable[[Fields, Zone], Any]], ...] = (
    ("change_ttl", PRIMARY, "ttl", lambda fields, zone: read_ttl(fields, required=True) or zone.ttl),
    ("change_protection", "", "protected", lambda fields, zone: fields.flag("delete", zone.protected)),
    ("change_primary_nameservers", SECONDARY, "nameservers", lambda fields, _zone: read_nameservers(fields)),
)


def _setting(command: str, mode: str, field: str, read: Callable[[Fields, Zone], Any]) -> Handler:
    async def change(call: Call) -> Reply:
        zone, fields = _zone_in(call, mode) if mode else ZONES.find(call), call.fields()
        value = read(fields, zone)
        fields.check()
        setattr(zone, field, value)
        call.cloud.store.put(zone)
        return await _published(call, command, zone)

    return change


for _row in _SETTINGS:
    add_operation("POST", f"{_ONE}/actions/{_row[0]}", _setting(*_row))


async def _read_file(
    text: str, zone: str, default_ttl: int, *, whole: bool = True
) -> tuple[int, list[SetDraft]]:
    """The default TTL in seconds, and the record sets of a zone file; ``whole`` requires the default ones.

    Reads the file in a thread, because a file can be long. Raises InvalidInput.
    """
    try:
        return await asyncio.to_thread(_read_checked, text, zone, default_ttl, whole=whole)
    except ZoneFileError as error:
        raise InvalidInput({"zonefile": [str(error)]}) from error


def _read_checked(text: str, zone: str, default_ttl: int, *, whole: bool) -> tuple[int, list[SetDraft]]:
    ttl, drafts = read_zonefile(text, zone, default_ttl)
    problems = (draft_problem(draft, zone) for draft in drafts)
    problem = next(filter(None, problems), "") or together_problem(drafts)
    if problem := problem or (_missing(drafts) if whole else ""):
        raise ZoneFileError(problem)
    return ttl, drafts


def _missing(drafts: list[SetDraft]) -> str:
    at_apex = {draft.type: draft for draft in drafts if draft.name == APEX}
    if "SOA" not in at_apex:
        return "a SOA record must be present"
    servers = {record.value.lower() for record in at_apex["NS"].records} if "NS" in at_apex else set()
    missing = set(NAMESERVERS) - servers
    return f"the assigned nameserver {min(missing)} must be present as an NS record" if missing else ""


def _add_rrset(cloud: Cloud, zone: Zone, draft: SetDraft) -> RrSet:
    if len(cloud.store.lookup("zone_rrsets", zone.id)) >= MAX_RRSETS:
        raise LimitExceeded(f"a zone can't have more than {MAX_RRSETS} RRSets", "rrset_limit")
    rrset = RrSet(
        id=cloud.store.new_id(RrSet),
        project=zone.project,
        name=draft.name,
        labels=draft.labels,
        created=cloud.now(),
        zone=zone.id,
        type=draft.type,
        ttl=draft.ttl,
        records=draft.records,
    )
    cloud.store.put(rrset)
    return rrset


def _fill(cloud: Cloud, zone: Zone, drafts: Iterable[SetDraft]) -> None:
    """Add record sets to a new zone, with the defaults that are missing."""
    wanted = {(draft.name, draft.type): draft for draft in (*_DEFAULTS, *drafts)}
    for draft in wanted.values():
        _add_rrset(cloud, zone, draft)
    _count_change(cloud, zone)


def _check_changeable(rrsets: Iterable[RrSet]) -> None:
    if any(rrset.protected for rrset in rrsets):
        raise Protected("rrset", "change")


def _replace_all(cloud: Cloud, zone: Zone, ttl: int, drafts: Iterable[SetDraft]) -> None:
    present = rrsets_of(cloud.store, zone)
    _check_changeable(present)
    for rrset in present:
        cloud.store.remove(rrset)
    zone.ttl = ttl
    for draft in drafts:
        _add_rrset(cloud, zone, draft)
    _count_change(cloud, zone)


def _count_change(cloud: Cloud, zone: Zone) -> None:
    """Set the next serial number after a change, even if the request set another one in the SOA record."""
    zone.serial = next_serial(zone.serial, timestamp(cloud.now())[:10].replace("-", ""))
    cloud.store.put(zone)
    soa = rrsets_named(cloud.store, zone, APEX)["SOA"]
    soa.records = [Value(with_serial(r.value, zone.serial, zone.name), r.comment) for r in soa.records]
    cloud.store.put(soa)


class _Entry(NamedTuple):
    """A record set in a listing, which is sorted by the ID that the API shows."""

    id: str
    name: str
    created: float
    rrset: RrSet


@operation("GET", _RRSETS)
async def _list_rrsets(call: Call) -> Reply:
    found, query = rrsets_of(call.cloud.store, _zone_in(call, PRIMARY)), call.query
    if unknown := wanted_values(query, "type") - set(TYPES):
        raise InvalidInput({"type": [f"'{min(unknown)}' is not allowed"]})
    found = filter_entries(found, query, {"name": attrgetter("name"), "type": attrgetter("type")})
    # Hetzner's collection for Ansible finds no unlabelled set by key!=value. Of the other resources Hetzner's
    # document says that this finds what doesn't have the label.
    selector = parse_selector(query.get("label_selector", "")).of_present_keys()
    found = [rrset for rrset in found if selector.matches(rrset.labels)]
    entries = [_Entry(f"{r.name}/{r.type}", r.name, r.created, r) for r in found]
    entries = sort_entries(entries, query.getall("sort", []), ("id", "name", "created"))
    return listing(call, "rrsets", entries, lambda entry: rrset_wire(entry.rrset), MAX_PER_PAGE)


@operation("POST", _RRSETS)
async def _create_rrset(call: Call) -> Reply:
    zone, fields = _zone_in(call, PRIMARY), call.fields()
    draft = read_rrset(fields, zone.name)
    fields.check()
    rrset = _add_checked(call, zone, draft)
    _count_change(call.cloud, zone)
    (action,) = await call.wires(_publish(call, "create_rrset", zone))
    return created("rrset", rrset_wire(rrset), action=action)


def _add_checked(call: Call, zone: Zone, draft: SetDraft) -> RrSet:
    beside = rrsets_named(call.cloud.store, zone, draft.name)
    if draft.type in beside:
        raise UniquenessError(f"RRSet {draft.name}/{draft.type} already exists")
    if problem := company_problem(draft.type, set(beside)):
        raise InvalidInput({"type": [problem]})
    return _add_rrset(call.cloud, zone, draft)


def _find_rrset(call: Call) -> tuple[Zone, RrSet]:
    zone, name, kind = _zone_in(call, PRIMARY), call.parameters["rr_name"], call.parameters["rr_type"]
    rrset = rrsets_named(call.cloud.store, zone, name).get(kind)
    if rrset is None:
        raise NotFound("rrset", f"{name}/{kind}")
    return zone, rrset


def _find_changeable(call: Call) -> tuple[Zone, RrSet]:
    zone, rrset = _find_rrset(call)
    _check_changeable([rrset])
    return zone, rrset


@operation("GET", _RRSET)
async def _get_rrset(call: Call) -> Reply:
    return Reply(200, {"rrset": rrset_wire(_find_rrset(call)[1])})


@operation("PUT", _RRSET)
async def _update_rrset(call: Call) -> Reply:
    _, rrset = _find_rrset(call)
    fields = call.fields()
    labels = fields.labels() if "labels" in fields else rrset.labels
    fields.check()
    rrset.labels = labels
    call.cloud.store.put(rrset)
    return Reply(200, {"rrset": rrset_wire(rrset)})


@operation("DELETE", _RRSET)
async def _delete_rrset(call: Call) -> Reply:
    zone, rrset = _find_changeable(call)
    _remove(call, zone, rrset)
    return await _published(call, "delete_rrset", zone)


def _remove(call: Call, zone: Zone, rrset: RrSet) -> None:
    if rrset.type == "SOA":
        raise InvalidInput({"type": ["the SOA record of a zone can't be deleted"]})
    call.cloud.store.remove(rrset)
    _count_change(call.cloud, zone)


def _rrset_action(
    name: str, *, status: int = 201, find: _Find = _find_changeable
) -> Callable[[_Change], _Change]:
    """Register the decorated change of a record set, which must be unprotected, for the POST of an action."""

    def register(change: _Change) -> _Change:
        async def answer(call: Call) -> Reply:
            zone, rrset = find(call)
            change(call, zone, rrset, call.fields())
            return await _published(call, name.replace("_", "_rrset_", 1), zone, status)

        add_operation("POST", f"{_RRSET}/actions/{name}", answer)
        return change

    return register


@_rrset_action("change_protection", find=_find_rrset)
def _change_rrset_protection(call: Call, _zone: Zone, rrset: RrSet, fields: Fields) -> None:
    wanted = fields.flag("change", rrset.protected, required=True)
    fields.check()
    rrset.protected = wanted
    call.cloud.store.put(rrset)


@_rrset_action("change_ttl")
def _change_rrset_ttl(call: Call, zone: Zone, rrset: RrSet, fields: Fields) -> None:
    ttl = read_ttl(fields)
    if "ttl" not in fields.body:
        fields.wrong("ttl", MISSING)
    fields.check()
    rrset.ttl = ttl
    call.cloud.store.put(rrset)
    _count_change(call.cloud, zone)


def _set_values(call: Call, zone: Zone, rrset: RrSet, records: list[Value]) -> None:
    if problem := set_problem(rrset.name, rrset.type, [record.value for record in records], zone.name):
        raise InvalidInput({"records": [problem]})
    rrset.records = records
    call.cloud.store.put(rrset)
    _count_change(call.cloud, zone)


def _checked_records(fields: Fields, *, commented: bool = False) -> list[Value]:
    records = read_records(fields, commented=commented)
    fields.check()
    return records


@_rrset_action("set_records")
def _set_records(call: Call, zone: Zone, rrset: RrSet, fields: Fields) -> None:
    _set_values(call, zone, rrset, _checked_records(fields))


@operation("POST", f"{_RRSET}/actions/add_records")
async def _add_records(call: Call) -> Reply:
    """Add records, and create the record set if it doesn't exist."""
    zone, fields = _zone_in(call, PRIMARY), call.fields()
    name, kind = call.parameters["rr_name"], call.parameters["rr_type"]
    rrset = rrsets_named(call.cloud.store, zone, name).get(kind)
    if rrset is None:
        whole = Fields({**fields.body, "name": name, "type": kind})
        draft = read_rrset(whole, zone.name)
        whole.check()
        _add_checked(call, zone, draft)
        _count_change(call.cloud, zone)
    else:
        _append(call, zone, rrset, fields)
    return await _published(call, "add_rrset_records", zone)


def _append(call: Call, zone: Zone, rrset: RrSet, fields: Fields) -> None:
    _check_changeable([rrset])
    ttl, records = read_ttl(fields), read_records(fields)
    if ttl is not None and ttl != rrset.ttl:
        fields.wrong("ttl", "must be the same as the TTL of the RRSet")
    fields.check()
    if len(rrset.records) + len(records) > MAX_PER_SET:
        raise LimitExceeded(f"an RRSet can't have more than {MAX_PER_SET} records", "rrset_record_limit")
    _set_values(call, zone, rrset, [*rrset.records, *records])


@_rrset_action("remove_records")
def _remove_records(call: Call, zone: Zone, rrset: RrSet, fields: Fields) -> None:
    """Remove records by their values, and the record set with the last one."""
    places = _places(zone, rrset, _checked_records(fields))
    if kept := [record for place, record in enumerate(rrset.records) if place not in places]:
        _set_values(call, zone, rrset, kept)
    else:
        _remove(call, zone, rrset)


@_rrset_action("update_records", status=200)
def _update_records(call: Call, zone: Zone, rrset: RrSet, fields: Fields) -> None:
    """Change the comments of records by their values."""
    wanted = _checked_records(fields, commented=True)
    places = _places(zone, rrset, wanted)
    comments = {place: record.comment for place, record in zip(places, wanted, strict=True)}
    rrset.records = [
        Value(record.value, comments.get(place, record.comment)) for place, record in enumerate(rrset.records)
    ]
    call.cloud.store.put(rrset)


def _places(zone: Zone, rrset: RrSet, wanted: list[Value]) -> list[int]:
    """The index of each wanted record in the set; values are compared as DNS does."""
    places = {read_value(rrset.type, r.value, zone.name): place for place, r in enumerate(rrset.records)}
    found: list[int] = []
    for record in wanted:
        data = read_value(rrset.type, record.value, zone.name)
        if data is None or data not in places:
            raise InvalidInput({"records": [f"RRSet has no record with the value '{record.value[:100]}'"]})
        found.append(places[data])
    return found
