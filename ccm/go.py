"""Booleans and durations in the format of Go, which Kubernetes' and Hetzner's flags use."""

import re

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_MAX_SECONDS = 2**63 * 1e-9  # Go counts nanoseconds in 64 bits
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def parse_boolean(text: str) -> bool:
    """Parse a boolean like Go's strconv.ParseBool; raises ValueError."""
    if text in _TRUE | FALSE:
        return text in _TRUE
    raise ValueError(f"{text!r} is neither true nor false")


def parse_duration(text: str) -> float:
    """Parse a duration like Go's time.ParseDuration and return seconds; raises ValueError."""
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text.removeprefix("-") if sign < 0 else text.removeprefix("+")
    if rest == "0":
        return 0.0
    parts = list(_PART.finditer(rest))
    if not parts or "".join(part.group() for part in parts) != rest:
        raise ValueError(f"{text!r} isn't a duration like 300ms, 10s or 1h30m")
    seconds = sum(float(part.group(1)) * _UNITS[part.group(2)] for part in parts)
    if seconds >= _MAX_SECONDS:
        raise ValueError(f"{text!r} is too long for a duration. The maximum is 292 years")
    return sign * seconds


def format_duration(seconds: float) -> str:
    """A duration as Go prints it: ``5s``, ``1m30s``, ``12h0m0s``, ``500ms``."""
    if seconds == 0:
        return "0s"
    if abs(seconds) < 1:
        return f"{seconds * 1000:g}ms"
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    head = f"{hours:.0f}h" if hours else ""
    head += f"{minutes:.0f}m" if hours or minutes else ""
    return f"{sign}{head}{rest:g}s"
