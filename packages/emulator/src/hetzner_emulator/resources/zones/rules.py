"""Rules for zones: names, values of resource records, and the decoding of requests."""

import base64
import binascii
import re
from collections import Counter
from dataclasses import dataclass, field
from ipaddress import ip_address

import dns.exception
import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype

from hetzner_emulator.models.zones import LEAST_TTL, MAX_TTL, Nameserver, Value
from hetzner_emulator.wire.fields import Fields

APEX = "@"
TSIG_ALGORITHMS = frozenset({"hmac-md5", "hmac-sha1", "hmac-sha256"})
MAX_NAMESERVERS, MAX_RECORDS, MAX_RRSETS = 10, 50, 10_000
MAX_NAME = 253
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
TYPES = (
    "A", "AAAA", "CAA", "CNAME", "DS", "HINFO", "HTTPS", "MX", "NS", "PTR", "RP", "SOA", "SRV", "SVCB",
    "TLSA", "TXT",
)  # fmt: skip
"""The types of DNS record sets that the API supports."""

_ALONE = frozenset({"CNAME", "SOA"})
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"(?:\s+"(?:[^"\\]|\\.)*")*', re.DOTALL)
_IN_QUOTES = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
"""Matches a quoted text, or all text after the opening quote if the closing quote is missing."""
_MAX_VALUE = 65_535
"""Maximum number of characters in a value. A DNS message has the same maximum, in bytes."""


def zone_name_problem(name: str) -> str:
    """Describe what is invalid in the name of a zone; "" if it is valid.

    It doesn't check for public suffixes, because their list changes every week.
    """
    if name.endswith("."):
        return "must not end with a dot"
    if problem := _labels_problem(name.split("."), len(name)):
        return problem
    return "" if "." in name else "must be a domain below a top-level domain"


def rrset_name_problem(name: str, zone: str) -> str:
    """Describe what is invalid in the name of a record set, relative to the zone; "" if it is valid."""
    if name == APEX:
        return ""
    if name.endswith("."):
        return "must not end with a dot"
    if name == zone or name.endswith(f".{zone}"):
        return "must not end with the name of the zone; for the zone itself use '@'"
    labels = name.split(".")
    return _labels_problem(labels[labels[0] == "*" :], len(name) + 1 + len(zone))


def _labels_problem(labels: list[str], length: int) -> str:
    if any(_LABEL.fullmatch(label) is None for label in labels):
        return "must be a domain name in lowercase ASCII; write other characters in Punycode"
    return "is too long" if length > MAX_NAME else ""


def read_value(kind: str, value: str, zone: str) -> dns.rdata.Rdata | None:
    """Parse a value such as ``10 mail.example.com.`` as a name server does; None if it is invalid.

    Names without an ending dot are relative to the zone.
    """
    # The API doesn't have the generic form of types, which starts with \#.
    if (
        len(value) > _MAX_VALUE
        or value.lstrip().startswith("\\#")
        or "\n" in value
        or ";" in _IN_QUOTES.sub("", value)
    ):
        return None
    if kind == "TXT" and _QUOTED.fullmatch(value.strip()) is None:
        return None
    try:
        origin = dns.name.from_text(zone)
        return dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.from_text(kind), value, origin, False)
    except (dns.exception.DNSException, ValueError):
        return None


def set_problem(name: str, kind: str, values: list[str], zone: str) -> str:
    """Describe what is invalid in the values of a record set; "" if they are valid."""
    read = [read_value(kind, value, zone) for value in values]
    for value, data in zip(values, read, strict=True):
        if data is None:
            hint = "; TXT values must be in quotes" if kind == "TXT" else ""
            return f"'{value[:100]}' is not a valid value of type {kind}{hint}"
    if len(set(read)) < len(read):
        return "values must be distinct"
    if kind in _ALONE and len(read) > 1:
        return f"a record set of type {kind} must have exactly one record"
    if kind == "SOA" and name != APEX:
        return "SOA records are allowed only for '@'"
    return "'@' can't have a CNAME record" if (kind, name) == ("CNAME", APEX) else ""


def company_problem(kind: str, others: set[str]) -> str:
    """Describe why a record set can't have other types beside it under its name; "" if it can."""
    if (kind == "CNAME" and others) or "CNAME" in others:
        return "a name with a CNAME record can't have other records"
    return ""


def with_serial(value: str, serial: int, zone: str) -> str:
    """The value of a SOA record with another serial number; raises ValueError if it isn't a SOA record."""
    data = read_value("SOA", value, zone)
    if data is None:
        raise ValueError(f"{value!r} isn't a SOA record")
    return data.replace(serial=serial).to_text()


def next_serial(last: int, day: str) -> int:
    """The serial number after a change on a day: the greater of ``YYYYMMDD00`` and the last one plus 1."""
    return max(last + 1, int(f"{day}00"))


@dataclass(frozen=True)
class SetDraft:
    """A record set in a request or a zone file; ``ttl`` None means the zone's."""

    name: str
    type: str
    ttl: int | None
    records: list[Value]
    labels: dict[str, str] = field(default_factory=dict[str, str])


def read_ttl(fields: Fields, *, required: bool = False) -> int | None:
    """The field ``ttl`` in seconds, or None."""
    return fields.number("ttl", 0, required=required, least=LEAST_TTL, most=MAX_TTL) or None


def read_nameservers(fields: Fields) -> list[Nameserver]:
    """The field ``primary_nameservers``, which must have at least one item."""
    given = fields.objects("primary_nameservers", required=True, most=MAX_NAMESERVERS)
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
    """The field ``records``, without checks of the values; ``commented`` requires comments."""
    given = fields.objects("records", required=True, most=MAX_RECORDS)
    if "records" in fields and not given:
        fields.wrong("records", "must not be empty")
    return [
        Value(
            each.text("value", required=True, longest=_MAX_VALUE),
            each.read("comment", str, "", required=commented)[:_MAX_VALUE],
        )
        for each in given
    ]


def read_rrset(fields: Fields, zone: str) -> SetDraft:
    """Decode a new record set of a zone; ``fields`` collects what is invalid."""
    name, kind = fields.text("name", required=True), fields.choice("type", TYPES, required=True)
    draft = SetDraft(name, kind, read_ttl(fields), read_records(fields), fields.labels())
    if name and (problem := rrset_name_problem(name, zone)):
        fields.wrong("name", problem)
    elif not fields.problems and (problem := draft_problem(draft, zone)):
        fields.wrong("records", problem)
    return draft


def draft_problem(draft: SetDraft, zone: str) -> str:
    """Describe what is invalid in a record set of the zone with this name; "" if it is valid."""
    if problem := rrset_name_problem(draft.name, zone):
        return f"name {draft.name!r}: {problem}"
    if draft.ttl is not None and not LEAST_TTL <= draft.ttl <= MAX_TTL:
        return f"{draft.name}/{draft.type}: the TTL must be between {LEAST_TTL} and {MAX_TTL}"
    return set_problem(draft.name, draft.type, [record.value for record in draft.records], zone)


def read_rrsets(fields: Fields, zone: str) -> list[SetDraft]:
    """The field ``rrsets`` of a new zone."""
    drafts = [read_rrset(each, zone) for each in fields.objects("rrsets", most=MAX_RRSETS)]
    if problem := together_problem(drafts):
        fields.wrong("rrsets", problem)
    return drafts


def together_problem(drafts: list[SetDraft]) -> str:
    """Describe what is invalid in record sets of one zone together; "" if they are valid."""
    if len(drafts) + 2 > MAX_RRSETS:  # SOA and NS are there already
        return f"a zone can't have more than {MAX_RRSETS} RRSets"
    times = Counter((draft.name, draft.type) for draft in drafts)
    if twice := [f"{name}/{kind}" for (name, kind), number in times.items() if number > 1]:
        return f"{twice[0]} occurs more than once"
    types: dict[str, set[str]] = {}
    for draft in drafts:
        types.setdefault(draft.name, set()).add(draft.type)
    for name, kinds in types.items():
        if "CNAME" in kinds and (problem := company_problem("CNAME", kinds - {"CNAME"})):
            return f"{name}: {problem}"
    return ""
