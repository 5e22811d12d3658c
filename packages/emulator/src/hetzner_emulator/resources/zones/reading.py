"""Reads the bodies of requests about zones and their record sets."""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from dataclasses import dataclass
from ipaddress import ip_address

from hetzner_emulator.models.zones import LEAST_TTL, MOST_TTL, Nameserver, Value
from hetzner_emulator.resources.zones.names import rrset_name_problem
from hetzner_emulator.resources.zones.values import TYPES, company_problem, set_problem
from hetzner_emulator.wire.fields import Fields

TSIG_ALGORITHMS = frozenset({"hmac-md5", "hmac-sha1", "hmac-sha256"})
MOST_NAMESERVERS, MOST_RECORDS, MOST_RRSETS = 10, 50, 10_000
_LONGEST_VALUE = 65_535


@dataclass(frozen=True)
class SetDraft:
    """A record set that a request or a file asks for; ``ttl`` None: the zone's."""

    name: str
    type: str
    ttl: int | None
    records: list[Value]
    labels: dict[str, str]


def read_ttl(fields: Fields, *, required: bool = False) -> int | None:
    """The field ``ttl`` in seconds, or None."""
    return fields.number("ttl", 0, required=required, least=LEAST_TTL, most=MOST_TTL) or None


def read_nameservers(fields: Fields) -> list[Nameserver]:
    """The field ``primary_nameservers``, which must name one at least."""
    given = fields.objects("primary_nameservers", required=True, most=MOST_NAMESERVERS)
    if "primary_nameservers" in fields and not given:
        fields.wrong("primary_nameservers", "must not be empty")
    return [_read_nameserver(each) for each in given]


def _read_nameserver(fields: Fields) -> Nameserver:
    address, key = fields.text("address", required=True), fields.text("tsig_key", longest=1024)
    if address and not _is_address(address):
        fields.wrong("address", f"'{address}' is not a valid IP address")
    try:
        base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        fields.wrong("tsig_key", "must be base64 encoded")
    algorithm = fields.choice("tsig_algorithm", TSIG_ALGORITHMS)
    return Nameserver(address, fields.number("port", 53, least=1, most=65535), key, algorithm)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def read_records(fields: Fields, *, commented: bool = False) -> list[Value]:
    """The field ``records``; whether their values fit the type is not asked here.

    Args:
        fields: Of the body.
        commented: Each must have a comment.
    """
    given = fields.objects("records", required=True, most=MOST_RECORDS)
    if "records" in fields and not given:
        fields.wrong("records", "must not be empty")
    return [
        Value(
            each.text("value", required=True, longest=_LONGEST_VALUE),
            each.read("comment", str, "", required=commented)[:_LONGEST_VALUE],
        )
        for each in given
    ]


def read_rrset(fields: Fields, zone: str) -> SetDraft:
    """A new record set, whose problems are collected in ``fields``.

    Args:
        fields: Of the set.
        zone: Name of its zone.
    """
    name, kind = fields.text("name", required=True), fields.choice("type", TYPES, required=True)
    draft = SetDraft(name, kind, read_ttl(fields), read_records(fields), fields.labels())
    if name and (problem := rrset_name_problem(name, zone)):
        fields.wrong("name", problem)
    elif not fields.problems and (problem := draft_problem(draft, zone)):
        fields.wrong("records", problem)
    return draft


def draft_problem(draft: SetDraft, zone: str) -> str:
    """What is wrong with a record set in the zone of this name, or ""."""
    if problem := rrset_name_problem(draft.name, zone):
        return f"name {draft.name!r}: {problem}"
    if draft.ttl is not None and not LEAST_TTL <= draft.ttl <= MOST_TTL:
        return f"{draft.name}/{draft.type}: the TTL must be between {LEAST_TTL} and {MOST_TTL}"
    return set_problem(draft.name, draft.type, [record.value for record in draft.records], zone)


def read_rrsets(fields: Fields, zone: str) -> list[SetDraft]:
    """The field ``rrsets`` of a new zone."""
    drafts = [read_rrset(each, zone) for each in fields.objects("rrsets", most=MOST_RRSETS)]
    if problem := together_problem(drafts):
        fields.wrong("rrsets", problem)
    return drafts


def together_problem(drafts: list[SetDraft]) -> str:
    """What is wrong with record sets beside each other, or ""."""
    if len(drafts) + 2 > MOST_RRSETS:  # every zone has two of its own
        return f"a zone can't have more than {MOST_RRSETS} RRSets"
    times = Counter((draft.name, draft.type) for draft in drafts)
    if twice := [f"{name}/{kind}" for (name, kind), number in times.items() if number > 1]:
        return f"{twice[0]} is there more than once"
    types: dict[str, set[str]] = {}
    for draft in drafts:
        types.setdefault(draft.name, set()).add(draft.type)
    for name, kinds in types.items():
        if "CNAME" in kinds and (problem := company_problem("CNAME", kinds - {"CNAME"})):
            return f"{name}: {problem}"
    return ""
