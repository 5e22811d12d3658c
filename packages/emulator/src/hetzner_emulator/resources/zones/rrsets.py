"""Operations on the record sets of a zone."""

from __future__ import annotations

from operator import attrgetter

from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import created, listing
from hetzner_emulator.errors import InvalidInput, LimitExceeded, NotFound, UniquenessError
from hetzner_emulator.models.zones import (
    PRIMARY,
    RrSet,
    Value,
    Zone,
    rrset_wire,
    rrsets_named,
    rrsets_of,
)
from hetzner_emulator.resources.zones.changes import check_changeable, count_change, keep
from hetzner_emulator.resources.zones.reading import SetDraft, read_records, read_rrset, read_ttl
from hetzner_emulator.resources.zones.resource import publish, published, zone_in
from hetzner_emulator.resources.zones.values import TYPES, company_problem, places_of, set_problem
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.labels import parse_selector
from hetzner_emulator.wire.pagination import filter_entries, sort_entries, wanted_values
from hetzner_emulator.wire.reply import Reply

MAXIMUM_PER_PAGE = 100
MOST_IN_ONE = 500
"""Records in one set: a bound of the sandbox."""

_ALL = "/zones/{id_or_name}/rrsets"
_ONE = f"{_ALL}/{{rr_name}}/{{rr_type}}"


class _Entry:
    """A record set in a listing, which is sorted by the id that the API shows."""

    def __init__(self, rrset: RrSet) -> None:
        self.id = f"{rrset.name}/{rrset.type}"
        self.name, self.created, self.rrset = rrset.name, rrset.created, rrset


@operation("GET", _ALL)
async def list_rrsets(call: Call) -> Reply:
    """Those of a zone."""
    found, query = rrsets_of(call.cloud.store, zone_in(call, PRIMARY)), call.query
    if unknown := wanted_values(query, "type") - set(TYPES):
        raise InvalidInput({"type": [f"'{min(unknown)}' is not allowed"]})
    found = filter_entries(found, query, {"name": attrgetter("name"), "type": attrgetter("type")})
    # Hetzner's collection for Ansible finds no unlabelled set by key!=value. Of the other resources Hetzner's
    # document says that this finds what doesn't have the label.
    selector = parse_selector(query.get("label_selector", "")).of_present_keys()
    found = [rrset for rrset in found if selector.matches(rrset.labels)]
    entries = sort_entries([_Entry(r) for r in found], query.getall("sort", []), ("id", "name", "created"))
    return listing(call, "rrsets", entries, lambda entry: rrset_wire(entry.rrset), MAXIMUM_PER_PAGE)


@operation("POST", _ALL)
async def create(call: Call) -> Reply:
    """Add a record set."""
    zone, fields = zone_in(call, PRIMARY), call.fields()
    draft = read_rrset(fields, zone.name)
    fields.check()
    rrset = _add(call, zone, draft)
    count_change(call.cloud, zone)
    (action,) = await call.wires(publish(call, "create_rrset", zone))
    return created("rrset", rrset_wire(rrset), action=action)


def _add(call: Call, zone: Zone, draft: SetDraft) -> RrSet:
    beside = rrsets_named(call.cloud.store, zone, draft.name)
    if draft.type in beside:
        raise UniquenessError(f"RRSet {draft.name}/{draft.type} already exists")
    if problem := company_problem(draft.type, set(beside)):
        raise InvalidInput({"type": [problem]})
    return keep(call.cloud, zone, draft)


def _find(call: Call) -> tuple[Zone, RrSet]:
    zone, name, kind = zone_in(call, PRIMARY), call.parameters["rr_name"], call.parameters["rr_type"]
    rrset = rrsets_named(call.cloud.store, zone, name).get(kind)
    if rrset is None:
        raise NotFound("rrset", f"{name}/{kind}")
    return zone, rrset


def _find_changeable(call: Call) -> tuple[Zone, RrSet]:
    zone, rrset = _find(call)
    check_changeable([rrset])
    return zone, rrset


@operation("GET", _ONE)
async def get(call: Call) -> Reply:
    """One of them."""
    return Reply(200, {"rrset": rrset_wire(_find(call)[1])})


@operation("PUT", _ONE)
async def update(call: Call) -> Reply:
    """Change its labels."""
    _, rrset = _find(call)
    fields = call.fields()
    labels = fields.labels() if "labels" in fields else rrset.labels
    fields.check()
    rrset.labels = labels
    call.cloud.store.put(rrset)
    return Reply(200, {"rrset": rrset_wire(rrset)})


@operation("DELETE", _ONE)
async def delete(call: Call) -> Reply:
    """Remove it; a zone keeps its SOA record."""
    zone, rrset = _find_changeable(call)
    _remove(call, zone, rrset)
    return await published(call, "delete_rrset", zone)


def _remove(call: Call, zone: Zone, rrset: RrSet) -> None:
    if rrset.type == "SOA":
        raise InvalidInput({"type": ["the SOA record of a zone can't be deleted"]})
    call.cloud.store.remove(rrset)
    count_change(call.cloud, zone)


@operation("POST", f"{_ONE}/actions/change_protection")
async def change_protection(call: Call) -> Reply:
    """Protect it against changes, or not."""
    zone, rrset = _find(call)
    fields = call.fields()
    wanted = fields.flag("change", rrset.protected, required=True)
    fields.check()
    rrset.protected = wanted
    call.cloud.store.put(rrset)
    return await published(call, "change_rrset_protection", zone)


@operation("POST", f"{_ONE}/actions/change_ttl")
async def change_ttl(call: Call) -> Reply:
    """Change its TTL; without one the zone's counts."""
    zone, rrset = _find_changeable(call)
    fields = call.fields()
    ttl = read_ttl(fields)
    if "ttl" not in fields.body:
        fields.wrong("ttl", "Missing data for required field.")
    fields.check()
    rrset.ttl = ttl
    call.cloud.store.put(rrset)
    count_change(call.cloud, zone)
    return await published(call, "change_rrset_ttl", zone)


def _set_values(call: Call, zone: Zone, rrset: RrSet, records: list[Value]) -> None:
    if problem := set_problem(rrset.name, rrset.type, [record.value for record in records], zone.name):
        raise InvalidInput({"records": [problem]})
    rrset.records = records
    call.cloud.store.put(rrset)
    count_change(call.cloud, zone)


def _read_checked_records(call: Call, *, commented: bool = False) -> list[Value]:
    fields = call.fields()
    records = read_records(fields, commented=commented)
    fields.check()
    return records


@operation("POST", f"{_ONE}/actions/set_records")
async def set_records(call: Call) -> Reply:
    """Replace all its records."""
    zone, rrset = _find_changeable(call)
    _set_values(call, zone, rrset, _read_checked_records(call))
    return await published(call, "set_rrset_records", zone)


@operation("POST", f"{_ONE}/actions/add_records")
async def add_records(call: Call) -> Reply:
    """Add records; a record set that is not there is made."""
    zone, fields = zone_in(call, PRIMARY), call.fields()
    name, kind = call.parameters["rr_name"], call.parameters["rr_type"]
    rrset = rrsets_named(call.cloud.store, zone, name).get(kind)
    if rrset is None:
        whole = Fields({**fields.body, "name": name, "type": kind})
        draft = read_rrset(whole, zone.name)
        whole.check()
        _add(call, zone, draft)
        count_change(call.cloud, zone)
    else:
        _append(call, zone, rrset, fields)
    return await published(call, "add_rrset_records", zone)


def _append(call: Call, zone: Zone, rrset: RrSet, fields: Fields) -> None:
    check_changeable([rrset])
    ttl, records = read_ttl(fields), read_records(fields)
    if ttl is not None and ttl != rrset.ttl:
        fields.wrong("ttl", "must be the same as the TTL of the RRSet")
    fields.check()
    if len(rrset.records) + len(records) > MOST_IN_ONE:
        raise LimitExceeded(f"an RRSet can't have more than {MOST_IN_ONE} records", "rrset_record_limit")
    _set_values(call, zone, rrset, [*rrset.records, *records])


@operation("POST", f"{_ONE}/actions/remove_records")
async def remove_records(call: Call) -> Reply:
    """Remove records by their values; a record set without any goes."""
    zone, rrset = _find_changeable(call)
    places = _places(zone, rrset, _read_checked_records(call))
    kept = [record for place, record in enumerate(rrset.records) if place not in places]
    if kept:
        _set_values(call, zone, rrset, kept)
    else:
        _remove(call, zone, rrset)
    return await published(call, "remove_rrset_records", zone)


@operation("POST", f"{_ONE}/actions/update_records")
async def update_records(call: Call) -> Reply:
    """Change the comments of records, which their values name."""
    zone, rrset = _find_changeable(call)
    wanted = _read_checked_records(call, commented=True)
    comments = {
        place: record.comment for place, record in zip(_places(zone, rrset, wanted), wanted, strict=True)
    }
    rrset.records = [
        Value(record.value, comments.get(place, record.comment)) for place, record in enumerate(rrset.records)
    ]
    call.cloud.store.put(rrset)
    return await published(call, "update_rrset_records", zone, 200)


def _places(zone: Zone, rrset: RrSet, wanted: list[Value]) -> list[int]:
    values = [record.value for record in rrset.records]
    places: list[int] = []
    found = places_of(rrset.type, values, (record.value for record in wanted), zone.name)
    for record, place in zip(wanted, found, strict=True):
        if place is None:
            raise InvalidInput({"records": [f"RRSet has no record with the value '{record.value[:100]}'"]})
        places.append(place)
    return places
