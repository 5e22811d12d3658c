"""Typed access to a Service's annotations; collects everything that is wrong with them.

Nothing here raises, whatever the texts are: an odd value becomes a problem, and counts as not set. What it
costs is bounded: annotations may have 256 KiB, and all tenants together have one event loop. So more than
:data:`LONGEST_ANNOTATIONS` are not read at all, each value is parsed once, for however many ports it counts,
and lists have at most :data:`MOST_ITEMS` items.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address, ip_network
from typing import TypeVar, cast

from ccm.hetzner.load_balancers import selector
from ccm.hetzner.load_balancers.selector import Selector
from ccm.hetzner.load_balancers.wording import shown
from ccm.hetzner.settings.variables import parse_bool, parse_duration

PREFIX = "load-balancer.hetzner.cloud/"
LONGEST_ANNOTATIONS = 32768  # characters of all annotations with the prefix; a hundred long domains fit in
LONGEST_SELECTOR = 4096
# Stands for annotations that are too long to be kept; its value is how many characters they have. Kubernetes
# takes no such name, so it can't come from a tenant.
TOO_LONG = PREFIX + "…"
MOST_ITEMS = 100  # of a list; Let's Encrypt takes so many domains, the largest type half as many certificates
_PORT = re.compile(r"port\.(?P<port>[1-9]\d{0,4})\.(?P<key>.+)", re.ASCII)
_STATUS_CODE = re.compile(r"[1-5?][0-9?]{2}|(?=[0-9?]*\*)[0-9?*]{1,3}")
_DOMAIN = re.compile(
    r"(?=.{1,253}$)(\*\.)?([A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.?"
)
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_KEY = re.compile(rf"(?:(?P<prefix>[a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?)/)?{_LABEL.pattern}")
# Prefixes that Hetzner, the official CCM and we keep for ourselves.
_RESERVED = ("hetzner.cloud", "hcloud-ccm", "ccm-from-scratch")

_NOTHING: Mapping[str, str] = {}

T = TypeVar("T")


@dataclass(frozen=True)
class Texts:
    """Our annotations, sorted once. White space around values is gone, and so are empty ones.

    Attributes:
        whole: By key, those for the Service.
        ports: By port and key, those for one port.
        emptied: Keys with an empty value, which says more than none where the environment has a default.
        problems: What is wrong, by annotation; readers add to it.
        parsed: What was parsed, by annotation; readers add to it. None = it is wrong.
    """

    whole: Mapping[str, str]
    ports: Mapping[int, Mapping[str, str]]
    emptied: frozenset[str]
    problems: dict[str, str] = field(default_factory=dict[str, str])
    parsed: dict[str, object] = field(default_factory=dict[str, object])


def below_prefix(annotations: Mapping[str, str]) -> dict[str, str]:
    """Those that are ours."""
    return {name: text for name, text in annotations.items() if name.startswith(PREFIX)}


def length_of(annotations: Mapping[str, str]) -> int:
    """Characters of all names and values, as the bound counts them."""
    return sum(len(name) + len(text) for name, text in annotations.items())


def sort(annotations: Mapping[str, str]) -> Texts:
    """Sort annotations; if they are too long, there are none of them, and a problem."""
    ours = below_prefix(annotations)
    length = _whole(ours.get(TOO_LONG, "")) or length_of(ours)
    if length > LONGEST_ANNOTATIONS:
        text = (
            f"{PREFIX}…: these annotations have {length} characters, at most {LONGEST_ANNOTATIONS} are read; "
            "none of them counts"
        )
        return Texts({}, {}, frozenset(), {PREFIX: text})
    whole: dict[str, str] = {}
    ports: dict[int, dict[str, str]] = {}
    emptied: set[str] = set()
    for name, value in ours.items():
        key, text = name.removeprefix(PREFIX), value.strip()
        match = _PORT.fullmatch(key)
        if not text:
            emptied.add(key)
        elif match is None:
            whole[key] = text
        else:
            ports.setdefault(int(match["port"]), {})[match["key"]] = text
    return Texts(whole, ports, frozenset(emptied))


class Reader:
    """The annotations that count for the Service, or for one of its ports.

    Args:
        texts: All annotations.
        port: Those of this port win; None = only those for the Service count.
    """

    def __init__(self, texts: Texts, port: int | None = None) -> None:
        self._texts = texts
        self._port = port
        self._own = texts.ports.get(port, _NOTHING) if port is not None else _NOTHING
        self.problems = texts.problems

    def has(self, key: str) -> bool:
        """Whether the key is set to something."""
        return key in self._own or key in self._texts.whole

    def is_emptied(self, key: str) -> bool:
        """Whether the key is there, with an empty value."""
        return key in self._texts.emptied

    def text(self, key: str, default: str = "", *, longest: int = 256) -> str:
        """Any text; white space around it is dropped, and an empty one counts as not set."""
        allowed = f"at most {longest} characters"
        return self._read(key, default, allowed, lambda text: text if len(text) <= longest else None)

    def boolean(self, key: str, *, default: bool) -> bool:
        """A boolean."""
        value = self.optional_boolean(key, default=default)
        return default if value is None else value

    def optional_boolean(self, key: str, *, default: bool | None = None) -> bool | None:
        """A boolean, or None if it is not set."""
        return self._read(key, default, "true or false", lambda text: parse_bool(text.lower()))

    def integer(self, key: str, default: int | None, lowest: int, highest: int) -> int | None:
        """A whole number."""

        def parse(text: str) -> int | None:
            number = _whole(text)
            return number if number is not None and lowest <= number <= highest else None

        return self._read(key, default, f"a whole number from {lowest} to {highest}", parse)

    def seconds(self, key: str, default: int, lowest: int, highest: int) -> int:
        """A number of seconds, or a duration like ``15s`` or ``1m``."""

        def parse(text: str) -> int | None:
            # The API counts in whole seconds; the official CCM drops what is beyond, as it does in Go.
            seconds = parse_duration(text) if len(text) < 40 else None
            return int(seconds) if seconds is not None and lowest <= int(seconds) <= highest else None

        allowed = f"{lowest} to {highest} seconds, as a number or as a duration like {lowest}s"
        return self._read(key, default, allowed, parse)

    def choice(self, key: str, allowed: Collection[str], default: str) -> str:
        """One of several words, in upper or lower case."""

        def parse(text: str) -> str | None:
            return text.lower() if text.lower() in allowed else None

        return self._read(key, default, " or ".join(allowed), parse)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list with commas; white space and empty items are dropped, and repetitions."""
        return self._read(key, (), f"a list of at most {MOST_ITEMS} with commas", _split)

    def status_codes(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A list of HTTP status codes, with ``?`` for any digit."""

        def parse(text: str) -> tuple[str, ...] | None:
            codes = _split(text) or ()
            good = 0 < len(codes) <= 20 and all(_STATUS_CODE.fullmatch(code) for code in codes)
            return codes if good else None

        return self._read(key, default, "up to 20 status codes like 200, 2?? or 2*, with commas", parse)

    def domains(self, key: str) -> tuple[str, ...]:
        """A list of domain names."""

        def parse(text: str) -> tuple[str, ...] | None:
            names = tuple(dict.fromkeys(name.rstrip(".") for name in _split(text.lower()) or ()))
            return names if names and all(_DOMAIN.fullmatch(name) for name in names) else None

        return self._read(key, (), f"at most {MOST_ITEMS} domain names with commas", parse)

    def domain(self, key: str) -> str:
        """One domain name, without a wildcard; in lower case, as a Service's status must have it."""

        def parse(text: str) -> str | None:
            fits = _DOMAIN.fullmatch(text) and "*" not in text
            return text.rstrip(".").lower() if fits else None

        return self._read(key, "", "a domain name", parse)

    def ipv4(self, key: str) -> str:
        """An IPv4 address, in its usual spelling."""
        return self._read(key, "", "an IPv4 address", _ipv4)

    def cidr(self, key: str, default: str) -> str:
        """An IPv4 network, in its usual spelling."""
        return self._read(key, default, "an IPv4 network like 10.0.0.0/24", _network)

    def label(self, key: str) -> str:
        """Something that can be the value of a label."""
        allowed = "up to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
        return self._read(key, "", allowed, lambda text: text if _LABEL.fullmatch(text) else None)

    def labels(self, key: str) -> Mapping[str, str]:
        """Labels of a resource of Hetzner."""
        reserved = ", ".join(_RESERVED)
        allowed = f"a list of at most {MOST_ITEMS} like team=shop,stage=live, with no key below {reserved}"
        return self._read(key, {}, allowed, _labels)

    def selector(self, key: str) -> Selector:
        """A label selector."""

        def parse(text: str) -> Selector | None:
            try:
                return selector.parse(text) if len(text) <= LONGEST_SELECTOR else None
            except ValueError:
                return None

        allowed = (
            "a label selector like pool=edge or 'pool in (edge, web)', with at most "
            f"{selector.MOST_CONDITIONS} conditions and {LONGEST_SELECTOR} characters"
        )
        return self._read(key, Selector(), allowed, parse)

    def wrong(self, key: str, why: str) -> None:
        """Note a problem that only shows when several keys are looked at."""
        name, value = self._find(key) or (PREFIX + key, "")
        self.problems[name] = f"{name}: {shown(value)} {why}"

    def _read(self, key: str, default: T, allowed: str, parse: Callable[[str], T | None]) -> T:
        found = self._find(key)
        if found is None:
            return default
        name, text = found
        parsed = self._texts.parsed
        if name not in parsed:
            parsed[name] = parse(text)
            if parsed[name] is None:
                self.problems[name] = f"{name}: {shown(text)} is not {allowed}"
        value = cast("T | None", parsed[name])
        return default if value is None else value

    def _find(self, key: str) -> tuple[str, str] | None:
        if key in self._own:
            return f"{PREFIX}port.{self._port}.{key}", self._own[key]
        text = self._texts.whole.get(key)
        return None if text is None else (PREFIX + key, text)


def _split(text: str) -> tuple[str, ...] | None:
    """The items between commas; None = too many."""
    if text.count(",") > 2 * MOST_ITEMS:
        return None
    items = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    return items if len(items) <= MOST_ITEMS else None


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _ipv4(text: str) -> str | None:
    try:
        return str(IPv4Address(text)) if len(text) < 40 else None
    except AddressValueError:
        return None


def _network(text: str) -> str | None:
    try:
        network = ip_network(text, strict=False) if len(text) < 60 else None
    except ValueError:
        return None
    return str(network) if network is not None and network.version == 4 else None


def _labels(text: str) -> dict[str, str] | None:
    found: dict[str, str] = {}
    items = _split(text)
    if items is None:
        return None
    for part in items:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        match = _LABEL_KEY.fullmatch(key)
        if match is None or match["prefix"] in _RESERVED or not equals:
            return None
        if value and not _LABEL.fullmatch(value):
            return None
        found[key] = value
    return found
