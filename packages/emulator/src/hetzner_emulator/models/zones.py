"""The records of zones and of their record sets."""

from typing import Any, ClassVar

import msgspec

from hetzner_emulator.cloud import Cloud
from hetzner_emulator.state.records import Indexes, Record, record
from hetzner_emulator.state.store import Store

NAMESERVERS = ("hydrogen.ns.hetzner.com.", "oxygen.ns.hetzner.com.", "helium.ns.hetzner.de.")
"""Hetzner's name servers. Hetzner assigns every zone to these name servers."""

PRIMARY, SECONDARY = "primary", "secondary"
DEFAULT_TTL, LEAST_TTL, MAX_TTL = 3600, 60, 2**31 - 1


class Nameserver(msgspec.Struct, frozen=True):
    """A server that a secondary zone is transferred from."""

    address: str
    port: int = 53
    tsig_key: str = ""
    tsig_algorithm: str = ""


class Value(msgspec.Struct, frozen=True, omit_defaults=True):
    """One resource record of a set."""

    value: str
    comment: str = ""


@record
class Zone(Record):
    """A domain; ``serial`` is the number of its last change."""

    KIND: ClassVar[str] = "zone"
    FIRST_ID: ClassVar[int] = 10_000_001
    INDEXES: ClassVar[Indexes] = {"zone_name": lambda zone: [zone.name]}

    mode: str
    ttl: int = DEFAULT_TTL
    nameservers: list[Nameserver] = msgspec.field(default_factory=list)
    protected: bool = False
    serial: int = 0


@record
class RrSet(Record):
    """The resource records of one name and type; ``ttl`` None means the zone's."""

    KIND: ClassVar[str] = "zone_rrset"
    FIRST_ID: ClassVar[int] = 11_000_001
    INDEXES: ClassVar[Indexes] = {
        "zone_rrsets": lambda rrset: [rrset.zone],
        "zone_rrsets_named": lambda rrset: [(rrset.zone, rrset.name)],
    }

    zone: int
    type: str
    ttl: int | None = None
    records: list[Value] = msgspec.field(default_factory=list)
    protected: bool = False


def rrsets_of(store: Store, zone: Zone) -> list[RrSet]:
    """All record sets of a zone."""
    return [found for found in store.lookup("zone_rrsets", zone.id) if isinstance(found, RrSet)]


def rrsets_named(store: Store, zone: Zone, name: str) -> dict[str, RrSet]:
    """The record sets of a zone with one name, by their type."""
    found = store.lookup("zone_rrsets_named", (zone.id, name))
    return {rrset.type: rrset for rrset in found if isinstance(rrset, RrSet)}


def zone_wire(cloud: Cloud, zone: Zone) -> dict[str, Any]:
    """The zone as the API shows it; no name server has it, so it has no delegation."""
    return {
        **zone.common_wire("mode", "ttl"),
        "status": "ok",
        "record_count": sum(len(rrset.records) for rrset in rrsets_of(cloud.store, zone)),
        "protection": {"delete": zone.protected},
        "authoritative_nameservers": {
            "assigned": list(NAMESERVERS),
            "delegated": [],
            # as at Hetzner before the first health check
            "delegation_last_check": None,
            "delegation_status": "unknown",
        },
        "registrar": "other",
        "primary_nameservers": [
            {name: value for name, value in msgspec.structs.asdict(server).items() if value}
            for server in zone.nameservers
        ],
    }


def rrset_wire(rrset: RrSet) -> dict[str, Any]:
    """The record set as the API shows it."""
    return {
        "id": f"{rrset.name}/{rrset.type}",
        "name": rrset.name,
        "type": rrset.type,
        "ttl": rrset.ttl,
        "labels": rrset.labels,
        "protection": {"change": rrset.protected},
        "records": msgspec.to_builtins(rrset.records),
        "zone": rrset.zone,
    }
