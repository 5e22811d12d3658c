"""Zone files of BIND (RFC 1034 and 1035), reading and writing."""

import re
from collections.abc import Iterable

import dns.exception
import dns.name
import dns.rdataclass
import dns.rdatatype
import dns.tokenizer
import dns.zone
import dns.zonefile
from dns.rdataset import Rdataset

from hetzner_emulator.models.zones import RrSet, Value
from hetzner_emulator.resources.zones.rules import APEX, TYPES, SetDraft

_ORIGIN = re.compile(r"^\$ORIGIN[ \t]+(\S+)", re.MULTILINE | re.IGNORECASE)


class ZoneFileError(Exception):
    """The text isn't a file of this zone; the message has the place and the reason."""


def read_zonefile(text: str, zone: str, default_ttl: int) -> tuple[int, list[SetDraft]]:
    """Parse a zone file: the default TTL in seconds, and the record sets.

    Of the directives, ``$ORIGIN`` (of this zone) and ``$TTL`` are allowed. Raises ZoneFileError.
    """
    for origin in _ORIGIN.findall(text):
        if origin.lower() != f"{zone}.":
            raise ZoneFileError(f"$ORIGIN must be '{zone}.'")
    apex = dns.name.from_text(zone)
    content = dns.zone.Zone(apex, relativize=False)
    try:
        with content.writer(replacement=True) as transaction:
            tokens = dns.tokenizer.Tokenizer(text, "zonefile")
            reader = dns.zonefile.Reader(
                tokens,
                dns.rdataclass.IN,
                transaction,
                allow_directives={"ORIGIN", "TTL"},
                default_ttl=default_ttl,
            )
            reader.read()
    except (dns.exception.DNSException, ValueError) as error:
        raise ZoneFileError(str(error) or type(error).__name__) from error
    default = reader.default_ttl
    return default, [_file_set(name, found, apex, default) for name, found in content.iterate_rdatasets()]


def _file_set(name: dns.name.Name, found: Rdataset, apex: dns.name.Name, default: int) -> SetDraft:
    kind = dns.rdatatype.to_text(found.rdtype)
    if kind not in TYPES:
        raise ZoneFileError(f"records of type {kind} are not supported")
    return SetDraft(
        name=name.relativize(apex).to_text().lower(),
        type=kind,
        ttl=None if found.ttl == default else found.ttl,
        records=[Value(data.to_text(), (data.rdcomment or "").strip()) for data in found],
    )


def write_zonefile(zone: str, ttl: int, sets: Iterable[SetDraft | RrSet]) -> str:
    """The file of a zone: the SOA record, the other records of the apex, then all other record sets."""
    lines = [f"$ORIGIN\t{zone}.", f"$TTL\t{ttl}", ""]
    for one in sorted(sets, key=lambda s: (s.name != APEX, s.name, s.type != "SOA", s.type)):
        for record in one.records:
            fields = [one.name, "IN", *([] if one.ttl is None else [str(one.ttl)]), one.type, record.value]
            text = " ".join(record.comment.splitlines())  # a second line would be a record
            lines.append("\t".join(fields) + (f" ; {text}" if text else ""))
    return "\n".join(lines) + "\n"
