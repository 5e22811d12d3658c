"""Typed access to a Service's annotations; collects everything that is wrong with them.

Nothing here raises, whatever the texts are: an odd value becomes a problem, and counts as not set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from ipaddress import AddressValueError, IPv4Address, ip_network
from typing import TypeVar

from ccm.hetzner.load_balancers import selector
from ccm.hetzner.load_balancers.selector import Selector
from ccm.hetzner.variables import parse_bool, parse_duration

PREFIX = "load-balancer.hetzner.cloud/"
LONGEST_SHOWN = 80
LONGEST_SELECTOR = 4096  # it is held against each of thousands of nodes
_STATUS_CODE = re.compile(r"[1-5?][0-9?]{2}|(?=[0-9?]*\*)[0-9?*]{1,3}")
_DOMAIN = re.compile(
    r"(?=.{1,253}$)(\*\.)?([A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.?"
)
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_KEY = re.compile(rf"(?:(?P<prefix>[a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?)/)?{_LABEL.pattern}")
# Prefixes that Hetzner, the official CCM and we keep for ourselves.
_RESERVED = ("hetzner.cloud", "hcloud-ccm", "ccm-from-scratch")

T = TypeVar("T")


class Reader:
    """Annotations with one prefix.

    Args:
        annotations: All annotations of the Service.
        problems: Where problems are collected.
        port: Look for ``port.<port>.<key>`` before ``<key>``; None = only for ``<key>``.
    """

    def __init__(
        self, annotations: Mapping[str, str], problems: dict[str, str], port: int | None = None
    ) -> None:
        self._annotations = annotations
        self._port = port
        self.problems = problems

    def has(self, key: str) -> bool:
        """Whether the key is set to something."""
        return self._find(key) is not None

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
            seconds = parse_duration(text) if len(text) < 40 else None
            fits = seconds is not None and seconds == int(seconds) and lowest <= seconds <= highest
            return int(seconds) if fits and seconds is not None else None

        allowed = f"{lowest} to {highest} seconds, as a number or as a duration like {lowest}s"
        return self._read(key, default, allowed, parse)

    def choice(self, key: str, allowed: Collection[str], default: str) -> str:
        """One of several words, in upper or lower case."""

        def parse(text: str) -> str | None:
            return text.lower() if text.lower() in allowed else None

        return self._read(key, default, " or ".join(allowed), parse)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list with commas; white space and empty items are dropped, and repetitions."""
        return self._read(key, (), "a list with commas", _split)

    def status_codes(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A list of HTTP status codes, with ``?`` for any digit."""

        def parse(text: str) -> tuple[str, ...] | None:
            codes = _split(text)
            good = 0 < len(codes) <= 20 and all(_STATUS_CODE.fullmatch(code) for code in codes)
            return codes if good else None

        return self._read(key, default, "up to 20 status codes like 200, 2?? or 2*, with commas", parse)

    def domains(self, key: str) -> tuple[str, ...]:
        """A list of domain names."""

        def parse(text: str) -> tuple[str, ...] | None:
            names = tuple(dict.fromkeys(name.rstrip(".") for name in _split(text.lower())))
            return names if names and all(_DOMAIN.fullmatch(name) for name in names) else None

        return self._read(key, (), "domain names with commas", parse)

    def domain(self, key: str) -> str:
        """One domain name."""
        return self._read(
            key, "", "a domain name", lambda text: text if _DOMAIN.fullmatch(text) else None
        ).rstrip(".")

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
        allowed = f"a list like team=shop,stage=live, with no key below {', '.join(_RESERVED)}"
        return self._read(key, {}, allowed, _labels)

    def selector(self, key: str) -> Selector:
        """A label selector."""

        def parse(text: str) -> Selector | None:
            try:
                return selector.parse(text) if len(text) <= LONGEST_SELECTOR else None
            except ValueError:
                return None

        allowed = f"a label selector like pool=edge or 'pool in (edge, web)', up to {LONGEST_SELECTOR} long"
        return self._read(key, Selector(), allowed, parse)

    def wrong(self, key: str, why: str) -> None:
        """Note a problem that only shows when several keys are looked at."""
        found = self._find(key)
        name, value = found or (PREFIX + key, "")
        self.problems[name] = f"{name}: {_shown(value)} {why}"

    def _read(self, key: str, default: T, allowed: str, parse: Callable[[str], T | None]) -> T:
        found = self._find(key)
        if found is None:
            return default
        name, text = found
        value = parse(text)
        if value is None:
            self.problems[name] = f"{name}: {_shown(text)} is not {allowed}"
            return default
        return value

    def _find(self, key: str) -> tuple[str, str] | None:
        names = [PREFIX + key]
        if self._port is not None:
            names.insert(0, f"{PREFIX}port.{self._port}.{key}")
        for name in names:
            text = self._annotations.get(name, "").strip()
            if text:
                return name, text
        return None


def _shown(value: str) -> str:
    return repr(value if len(value) <= LONGEST_SHOWN else value[:LONGEST_SHOWN] + "…")


def _split(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _ipv4(text: str) -> str | None:
    try:
        return str(IPv4Address(text))
    except AddressValueError:
        return None


def _network(text: str) -> str | None:
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return None
    return str(network) if network.version == 4 else None


def _labels(text: str) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for part in _split(text):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        match = _LABEL_KEY.fullmatch(key)
        if match is None or match["prefix"] in _RESERVED or not equals:
            return None
        if value and not _LABEL.fullmatch(value):
            return None
        found[key] = value
    return found
