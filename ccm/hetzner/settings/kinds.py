"""Kinds of environment variables, which parse their texts.

Invalid texts prevent the start. :class:`LeftOut` is only a warning, because the official CCM starts, too.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from ccm.go import parse_boolean, parse_duration
from ccm.hetzner.settings.tenants import EVERY, NOBODY

_WHOLE_NUMBER = re.compile(r"[-+]?[0-9]{1,18}")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class LeftOut(ValueError):
    """An invalid value that is treated like an empty text, with a warning."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of variable."""

    name: str  # the name in the documentation
    parse: Callable[[str], Any]  # parses a nonempty text; raises ValueError with a message
    unset: object = None  # the value of an empty text


def parse_seconds(text: str) -> float:
    """Parse a duration in Go's notation (``1m30s``) or a whole number of seconds. Raises ValueError."""
    try:
        return float(text) if _WHOLE_NUMBER.fullmatch(text) else parse_duration(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a duration like 30s or 5m") from None


def one_of(*words: str, any_case: bool = False) -> Kind:
    """One of several words; ``any_case`` ignores the case."""
    allowed = " or ".join(words)

    def parse(text: str) -> str:
        word = text.lower() if any_case else text
        if word not in words:
            raise ValueError(f"{text!r} is not {allowed}")
        return word

    return Kind(allowed, parse, "")


def seconds_within(lowest: int, highest: int) -> Kind:
    """A duration in the range that the API accepts; None if it is 0 or outside."""
    return Kind("duration", lambda text: _within(parse_seconds(text), lowest, highest, " seconds"))


def number_within(lowest: int, highest: int) -> Kind:
    """A whole number in the range that the API accepts; None if it is 0 or outside."""

    def parse(text: str) -> float | None:
        if not _WHOLE_NUMBER.fullmatch(text):
            raise ValueError(f"{text!r} is not a whole number")
        return _within(int(text), lowest, highest)

    return Kind("number", parse)


def _within(value: float, lowest: int, highest: int, unit: str = "") -> float | None:
    if value and not lowest <= value <= highest:
        allowed = f"{lowest} to {highest}{unit}"
        raise LeftOut(
            f"{value:g} is not {allowed}. The value is ignored, because the API would reject the value"
        )
    return value or None


def _words(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",")) - {""}


def _namespaces(text: str) -> frozenset[str]:
    names = _words(text)
    if names == frozenset({NOBODY}):
        return frozenset()
    bad = [repr(name) for name in sorted(names - {EVERY}) if not _NAMESPACE.fullmatch(name)]
    if bad:
        raise ValueError(f"{' and '.join(bad)} isn't allowed. Use namespace names, * for all, or - for none")
    return names


def _network(text: str) -> str:
    """A network in the API's format. As in Go, host bits are removed."""
    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        raise ValueError(f"{text!r} isn't a network like 10.0.0.0/24") from None


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{text!r} is not an http or https address")
    return text


def _address(text: str) -> str:
    """``host:port`` or ``:port``. The official CCM can't listen on other addresses, but starts."""
    port = text.rpartition(":")[2] if ":" in text else ""
    if port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 65536:
        return text
    raise LeftOut(
        f"{text!r} isn't an address like :8233 or 127.0.0.1:8233, so the CCM can't listen on this address"
    )


TEXT = Kind("text", str, "")
WORDS = Kind("text", _words, frozenset[str]())
NAMESPACES = Kind("text", _namespaces, frozenset[str]())
BOOLEAN = Kind("boolean", parse_boolean)
DURATION = Kind("duration", parse_seconds)
CIDR = Kind("CIDR", _network, "")
URL = Kind("URL", _url, "")
ADDRESS = Kind("address", _address, "")
SECRET = Kind("secret", str)
