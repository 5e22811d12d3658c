"""What changes the records of a zone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import InvalidInput, LimitExceeded, Protected
from hetzner_emulator.models.zones import NAMESERVERS, RrSet, Value, Zone, rrsets_named, rrsets_of
from hetzner_emulator.resources.zones.names import APEX
from hetzner_emulator.resources.zones.reading import MOST_RRSETS, SetDraft, draft_problem, together_problem
from hetzner_emulator.resources.zones.values import next_serial, with_serial
from hetzner_emulator.resources.zones.zonefile import FileSet, ZoneFileError, read_zonefile
from hetzner_emulator.state.records import timestamp

_SOA = f"{NAMESERVERS[0]} dns.hetzner.com. 0 86400 10800 3600000 3600"
DEFAULTS = (
    SetDraft(APEX, "SOA", None, [Value(_SOA)], {}),
    SetDraft(APEX, "NS", None, [Value(server) for server in NAMESERVERS], {}),
)
"""What every zone has from its start."""


def keep(cloud: Cloud, zone: Zone, draft: SetDraft) -> RrSet:
    """Keep a new record set.

    Raises:
        LimitExceeded: The zone has as many as it may.
    """
    if len(cloud.store.lookup("zone_rrsets", zone.id)) >= MOST_RRSETS:
        raise LimitExceeded(f"a zone can't have more than {MOST_RRSETS} RRSets", "rrset_limit")
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


def fill(cloud: Cloud, zone: Zone, drafts: Iterable[SetDraft]) -> None:
    """Give a new zone these record sets, and those that every zone has where they are not among them."""
    wanted = {(draft.name, draft.type): draft for draft in (*DEFAULTS, *drafts)}
    for draft in wanted.values():
        keep(cloud, zone, draft)
    count_change(cloud, zone)


def check_changeable(rrsets: Iterable[RrSet]) -> None:
    """Refuse to change or remove record sets.

    Raises:
        Protected: One of them is protected against it.
    """
    if any(rrset.protected for rrset in rrsets):
        raise Protected("rrset", "change")


def replace_all(cloud: Cloud, zone: Zone, ttl: int, drafts: Iterable[SetDraft]) -> None:
    """Replace all record sets of a zone.

    Raises:
        Protected: One of them is protected against it.
    """
    present = rrsets_of(cloud.store, zone)
    check_changeable(present)
    for rrset in present:
        cloud.store.remove(rrset)
    zone.ttl = ttl
    for draft in drafts:
        keep(cloud, zone, draft)
    count_change(cloud, zone)


def count_change(cloud: Cloud, zone: Zone) -> None:
    """Give a zone whose records changed the next serial number, whatever its SOA record says."""
    zone.serial = next_serial(zone.serial, timestamp(cloud.now())[:10].replace("-", ""))
    cloud.store.put(zone)
    soa = rrsets_named(cloud.store, zone, APEX)["SOA"]
    soa.records = [Value(with_serial(r.value, zone.serial, zone.name), r.comment) for r in soa.records]
    cloud.store.put(soa)


async def read_file(
    text: str, zone: str, default_ttl: int, *, whole: bool = True
) -> tuple[int, list[SetDraft]]:
    """The default TTL and the record sets of a zone file; read beside the event loop, as it may be long.

    Args:
        text: The file.
        zone: Name of the zone.
        default_ttl: Where the file names none, in seconds.
        whole: Whether it must have what every zone has; a new zone gets that anyway.

    Raises:
        InvalidInput: It is none of this zone, or lacks what it must have.
    """
    try:
        ttl, sets = await asyncio.to_thread(_read_checked, text, zone, default_ttl, whole=whole)
    except ZoneFileError as error:
        raise InvalidInput({"zonefile": [str(error)]}) from error
    return ttl, sets


def _read_checked(text: str, zone: str, default_ttl: int, *, whole: bool) -> tuple[int, list[SetDraft]]:
    ttl, sets = read_zonefile(text, zone, default_ttl)
    drafts = [_draft(one) for one in sets]
    problems = (draft_problem(draft, zone) for draft in drafts)
    problem = next(filter(None, problems), "") or together_problem(drafts)
    if problem := problem or (_missing(drafts) if whole else ""):
        raise ZoneFileError(problem)
    return ttl, drafts


def _draft(one: FileSet) -> SetDraft:
    return SetDraft(one.name, one.type, one.ttl, [Value(*record) for record in one.records], {})


def _missing(drafts: list[SetDraft]) -> str:
    at_apex = {draft.type: draft for draft in drafts if draft.name == APEX}
    if "SOA" not in at_apex:
        return "a SOA record must be present"
    servers = {record.value.lower() for record in at_apex["NS"].records} if "NS" in at_apex else set()
    missing = set(NAMESERVERS) - servers
    return f"the assigned nameserver {min(missing)} must be present as an NS record" if missing else ""
