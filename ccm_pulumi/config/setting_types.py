"""The types of settings, which parse and validate values of the stack's configuration."""

import dataclasses
import functools
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from ..lib.errors import Problem
from ..lib.files import ROOT
from .config_values import WORD, as_typed, decoded, word
from .firewall_rules import MAX_SOURCES, parse_sources
from .labels import OURS, is_label
from .pools import spelled

NAMESPACE = "ccm-from-scratch"
_WRONG = (ValueError, TypeError, LookupError, RecursionError, OSError)
"""Exceptions that a parser raises for an invalid value."""


def key_of(field: str) -> str:
    """The configuration key of a field: ``worker_count`` is ``ccm-from-scratch:workerCount``."""
    return f"{NAMESPACE}:{spelled(field)}"


@dataclass(frozen=True)
class Type:
    """How a setting is read."""

    # takes a raw value (None: unset) and the key; returns the value, or the neutral one, and all problems
    read: Callable[[Any, str], tuple[Any, list[Problem]]]
    neutral: Any  # for an unset or invalid setting
    created_only: bool = False  # whether only a cluster that this program creates can have another value
    # whether components.py lacks the setting: it is about an existing cluster or a chart that only the
    # program installs, or it needs the preflight checks, without which several control servers would change
    # at the same time
    program_only: bool = False


def created_only(type_: Type) -> Type:
    """A setting that only a cluster which this program creates can have."""
    return dataclasses.replace(type_, created_only=True)


def program_only(type_: Type) -> Type:
    """A setting that components.py does not have."""
    return dataclasses.replace(type_, program_only=True)


@functools.cache
def types_of(settings: type) -> Mapping[str, Type]:
    """The type of each setting: each field of the dataclass has a ``Type`` in its annotation."""
    hints = get_type_hints(settings, include_extras=True)
    return {field.name: hints[field.name].__metadata__[0] for field in dataclasses.fields(settings)}


def plain(parse: Callable[[Any], Any], allowed: str, neutral: Any) -> Type:
    """A value that is valid or invalid as a whole: ``parse`` raises one of ``_WRONG`` if it is invalid."""

    def read(value: Any, key: str) -> tuple[Any, list[Problem]]:
        if value is not None:
            try:
                return parse(value), []
            except _WRONG:
                pass  # the same problem for every kind of invalid value
        return neutral, [Problem(key, value, allowed)]

    return Type(read, neutral)


def matching(pattern: str, allowed: str) -> Type:
    """A string that fully matches a regular expression."""

    def parse(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII):
            raise ValueError
        return value

    return plain(parse, allowed, "")


def or_nothing(pattern: str, allowed: str) -> Type:
    """Likewise, or an empty string."""
    return matching(f"({pattern})?", f"{allowed}, or remove the setting")


def name() -> Type:
    """A name of at most 63 characters."""
    return plain(word, WORD, "")


def choice(choices: Sequence[str]) -> Type:
    """One of some words; the first is the default."""
    return plain(_chooser(choices), f"choose one of {', '.join(choices)}", choices[0])


def several(choices: Sequence[str]) -> Type:
    """Some of some words, in alphabetical order."""

    def parse(value: Any) -> tuple[str, ...]:
        chosen = _listed(value)
        if not all(item in choices for item in chosen):
            raise ValueError
        return tuple(sorted({*chosen}))

    return plain(parse, f"give one of {', '.join(choices)}, or a list of them", ())


def flag() -> Type:
    """True or false."""
    parse = _chooser(("true", "false"))
    return plain(lambda value: parse(value) == "true", "give true or false", neutral=False)


def number(minimum: int, maximum: int) -> Type:
    """A whole number within bounds."""

    def parse(value: Any) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", str(value), re.ASCII) or not minimum <= int(value) <= maximum:
            raise ValueError
        return int(value)

    return plain(parse, f"give a whole number from {minimum} to {maximum}", minimum)


def odd_number(numbers: Sequence[int]) -> Type:
    """One of some numbers of control servers."""

    def parse(value: Any) -> int:
        if str(value) not in map(str, numbers):
            raise ValueError
        return int(value)

    allowed = (
        f"give {', '.join(map(str, numbers[:-1]))} or {numbers[-1]}. An even number isn't allowed, "
        "because the additional server wouldn't let the cluster tolerate more failures"
    )
    return plain(parse, allowed, numbers[0])


def names(maximum: int) -> Type:
    """Names, in their order."""

    def parse(value: Any) -> tuple[str, ...]:
        found = _listed(value)
        if len(found) > maximum:
            raise ValueError
        return tuple(map(word, found))

    return plain(parse, f'give a name, or a list of at most {maximum} names, such as ["fsn1", "nbg1"]', ())


def ids() -> Type:
    """IDs of servers; with a slash, of an installation of k3s on one."""

    def parse(value: Any) -> tuple[str, ...]:
        items = decoded(value) if str(value).startswith("[") else value
        found = [str(item) for item in (items if isinstance(items, list) else [items])]
        if not all(re.fullmatch(r"[1-9][0-9]{0,18}(/[0-9a-f]{16})?", item, re.ASCII) for item in found):
            raise ValueError
        return tuple(found)

    return plain(parse, 'give the ID of a server, or a list of IDs, such as ["4711"]', ())


def cidr() -> Type:
    """A range of IPv4 addresses, with its length."""

    def parse(value: Any) -> ipaddress.IPv4Network:
        if not isinstance(value, str) or "/" not in value:
            raise ValueError
        return ipaddress.IPv4Network(value)

    allowed = (
        "give one IPv4 range whose host bits are zero, such as 10.0.0.0/24. Hetzner's networks don't route "
        "IPv6"
    )
    return plain(parse, allowed, ipaddress.IPv4Network("0.0.0.0/0"))


def sources(unset: str = "") -> Type:
    """Ranges for a firewall; ``unset`` is the problem if there are none (empty: there may be none)."""
    examples = '198.51.100.7 or ["198.51.100.7", "2001:db8::/48"]'
    allowed = (
        f"give an address, a range, a list of at most {MAX_SOURCES} addresses and ranges, or the word 'any' "
        f"for all addresses. Examples: {examples}"
    )
    type_ = plain(lambda value: parse_sources(_listed(value)), allowed, ())

    def read(value: Any, key: str) -> tuple[Any, list[Problem]]:
        ranges, problems = type_.read(value, key)
        is_missing = unset and not ranges and not problems
        return ranges, [Problem(key, None, unset)] if is_missing else problems

    return dataclasses.replace(type_, read=read)


def cloud_labels() -> Type:
    """Labels for all objects in the cloud, without the program's own labels."""

    def parse(value: Any) -> Mapping[str, str]:
        labels = {label: as_typed(content) for label, content in json_of(value, dict).items()}
        if not all(_is_cloud_label(label, content) for label, content in labels.items()):
            raise ValueError
        return labels

    allowed = (
        f"use valid Kubernetes labels. Don't use the reserved keys ({', '.join(OURS)}), or keys with the "
        "prefix hetzner.cloud. Example: pulumi config set --path labels.team shop"
    )
    return plain(parse, allowed, {})


def file(in_bucket: str = "", more: str = "") -> Type:
    """The path of a file that exists, or a text that matches ``in_bucket``; empty: none."""

    def parse(value: Any) -> str:
        if value and not re.fullmatch(in_bucket, value, re.ASCII) and not (ROOT / value).is_file():
            raise ValueError
        return value

    return plain(parse, f"set the path of an existing file, or remove the setting{more}", "")


def snapshot() -> Type:
    """The path of a file that exists, or the name of a snapshot in a bucket; empty: none."""
    more = ". If etcdSnapshots.s3 is set, you can also set the name of a snapshot in the bucket"
    return file("[A-Za-z0-9._-]{1,255}", more)


def json_of(value: Any, kind: type) -> Any:
    """The value of a structured setting; a TypeError means that it has another type."""
    content = decoded(value)
    if not isinstance(content, kind):
        raise TypeError
    return content


def _chooser(choices: Sequence[str]) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in choices:
            raise ValueError
        return value

    return parse


def _listed(value: Any) -> list[Any]:
    """The items of a list, or the value as the only item."""
    return [value] if isinstance(value, str) and not value.startswith("[") else json_of(value, list)


def _is_cloud_label(label: str, content: Any) -> bool:
    ours = label in OURS or label.rpartition("/")[0] == "hetzner.cloud"
    return is_label(label, content) and not ours
