"""Reads environment variables and collects everything that is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

from ccm.hetzner.settings.credentials import Secret
from ccm.hetzner.settings.tenants import EVERY

# What Go's strconv.ParseBool takes.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})

_WHOLE_NUMBER = re.compile(r"[-+]?[0-9]{1,18}")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_bool(text: str) -> bool | None:
    """A boolean as Go writes it; None = it is none."""
    if text in _TRUE:
        return True
    return False if text in _FALSE else None


def parse_duration(text: str) -> float | None:
    """A duration in seconds: Go's notation (``1m30s``) or a bare number of seconds; None = it is none."""
    if text.isascii() and text.isdigit():
        return float(text)
    matches = list(_DURATION_PART.finditer(text))
    if not matches or "".join(match.group(0) for match in matches) != text:
        return None
    return sum(float(match.group(1)) * _UNITS[match.group(2)] for match in matches)


class Variables:
    """Typed access to an environment.

    Args:
        environment: The variables.

    Attributes:
        problems: A sentence for each wrong variable.
        warnings: A sentence for each that is odd, and accepted because the official CCM accepts it.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def text(self, name: str, default: str = "") -> str:
        """Any text; white space around it is dropped."""
        return self._environment.get(name, "").strip() or default

    def boolean(self, name: str, *, default: bool) -> bool:
        """A boolean."""
        value = self.optional_boolean(name)
        return default if value is None else value

    def optional_boolean(self, name: str) -> bool | None:
        """A boolean, or None if it is not set."""
        text = self.text(name)
        if not text:
            return None
        value = parse_bool(text)
        if value is None:
            self._wrong(name, text, "true or false")
        return value

    def duration(self, name: str, default: float | None) -> float | None:
        """A duration in seconds; with a sign, as Go has it, it may be negative."""
        text = self.text(name)
        if not text:
            return default
        value = parse_duration(text[1:] if text[0] in "+-" else text)
        if value is None:
            self._wrong(name, text, "a duration like 30s or 5m")
            return default
        return -value if text[0] == "-" else value

    def integer(self, name: str, default: int | None) -> int | None:
        """A whole number."""
        text = self.text(name)
        if not text:
            return default
        if not _WHOLE_NUMBER.fullmatch(text):
            self._wrong(name, text, "a whole number")
            return default
        return int(text)

    def duration_within(self, name: str, lowest: int, highest: int) -> float | None:
        """A duration in seconds; None if it is 0 or, with a warning, out of the range that the API takes."""
        value = self.duration(name, None) or None
        return value if value is None or self._is_within(name, value, lowest, highest, " seconds") else None

    def integer_within(self, name: str, lowest: int, highest: int) -> int | None:
        """A whole number; None if it is 0 or, with a warning, out of the range that the API takes."""
        value = self.integer(name, None) or None
        return value if value is None or self._is_within(name, value, lowest, highest) else None

    def _is_within(self, name: str, value: float, lowest: int, highest: int, unit: str = "") -> bool:
        if lowest <= value <= highest:
            return True
        self.warnings.append(
            f"{name}: {value:g} is not {lowest} to {highest}{unit}; it is left out, the API would refuse it"
        )
        return False

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        """One of several words."""
        text = self.text(name, default)
        if text and text not in allowed:
            self._wrong(name, text, " or ".join(allowed))
            return default
        return text

    def any_case_choice(self, name: str, allowed: Collection[str]) -> str:
        """One of several words, in capitals or not; or empty."""
        text = self.text(name).lower()
        if text and text not in allowed:
            self._wrong(name, self.text(name), " or ".join(allowed))
            return ""
        return text

    def namespaces(self, name: str) -> frozenset[str]:
        """Names of namespaces with commas, or ``*`` for all."""
        found = {part.strip() for part in self.text(name).split(",")} - {""}
        for one in sorted(found):
            if one != EVERY and not _NAMESPACE.fullmatch(one):
                self._wrong(name, one, "the name of a namespace, or * for all")
        return frozenset(found)

    def cidr(self, name: str) -> str:
        """A network in CIDR notation, or empty."""
        text = self.text(name)
        try:
            if text:
                ip_network(text, strict=False)
        except ValueError:
            self._wrong(name, text, "a network like 10.0.0.0/24")
        return text

    def url(self, name: str, default: str) -> str:
        """An http or https address."""
        text = self.text(name, default)
        parts = urlsplit(text)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            self._wrong(name, text, "an http or https address")
        return text

    def address(self, name: str, default: str) -> str:
        """``host:port``, where the host may be empty; with a warning empty, if it is none.

        The official CCM starts all the same and can't listen.
        """
        text = self.text(name, default)
        port = text.rpartition(":")[2] if ":" in text else ""
        if port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 65536:
            return text
        self.warnings.append(
            f"{name}: {text!r} is not an address like :8233 or 127.0.0.1:8233; nothing listens there"
        )
        return ""

    def secret(self, name: str) -> Secret | None:
        """A secret from ``name``, or from the file that ``name_FILE`` tells; None = neither is set."""
        value, path = self.text(name), self.text(f"{name}_FILE")
        if value or not path:
            return Secret(value) if value else None
        try:
            content = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            self._wrong(f"{name}_FILE", path, f"a readable file ({reason})")
            return Secret("")
        return Secret(content, Path(path))

    def _wrong(self, name: str, value: str, allowed: str) -> None:
        self.problems.append(f"{name}: {value!r} is not {allowed}")
