"""Takes values out of the stack's raw configuration, and collects all that is wrong with them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .backups import Backups, parse_backups
from .errors import Problem
from .files import ROOT
from .firewall import MOST_SOURCES, parse_sources
from .given import as_typed, decoded
from .labels import OURS, is_label
from .own_gateway import ALLOWED as GATEWAY
from .own_gateway import OwnGateway, read_gateway
from .placement import Fallback, parse_fallbacks
from .pools import Pool, parse_pools, spelled
from .reboot_window import RebootWindow, parse_window

NAMESPACE = "ccm-from-scratch"
_NAME = re.compile(r"[\w.-]{1,63}", re.ASCII)

T = TypeVar("T")


def key_of(field: str) -> str:
    """The configuration key of a field: ``worker_count`` is ``ccm-from-scratch:workerCount``."""
    return f"{NAMESPACE}:{spelled(field)}"


class Reader:
    """Takes values out of the raw configuration, each by the name of its field.

    Where a value can't be read it gives something harmless, and a problem more is in ``problems``.

    Args:
        raw: Full keys (``namespace:key``) and values, as Pulumi hands them to a program.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.problems: list[Problem] = []
        self._raw = raw

    def text(self, field: str) -> str:
        """A name of at most 63 characters."""
        allowed = "give a name of at most 63 letters, digits, dots and hyphens"
        return self.matching(field, r"[\w.-]{1,63}", allowed)

    def matching(self, field: str, pattern: str, allowed: str) -> str:
        """A text that a regular expression matches as a whole."""
        return self._take(field, _matcher(pattern), allowed, "")

    def choice(self, field: str, choices: tuple[str, ...]) -> str:
        """One of some words; the first where what is there is none."""
        return self._take(field, _chooser(choices), f"choose one of {', '.join(choices)}", choices[0])

    def several(self, field: str, choices: tuple[str, ...]) -> tuple[str, ...]:
        """Some of some words, in alphabetical order."""

        def parse(value: Any) -> tuple[str, ...]:
            one = isinstance(value, str) and not value.startswith("[")
            chosen = [value] if one else _json(value, list)
            if not all(item in choices for item in chosen):
                raise ValueError
            return tuple(sorted({*chosen}))

        return self._take(field, parse, f"give one of {', '.join(choices)}, or a list of them", ())

    def flag(self, field: str) -> bool:
        """True or false."""
        return self._take(field, _chooser(("true", "false")), "give true or false", "false") == "true"

    def number(self, field: str, least: int, most: int) -> int:
        """A whole number within bounds; the least where what is there is none."""

        def parse(value: Any) -> int:
            if not re.fullmatch(r"[0-9]{1,9}", str(value), re.ASCII) or not least <= int(value) <= most:
                raise ValueError
            return int(value)

        return self._take(field, parse, f"give a whole number from {least} to {most}", least)

    def odd(self, field: str, numbers: tuple[int, ...]) -> int:
        """One of some numbers of control servers."""

        def parse(value: Any) -> int:
            if str(value) not in map(str, numbers):
                raise ValueError
            return int(value)

        allowed = (
            f"give {', '.join(map(str, numbers[:-1]))} or {numbers[-1]}; an even number survives no more "
        )
        return self._take(field, parse, f"{allowed}losses than the odd one below it", numbers[0])

    def names(self, field: str, most: int) -> tuple[str, ...]:
        """Names, in their order."""

        def parse(value: Any) -> tuple[str, ...]:
            one = isinstance(value, str) and not value.startswith("[")
            found = [value] if one else _json(value, list)
            if len(found) > most or not all(
                isinstance(name, str) and _NAME.fullmatch(name) for name in found
            ):
                raise ValueError
            return tuple(found)

        return self._take(
            field, parse, f'give a name, or a list of at most {most}, such as ["fsn1", "nbg1"]', ()
        )

    def ids(self, field: str) -> tuple[str, ...]:
        """IDs of servers."""

        def parse(value: Any) -> tuple[str, ...]:
            given = decoded(value) if str(value).startswith("[") else value
            found = [str(item) for item in (given if isinstance(given, list) else [given])]
            if not all(re.fullmatch(r"[1-9][0-9]{0,18}", item, re.ASCII) for item in found):
                raise ValueError
            return tuple(found)

        return self._take(field, parse, 'give the ID of a server, or a list of them, such as ["4711"]', ())

    def cidr(self, field: str) -> ipaddress.IPv4Network:
        """A range of IPv4 addresses."""
        no_ipv6 = "no second one for IPv6, which Hetzner's networks don't route"
        allowed = f"give one IPv4 range whose host bits are zero, such as 10.0.0.0/24; {no_ipv6}"
        return self._take(field, _range, allowed, ipaddress.IPv4Network("0.0.0.0/0"))

    def sources(self, field: str, *, unsaid: str = "") -> tuple[str, ...]:
        """Ranges for a firewall. ``unsaid`` is the problem when there are none, if that is one."""
        examples = '198.51.100.7 or ["198.51.100.7", "2001:db8::/48"]'
        allowed = f"give an address, a range, or a list of at most {MOST_SOURCES}, such as {examples}; or any"
        ranges = self._take(field, _sources, allowed, None)
        if ranges == () and unsaid:
            self.problems.append(Problem(key_of(field), None, unsaid))
        return ranges or ()

    def labels(self, field: str) -> Mapping[str, str]:
        """Labels for everything in the cloud, none of which is ours."""

        def parse(value: Any) -> Mapping[str, str]:
            labels = {label: as_typed(content) for label, content in _json(value, dict).items()}
            if not all(_is_cloud_label(label, content) for label, content in labels.items()):
                raise ValueError
            return labels

        type_this = "pulumi config set --path labels.team shop"
        keys = f"none with a key of ours ({', '.join(OURS)}) or below hetzner.cloud"
        allowed = f"give texts with the syntax of Kubernetes labels, {keys}, such as by: {type_this}"
        return self._take(field, parse, allowed, {})

    def pools(self, field: str) -> tuple[Pool, ...]:
        """Pools of workers."""
        pools, problems = parse_pools(self._raw.get(key_of(field)), key_of(field))
        self.problems += problems
        return pools

    def fallbacks(self, field: str) -> tuple[Fallback, ...]:
        """Types and locations to take where there is no room."""
        fallbacks, problems = parse_fallbacks(self._raw.get(key_of(field)), key_of(field))
        self.problems += problems
        return fallbacks

    def window(self, field: str) -> RebootWindow | None:
        """When servers may reboot; None: never."""
        window, problems = parse_window(self._raw.get(key_of(field)), key_of(field))
        self.problems += problems
        return window

    def gateway(self, field: str) -> OwnGateway:
        """The way out of private servers that is somebody's own."""
        return self._take(field, lambda value: read_gateway(_json(value, dict)), GATEWAY, OwnGateway())

    def backups(self, field: str) -> Backups:
        """When etcd is saved and where to; what opens the bucket is in no message."""
        backups, problems = parse_backups(self._raw.get(key_of(field)), key_of(field))
        self.problems += problems
        return backups

    def snapshot(self, field: str, backups: Backups) -> str:
        """A file; with S3 as well the name of what is there."""
        if not backups.s3:
            return self.file(field)
        allowed = "give the name of a snapshot in the bucket, or the path of a file that exists, or nothing"
        name = _matcher(r"[A-Za-z0-9._-]{0,255}")

        def parse(value: Any) -> str:
            return value if isinstance(value, str) and (ROOT / value).is_file() else name(value)

        return self._take(field, parse, allowed, "")

    def file(self, field: str) -> str:
        """The path of a file that exists; empty: none."""

        def parse(value: Any) -> str:
            if value and not (ROOT / value).is_file():
                raise ValueError
            return value

        return self._take(field, parse, "give the path of a file that exists, or nothing", "")

    def _take(self, field: str, parse: Callable[[Any], T], allowed: str, fallback: T) -> T:
        value = self._raw.get(key_of(field))
        if value is not None:
            try:
                return parse(value)
            except (ValueError, TypeError, LookupError, RecursionError, OSError):
                pass  # said below, for every kind of wrong value in the same way
        self.problems.append(Problem(key_of(field), value, allowed))
        return fallback


def _matcher(pattern: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII):
            raise ValueError
        return value

    return parse


def _chooser(choices: tuple[str, ...]) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in choices:
            raise ValueError
        return value

    return parse


def _is_cloud_label(label: str, content: Any) -> bool:
    ours = label in OURS or label.rpartition("/")[0] == "hetzner.cloud"
    return is_label(label, content) and not ours


def _range(value: Any) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Network(_sized(value))


def _sources(value: Any) -> tuple[str, ...]:
    one = isinstance(value, str) and not value.startswith("[")
    return parse_sources([value] if one else _json(value, list))


def _sized(value: Any) -> str:
    if not isinstance(value, str) or "/" not in value:
        raise ValueError
    return value


def _json(value: Any, kind: type) -> Any:
    content = decoded(value)
    if not isinstance(content, kind):
        raise TypeError
    return content
