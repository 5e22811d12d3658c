"""Values of resource records, as pure functions: what a name server could serve."""

from __future__ import annotations

import re
from collections.abc import Iterable

import dns.exception
import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype

from hetzner_emulator.resources.zones.names import APEX

TYPES = (
    "A", "AAAA", "CAA", "CNAME", "DS", "HINFO", "HTTPS", "MX", "NS", "PTR", "RP", "SOA", "SRV", "SVCB",
    "TLSA", "TXT",
)  # fmt: skip
"""Types of record sets that the API knows."""

_ALONE = frozenset({"CNAME", "SOA"})
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"(?:\s+"(?:[^"\\]|\\.)*")*', re.DOTALL)
_IN_QUOTES = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
"""One that is not closed reaches to the end, so that no text is looked at twice."""
_LONGEST = 65_535
"""Characters of one value, and of all in a set: what a message of DNS can carry is shorter."""


def read_value(kind: str, value: str, zone: str) -> dns.rdata.Rdata | None:
    """A value as a name server reads it, or None where it is none of this type.

    Args:
        kind: One of :data:`TYPES`.
        value: As in a zone file, for example ``10 mail.example.com.``.
        zone: Name of the zone, to which names without an ending dot are relative.
    """
    # Long values never are any; \# begins any type's generic form, which the API does not have.
    if len(value) > _LONGEST or value.lstrip().startswith("\\#") or "\n" in value or ";" in _unquoted(value):
        return None
    if kind == "TXT" and _QUOTED.fullmatch(value.strip()) is None:
        return None
    try:
        origin = dns.name.from_text(zone)
        return dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.from_text(kind), value, origin, False)
    except (dns.exception.DNSException, ValueError):
        return None


def _unquoted(value: str) -> str:
    return _IN_QUOTES.sub("", value)


def set_problem(name: str, kind: str, values: list[str], zone: str) -> str:
    """What is wrong with the values that a record set is to have together, or "".

    Args:
        name: Of the set, relative to the zone.
        kind: Its type.
        values: All that it is to have.
        zone: Name of the zone.
    """
    if sum(map(len, values)) > _LONGEST:
        return f"the values of a record set can't have more than {_LONGEST} characters together"
    read = [read_value(kind, value, zone) for value in values]
    for value, data in zip(values, read, strict=True):
        if data is None:
            hint = "; TXT values must be in quotes" if kind == "TXT" else ""
            return f"'{value[:100]}' is not a valid value of type {kind}{hint}"
    if len(set(read)) < len(read):
        return "values must be distinct"
    if kind in _ALONE and len(read) > 1:
        return f"a record set of type {kind} has one record"
    if kind == "SOA" and name != APEX:
        return "SOA records are possible for '@' only"
    return "'@' can't have a CNAME record" if (kind, name) == ("CNAME", APEX) else ""


def company_problem(kind: str, others: set[str]) -> str:
    """What is wrong with a record set of a type beside those of other types with the same name, or ""."""
    if (kind == "CNAME" and others) or "CNAME" in others:
        return "a CNAME record can't have others beside it"
    return ""


def places_of(kind: str, values: Iterable[str], wanted: Iterable[str], zone: str) -> list[int | None]:
    """Where in a record set some values are, however they are written; each is read once.

    Args:
        kind: The set's type.
        values: The set's.
        wanted: Those that are looked for.
        zone: Name of the zone.

    Returns:
        For each of the wanted its place, or None where the set has no such value.
    """
    places = {read_value(kind, value, zone): place for place, value in enumerate(values)}
    places.pop(None, None)
    return [places.get(read_value(kind, value, zone)) for value in wanted]


def with_serial(value: str, serial: int, zone: str) -> str:
    """The value of a SOA record with another serial number.

    Raises:
        ValueError: It is no SOA record.
    """
    data = read_value("SOA", value, zone)
    if data is None:
        raise ValueError(f"{value!r} is no SOA record")
    return data.replace(serial=serial).to_text()


def next_serial(last: int, day: str) -> int:
    """The serial number after a change: of the form ``YYYYMMDDnn``, and greater than the last.

    Args:
        last: The one before, or 0.
        day: Of the change, ``YYYYMMDD``.
    """
    return max(last + 1, int(f"{day}00"))
