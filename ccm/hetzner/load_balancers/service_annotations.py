"""A Service's annotations, as far as they are ours: sorted and bounded."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ccm.hetzner.load_balancers.truncation import MAX_SHOWN_LENGTH

PREFIX = "load-balancer.hetzner.cloud/"
SHARE = PREFIX + "share"
SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
MAX_ANNOTATIONS_LENGTH = 32768  # characters of all annotations with the prefix; a hundred long domains fit in
# Stands for annotations that are too long to be kept; its value is how many characters they have. Kubernetes
# takes no such name, so it can't come from a tenant.
TOO_LONG = PREFIX + "…"
_MAX_LABEL_LENGTH = 63
_PORT = re.compile(r"port\.(?P<port>[1-9]\d{0,4})\.(?P<key>.+)", re.ASCII)


@dataclass(frozen=True)
class Annotations:
    """Our annotations, sorted once. White space around values is removed, and empty values are left out."""

    whole: Mapping[str, str]  # by key; for the whole Service
    ports: Mapping[int, Mapping[str, str]]  # by port and key; for one port
    # keys with an empty value, which overrides a default of the environment
    emptied: frozenset[str]
    # by annotation, what is wrong; parsers add to it
    problems: dict[str, str] = field(default_factory=dict[str, str])
    # by annotation, its parsed value; parsers add to it. None = it is wrong.
    parsed: dict[str, object] = field(default_factory=dict[str, object])


def sort(annotations: Mapping[str, str]) -> Annotations:
    """Sort annotations; if they are too long, there are none of them, and a problem."""
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
    """The annotations that are read, or only their total length if that is too large. Idempotent."""
    kept = _below_prefix(annotations)
    length = _length_of(kept)
    if length > MAX_ANNOTATIONS_LENGTH:
        # What is shared is worked on by one at a time, also while the annotations of one of them don't count.
        share = kept.get(SHARE, "").strip()
        kept = {TOO_LONG: str(length)}
        if 0 < len(share) <= _MAX_LABEL_LENGTH:
            kept[SHARE] = share
    if SOURCE_RANGES in annotations:
        kept[SOURCE_RANGES] = annotations[SOURCE_RANGES][:MAX_SHOWN_LENGTH]
    return kept


def whole(text: str) -> int | None:
    """A whole number of at most nine digits; None = it isn't one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _below_prefix(annotations: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in annotations.items() if name.startswith(PREFIX)}


def _length_of(annotations: Mapping[str, str]) -> int:
    """Characters of all names and values, as the bound counts them."""
    return sum(len(name) + len(text) for name, text in annotations.items())
