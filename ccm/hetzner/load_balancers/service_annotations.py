"""Sorts a Service's annotations with our prefix, and limits their length."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ccm.hetzner.load_balancers.truncation import MAX_SHOWN_LENGTH

PREFIX = "load-balancer.hetzner.cloud/"
SHARE = PREFIX + "share"
SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
MAX_ANNOTATIONS_LENGTH = 32768  # characters of all annotations with the prefix; fits 100 long domains
# Replaces annotations that are too long. The value is their number of characters. The API server doesn't
# accept this name, so a tenant can't set it.
TOO_LONG = PREFIX + "…"
_MAX_LABEL_LENGTH = 63
_PORT = re.compile(r"port\.(?P<port>[1-9]\d{0,4})\.(?P<key>.+)", re.ASCII)


@dataclass(frozen=True)
class Annotations:
    """Sorted annotations. White space around values is removed; empty values are omitted."""

    whole: Mapping[str, str]  # by key; for the whole Service
    ports: Mapping[int, Mapping[str, str]]  # by port and key; for one port
    # keys with an empty value, which overrides a default of the environment
    emptied: frozenset[str]
    # problems by annotation; parsers add entries
    problems: dict[str, str] = field(default_factory=dict[str, str])
    # parsed values by annotation; parsers add entries. None = invalid.
    parsed: dict[str, object] = field(default_factory=dict[str, object])


def sort(annotations: Mapping[str, str]) -> Annotations:
    """Sort annotations. If they are too long, the result has only a problem."""
    ours = _below_prefix(annotations)
    length = whole(ours.get(TOO_LONG, "")) or _length_of(ours)
    if length > MAX_ANNOTATIONS_LENGTH:
        text = (
            f"{PREFIX}…: the annotations with this prefix have {length} characters in total. The limit "
            f"is {MAX_ANNOTATIONS_LENGTH} characters, so the CCM ignores all these annotations"
        )
        return Annotations({}, {}, frozenset(), {PREFIX: text})
    of_service: dict[str, str] = {}
    ports: dict[int, dict[str, str]] = {}
    emptied: set[str] = set()
    for name, value in ours.items():
        key, text = name.removeprefix(PREFIX), value.strip()
        match = _PORT.fullmatch(key)
        if not text:
            emptied.add(key)
        elif match is None:
            of_service[key] = text
        else:
            ports.setdefault(int(match["port"]), {})[match["key"]] = text
    return Annotations(of_service, ports, frozenset(emptied))


def annotations_to_keep(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """The annotations that we use, or only their total length if it is too large. Idempotent."""
    kept = _below_prefix(annotations)
    length = _length_of(kept)
    if length > MAX_ANNOTATIONS_LENGTH:
        # Keep SHARE, because the locks of shared load balancers need it even if annotations are ignored.
        share = kept.get(SHARE, "").strip()
        kept = {TOO_LONG: str(length)}
        if 0 < len(share) <= _MAX_LABEL_LENGTH:
            kept[SHARE] = share
    if SOURCE_RANGES in annotations:
        kept[SOURCE_RANGES] = annotations[SOURCE_RANGES][:MAX_SHOWN_LENGTH]
    return kept


def whole(text: str) -> int | None:
    """Parse a whole number of at most nine digits; None = invalid."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _below_prefix(annotations: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in annotations.items() if name.startswith(PREFIX)}


def _length_of(annotations: Mapping[str, str]) -> int:
    """The number of characters of all names and values."""
    return sum(len(name) + len(text) for name, text in annotations.items())
