"""Decodes firewall rules in requests."""

import re
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Any

from hetzner_emulator.wire.fields import MISSING, Fields

MAX_RULES = 50
MAX_RANGES = 100
MAX_EFFECTIVE = 500
"""Maximum number of ranges in all rules: https://docs.hetzner.com/cloud/firewalls/overview#limits"""
PROTOCOLS = frozenset({"tcp", "udp", "icmp", "esp", "gre"})
_PORTS = re.compile(r"any|(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)


def read_rules(fields: Fields, *, required: bool = False) -> list[dict[str, Any]]:
    """The field ``rules``, inbound ones first; ``fields`` collects what is invalid."""
    rules = [_rule(item) for item in fields.objects("rules", required=required, most=MAX_RULES)]
    effective = sum(len(rule["source_ips"]) + len(rule["destination_ips"]) for rule in rules)
    if effective > MAX_EFFECTIVE:
        fields.wrong("rules", f"must not have more than {MAX_EFFECTIVE} IP ranges in all rules together")
    return sorted(rules, key=lambda rule: rule["direction"] == "out")


def _rule(item: Fields) -> dict[str, Any]:
    direction = item.choice("direction", {"in", "out"}, required=True)
    protocol = item.choice("protocol", PROTOCOLS, required=True)
    port = item.text("port") or None
    sources, destinations = item.texts("source_ips"), item.texts("destination_ips")
    if protocol in {"tcp", "udp"} and not _is_port(port):
        item.wrong("port", "must be a port between 1 and 65535, a range of ports, or 'any'")
    if protocol not in {"tcp", "udp"} and port is not None:
        item.wrong("port", "is only allowed for tcp and udp")
    name, wanted = ("source_ips", sources) if direction == "in" else ("destination_ips", destinations)
    if direction and not wanted:
        item.wrong(name, MISSING)
    sources = _canonical(item, "source_ips", sources)
    destinations = _canonical(item, "destination_ips", destinations)
    return {
        "description": item.text("description") or None,
        "direction": direction,
        "source_ips": sources,
        "destination_ips": destinations,
        "protocol": protocol,
        "port": port,
    }


def _is_port(port: str | None) -> bool:
    match = _PORTS.fullmatch(port or "")
    numbers = [int(text) for text in match.groups() if text] if match else []
    return match is not None and all(1 <= n <= 65535 for n in numbers) and numbers == sorted(numbers)


def _canonical(item: Fields, field: str, ranges: Sequence[str]) -> list[str]:
    """The ranges with IPv6 in its shortest form, as the API shows them."""
    if len(ranges) > MAX_RANGES:
        item.wrong(field, f"can't have more than {MAX_RANGES} items")
    return [_range(item, field, text) for text in ranges]


def _range(item: Fields, field: str, text: str) -> str:
    try:
        if "/" in text:
            return str(ip_network(text))
    except ValueError:
        pass
    item.wrong(field, f"'{text}' is not a valid IP range in CIDR notation")
    return text
