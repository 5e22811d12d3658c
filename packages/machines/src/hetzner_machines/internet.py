"""The machines' way to the Internet, through the host and translated to its address, with --internet.

All of it is in one nftables table with the site's name, including the record of settings to restore, so the
name suffices to undo it, also after a crash. Machines reach what the host's default route reaches. They reach
the host itself no better than without --internet:

- of the host's own addresses they reach the one of the link, as always, and no other;
- from outside only responses reach them;
- other clones' machines, containers' bridges and other destinations of the host's routes are out of reach;
- so are link-local addresses, where a cloud serves secrets to its own servers.

IPv4 only: a host that forwards IPv6 ignores its own router (``accept_ra``) and would be cut off.
"""

import fcntl
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from ccmfs_common.host import WIDEST_NETWORK
from hetzner_machines.errors import CommandFailed, NoWayOut
from hetzner_machines.names import ANY_SITE, NAMESPACES, Names
from hetzner_machines.runner import ip, run_blocking
from hetzner_machines.topology import Uplink

FORWARDING = Path("/proc/sys/net/ipv4/conf")
_EVERYTHING = "all"
_WAYS_OUT, _SWITCHED_ON = "ways-out", "switched-on"
_DEVICE = re.compile(r"[\w.:@-]{1,15}")


def ways_out(routes: Sequence[Mapping[str, Any]]) -> list[str]:
    """The host's interfaces to the Internet, from ``ip -json -4 route show``; raises NoWayOut.

    A VPN may have split the default route.
    """
    outwards = [route for route in routes if _leads_out(str(route["dst"]))]
    hops = [hop for route in outwards for hop in (route, *route.get("nexthops", ()))]
    found = sorted({str(hop["dev"]) for hop in hops if "dev" in hop})
    if not found:
        raise NoWayOut("it has no default route")
    if unusable := [device for device in found if not _DEVICE.fullmatch(device)]:
        raise NoWayOut(f"nftables doesn't support the interface name {unusable[0]!r}")
    return found


def _leads_out(destination: str) -> bool:
    if "/" not in destination:
        return destination == "default"
    network = IPv4Network(destination)
    return network.prefixlen < WIDEST_NETWORK and not (network.is_multicast or network.is_reserved)


def rules(
    names: Names, public_range: IPv4Network, devices: Collection[str], switched_on: Collection[str]
) -> str:
    """The site's table, for nft; replaces an existing one.

    Source addresses outside of ``public_range`` are rejected. ``switched_on`` are the interfaces to the
    Internet that did not forward before, to be restored later. They forward only responses to any clone's
    machines, and traffic that another program redirects, as Docker does for published ports.
    """
    table, link = names.table, names.host_link
    return f"""table inet {table}
delete table inet {table}
table inet {table} {{
{_set(_WAYS_OUT, devices)}{_set(_SWITCHED_ON, switched_on)}
  chain input {{
    type filter hook input priority filter; policy accept;
    iifname != "{link}" accept
    ct state established,related accept
    ip daddr != {Uplink.of(public_range).host} reject with icmpx type admin-prohibited
  }}

  chain forward {{
    type filter hook forward priority filter; policy accept;
    iifname "{link}" goto outwards
    ct state established,related accept
    oifname "{link}" drop
    iifname @{_SWITCHED_ON} ct status & dnat == 0 drop
  }}

  chain outwards {{
    oifname != @{_WAYS_OUT} reject with icmpx type admin-prohibited
    ip saddr != {public_range} reject with icmpx type admin-prohibited
    ip daddr 169.254.0.0/16 reject with icmpx type admin-prohibited
  }}

  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {public_range} oifname @{_WAYS_OUT} masquerade
  }}
}}
"""


def _set(name: str, devices: Collection[str]) -> str:
    listed = ", ".join(f'"{device}"' for device in sorted(devices))
    elements = f"elements = {{ {listed} }}" if listed else ""  # nft refuses an empty list
    return f"  set {name} {{ type ifname; {elements} }}\n"


def open_way(names: Names, public_range: IPv4Network) -> None:
    """Open the way to the Internet, or update it after a change of the host's routes. Blocks."""
    devices = ways_out(json.loads(run_blocking(ip(None, "-json", "-4", "route", "show")) or "[]"))
    with _one_at_a_time():
        tables = {table: _switched_on(table) for table in _tables()}
        # Another site may have switched it on; our own earlier change must still be restored.
        before = {device for found in tables.values() for device in found} & set(devices)
        off = {device for device in devices if not _forwards(device)}
        if off and _forwards(_EVERYTHING):
            raise NoWayOut(
                f"net.ipv4.conf.{min(off)}.forwarding is 0, but the other interfaces of this host "
                "forward packets. Set this value to 1"
            )
        switched_on = before | off | tables.get(names.table, set())
        run_blocking(["nft", "-f", "-"], rules(names, public_range, devices, switched_on))
        for device in (names.host_link, *devices):
            _forward(device, "1")


def close_way(names: Names) -> bool:
    """Undo :func:`open_way`, the record last: an interrupted run can continue. False if not open. Blocks."""
    with _one_at_a_time():
        tables = {table: _switched_on(table) for table in _tables()}
        if names.table not in tables:
            return False
        own = tables.pop(names.table)
        others = {device for found in tables.values() for device in found}
        if not _forwards(_EVERYTHING):  # else another program forwards everywhere, such as Docker
            for device in sorted(own - others):
                if (FORWARDING / device).is_dir():
                    _forward(device, "0")
        run_blocking(["nft", "delete", "table", "inet", names.table])
    return True


def is_open(names: Names) -> bool:
    """Whether the way to the Internet is open. Blocks."""
    return names.table in _tables()


def refusing(chains: Iterable[Mapping[str, Any]]) -> list[str]:
    """Chains of ``nft -json list chains`` that drop forwarded traffic by default, as Docker's or ufw's."""
    return [
        f"{chain['family']} {chain['table']} {chain['name']}"
        for chain in chains
        if chain.get("hook") == "forward" and chain.get("policy") == "drop" and chain["family"] != "ip6"
    ]


def refusing_here() -> list[str]:
    """The same on this host. Blocks."""
    return refusing(_listed("chain", ["list", "chains"]))


def _tables() -> list[str]:
    """The tables of all sites; empty if the kernel has no nftables."""
    try:
        tables = _listed("table", ["list", "tables"])
    except CommandFailed as error:
        if "not supported" in error.output:
            return []
        raise
    return [t["name"] for t in tables if t["family"] == "inet" and ANY_SITE.fullmatch(t["name"])]


def _switched_on(table: str) -> set[str]:
    try:
        (found,) = _listed("set", ["list", "set", "inet", table, _SWITCHED_ON])
    except CommandFailed as error:
        if "No such file" in error.output:  # another program's table has none
            return set()
        raise
    return set(found.get("elem", ()))


def _listed(kind: str, words: Sequence[str]) -> list[dict[str, Any]]:
    answer = json.loads(run_blocking(["nft", "--json", *words]))
    return [entry[kind] for entry in answer["nftables"] if kind in entry]


def _forwards(device: str) -> bool:
    return (FORWARDING / device / "forwarding").read_text().strip() == "1"


def _forward(device: str, value: str) -> None:
    (FORWARDING / device / "forwarding").write_text(value)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Exclusive among all clones, which share the host's interfaces. Locks a folder, so no file is left."""
    NAMESPACES.mkdir(mode=0o755, exist_ok=True)
    descriptor = os.open(NAMESPACES, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
