"""Rules of firewalls in the settings."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

EVERYBODY = ("0.0.0.0/0", "::/0")
MAX_SOURCES = 100
"""Maximum number of ranges in a rule of a Hetzner firewall."""
MAX_RULES = 50
"""Maximum number of rules in a Hetzner firewall: https://docs.hetzner.cloud/reference/cloud#firewalls"""
MAX_RANGES = 500
"""Maximum number of ranges in all rules of a firewall: https://docs.hetzner.com/cloud/firewalls/overview#limits"""
PROTOCOLS = ("tcp", "udp")
LAST_PORT = 65535

_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", re.ASCII)
_KEYS = ("protocol", "port", "sources")
_RULE = 'give a rule, such as {"protocol": "tcp", "port": "443", "sources": "any"}'
_SAID = f"give an address, a range, a list of at most {MAX_SOURCES} addresses and ranges, or the word 'any'"


@dataclass(frozen=True)
class Rule:
    """A rule for incoming traffic."""

    protocol: str  # ``tcp`` or ``udp``
    port: str  # one port, or a range such as ``8000-8100``
    sources: tuple[str, ...]


def parse_rules(entries: Any) -> tuple[Rule, ...]:
    """Reads a list of rules. A ValueError says which rules are invalid, and what is allowed."""
    if not isinstance(entries, list):
        raise TypeError
    rules, wrong = [], []
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            wrong.append(f"[{index}]: {entry!r}: {_RULE}")
            continue
        try:
            rules.append(_rule(entry))
        except ValueError as error:
            wrong.append(f"[{index}]: {error}")
    if wrong:
        raise ValueError("; ".join(wrong))
    if len(rules) > MAX_RULES:
        raise ValueError(f"a firewall at Hetzner can have at most {MAX_RULES} rules")
    if sum(len(rule.sources) for rule in rules) > MAX_RANGES:
        raise ValueError(f"the rules of a firewall at Hetzner can have at most {MAX_RANGES} ranges in total")
    return tuple(rules)


def parse_sources(items: Iterable[Any]) -> tuple[str, ...]:
    """Reads addresses, ranges and ``any`` as ranges without duplicates. A ValueError or TypeError: one is
    invalid, or there are too many.
    """
    ranges = [part for item in items for part in _source(item)]
    if len(ranges) > MAX_SOURCES:
        raise ValueError
    return tuple(dict.fromkeys(ranges))


def _rule(entry: Mapping[Any, Any]) -> Rule:
    wrong = [
        f"there is no key {name}; the keys are {', '.join(_KEYS)}" for name in entry if name not in _KEYS
    ]
    protocol, port, sources = (entry.get(name) for name in _KEYS)
    if protocol not in PROTOCOLS:
        wrong.append(f"protocol {protocol!r}: choose one of {', '.join(PROTOCOLS)}")
    if not _is_port(port):
        wrong.append(f"port {port!r}: give a port from 1 to {LAST_PORT}, or a range such as 8000-8100")
    ranges = _sources(sources)
    if not ranges:
        wrong.append(f"sources {sources!r}: {_SAID}")
    if wrong:
        raise ValueError(", ".join(wrong))
    return Rule(str(protocol), str(port), ranges)


def _is_port(value: Any) -> bool:
    # pulumi config set --path converts a single port to a number
    if isinstance(value, bool) or not isinstance(value, str | int):
        return False
    match = _PORTS.fullmatch(str(value))
    if match is None:
        return False
    first, last = int(match[1]), int(match[2] or match[1])
    return 1 <= first <= last <= LAST_PORT


def _sources(value: Any) -> tuple[str, ...]:
    try:
        return parse_sources(value if isinstance(value, list) else [value])
    except (ValueError, TypeError):
        return ()


def _source(item: Any) -> tuple[str, ...]:
    """A range with its prefix length: the hcloud plugin crashes on an address without one."""
    if item == "any":
        return EVERYBODY
    if not isinstance(item, str):
        raise TypeError
    network = ipaddress.ip_network(item)
    # 0.0.0.0 without a length is no source address, and a zone is only valid on one machine
    if "%" in item or ("/" not in item and network.network_address.is_unspecified):
        raise ValueError
    return (str(network),)
