"""Firewalls as rules of nftables in the router, for traffic of the machines' public interfaces.

The router itself serves metadata, and private networks don't pass it, so neither is filtered.
"""

import socket
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network

from hetzner_emulator.backend import FirewallRule

# nft looks names up in /etc/protocols, which a small Debian does not have.
NUMBERS = {
    "tcp": socket.IPPROTO_TCP,
    "udp": socket.IPPROTO_UDP,
    "icmp": socket.IPPROTO_ICMP,
    "esp": socket.IPPROTO_ESP,
    "gre": socket.IPPROTO_GRE,
}


def ruleset(table: str, firewalls: Mapping[int, tuple[FirewallRule, ...]]) -> str:
    """All rules as a text for nft, which replaces earlier ones atomically."""
    lines = [f"table inet {table}", f"delete table inet {table}"]
    if not firewalls:
        return "\n".join(lines) + "\n"
    lines.append(f"table inet {table} {{")
    for server, rules in sorted(firewalls.items()):
        inbound = [rule for rule in rules if rule.direction == "in"]
        outbound = [rule for rule in rules if rule.direction == "out"]
        lines += [f"chain in_{server} {{", *_allowed(inbound), "drop", "}"]
        lines += [f"chain out_{server} {{", *_allowed(outbound), *(["drop"] if outbound else []), "}"]
    servers = sorted(firewalls)
    leaving = ", ".join(f'"p{server}" : jump out_{server}' for server in servers)
    coming = ", ".join(f'"p{server}" : jump in_{server}' for server in servers)
    lines += [
        "chain forward {",
        "type filter hook forward priority filter; policy accept;",
        "ct state established,related accept",
        f"iifname vmap {{ {leaving} }}",
        f"oifname vmap {{ {coming} }}",
        "}",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _allowed(rules: Iterable[FirewallRule]) -> Iterator[str]:
    """One line for each rule and address family; matching traffic passes."""
    for rule in rules:
        end = "saddr" if rule.direction == "in" else "daddr"
        for family, ranges in _by_family(rule.ranges):
            of_ipv6 = (family, rule.protocol) == ("ip6", "icmp")
            number = socket.IPPROTO_ICMPV6 if of_ipv6 else NUMBERS[rule.protocol]
            what = f"meta l4proto {number:d}"
            if rule.ports:
                what = f"{rule.protocol} dport {rule.ports[0]}-{rule.ports[1]}"
            yield f"{family} {end} {{ {', '.join(ranges)} }} {what} return"


def _by_family(ranges: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """The ranges without overlaps, which nft refuses."""
    networks = [ip_network(text) for text in ranges]
    ipv4 = [network for network in networks if isinstance(network, IPv4Network)]
    ipv6 = [network for network in networks if isinstance(network, IPv6Network)]
    for family, collapsed in (("ip", collapse_addresses(ipv4)), ("ip6", collapse_addresses(ipv6))):
        if own := [str(network) for network in collapsed]:
            yield family, own
