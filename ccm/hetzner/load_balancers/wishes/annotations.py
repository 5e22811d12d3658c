"""A Service's annotations, as far as they are ours: sorted, bounded, and parsed by the table of keys. Pure.

Nothing here raises, whatever the texts are: an odd value becomes a problem, and counts as not set. What it
costs is bounded: more than :data:`LONGEST_ANNOTATIONS` are not read at all, and each value is parsed once,
for however many ports it counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ccm.hetzner.load_balancers.wishes.table import BY_NAME, PREFIX
from ccm.hetzner.load_balancers.wishes.values import whole
from ccm.hetzner.load_balancers.wording import LONGEST_SHOWN, shown
from ccm.hetzner.settings import LoadBalancerSettings

SHARE = PREFIX + "share"
SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
LONGEST_ANNOTATIONS = 32768  # characters of all annotations with the prefix; a hundred long domains fit in
# Stands for annotations that are too long to be kept; its value is how many characters they have. Kubernetes
# takes no such name, so it can't come from a tenant.
TOO_LONG = PREFIX + "…"
_LONGEST_LABEL = 63
_PORT = re.compile(r"port\.(?P<port>[1-9]\d{0,4})\.(?P<key>.+)", re.ASCII)
_NOTHING: Mapping[str, str] = {}
_DEFAULTS = {
    name: key.kind.parse(key.default) if key.default else key.kind.empty for name, key in BY_NAME.items()
}


@dataclass(frozen=True)
class Annotations:
    """Our annotations, sorted once. White space around values is gone, and so are empty ones.

    Attributes:
        whole: By key, those for the Service.
        ports: By port and key, those for one port.
        emptied: Keys with an empty value, which says more than none where the environment has a default.
        problems: What is wrong, by annotation; whoever parses adds to it.
        parsed: What was parsed, by annotation; whoever parses adds to it. None = it is wrong.
    """

    whole: Mapping[str, str]
    ports: Mapping[int, Mapping[str, str]]
    emptied: frozenset[str]
    problems: dict[str, str] = field(default_factory=dict[str, str])
    parsed: dict[str, object] = field(default_factory=dict[str, object])


class Values:
    """The values that count for the Service, or for one of its ports, by key.

    That is the annotation's; without one the environment's; without that the table's default.

    Args:
        annotations: All of them.
        defaults: What the environment says.
        port: Those of this port win; None = only those for the Service count.
    """

    def __init__(
        self, annotations: Annotations, defaults: LoadBalancerSettings, port: int | None = None
    ) -> None:
        self._annotations = annotations
        self._defaults = defaults
        self._port = port
        self._own = annotations.ports.get(port, _NOTHING) if port is not None else _NOTHING

    def __contains__(self, key: str) -> bool:
        """Whether the key is annotated with something, right or wrong."""
        return key in self._own or key in self._annotations.whole

    def __getitem__(self, key: str) -> Any:
        """The value that counts."""
        for value in (self.annotated(key), self._of_environment(key)):
            if value is not None:
                return value
        return _DEFAULTS[key]

    def annotated(self, key: str) -> Any:
        """The annotation's value; None = there is none, or a wrong one, which is noted as a problem."""
        found = self._find(key)
        if found is None:
            return None
        name, text = found
        parsed, kind = self._annotations.parsed, BY_NAME[key].kind
        if name not in parsed:
            parsed[name] = kind.parse(text)
            if parsed[name] is None:
                self._annotations.problems[name] = f"{name}: {shown(text)} is not {kind.allowed}"
        return parsed[name]

    def is_asked(self, key: str) -> bool:
        """Whether the owner or the environment says anything, so that it is no mere default."""
        return key in self or self._of_environment(key) is not None

    def refuse(self, key: str, why: str) -> None:
        """Note a problem that only shows when several keys are looked at."""
        name, value = self._find(key) or (PREFIX + key, "")
        self._annotations.problems[name] = f"{name}: {shown(value)} {why}"

    def _of_environment(self, key: str) -> object:
        variable = BY_NAME[key].variable
        value = getattr(self._defaults, variable.lower()) if variable else None
        return None if value == "" else round(value) if isinstance(value, float) else value

    def _find(self, key: str) -> tuple[str, str] | None:
        if key in self._own:
            return f"{PREFIX}port.{self._port}.{key}", self._own[key]
        text = self._annotations.whole.get(key)
        return None if text is None else (PREFIX + key, text)


def sort(annotations: Mapping[str, str]) -> Annotations:
    """Sort annotations; if they are too long, there are none of them, and a problem."""
    ours = _below_prefix(annotations)
    length = whole(ours.get(TOO_LONG, "")) or _length_of(ours)
    if length > LONGEST_ANNOTATIONS:
        text = (
            f"{PREFIX}…: these annotations have {length} characters, at most {LONGEST_ANNOTATIONS} are read; "
            "none of them counts"
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
    """Those that are read; of too many only that they were too many, and how many.

    Args:
        annotations: A Service's, as the API server sent them or as this function returned them.
    """
    kept = _below_prefix(annotations)
    length = _length_of(kept)
    if length > LONGEST_ANNOTATIONS:
        # What is shared is worked on by one at a time, also while the annotations of one of them don't count.
        share = kept.get(SHARE, "").strip()
        kept = {TOO_LONG: str(length)}
        if 0 < len(share) <= _LONGEST_LABEL:
            kept[SHARE] = share
    if SOURCE_RANGES in annotations:
        kept[SOURCE_RANGES] = annotations[SOURCE_RANGES][:LONGEST_SHOWN]
    return kept


def _below_prefix(annotations: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in annotations.items() if name.startswith(PREFIX)}


def _length_of(annotations: Mapping[str, str]) -> int:
    """Characters of all names and values, as the bound counts them."""
    return sum(len(name) + len(text) for name, text in annotations.items())
