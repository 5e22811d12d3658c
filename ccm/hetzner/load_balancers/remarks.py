"""Annotations that have no effect: misspelt ones, and those that don't fit to the rest. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from ccm.cloud import ServicePort
from ccm.hetzner.load_balancers.keys import KEYS, PORT_KEYS
from ccm.hetzner.load_balancers.reader import PREFIX, Texts
from ccm.hetzner.load_balancers.wording import LONGEST_SHOWN, enumerated

_PORT_KEY = re.compile(r"port\.([^.]*)\.(.+)")
_HTTP = frozenset(
    {
        "http-cookie-name",
        "http-cookie-lifetime",
        "http-timeout-idle",
        "http-sticky-sessions",
    }
)
_NO_SUCH = "there is no such annotation"
_MOST_GUESSES = 5  # each costs as much as reading dozens of annotations, and a Service may have hundreds
_CHECKS = frozenset(
    {
        "health-check-http-domain",
        "health-check-http-path",
        "health-check-http-validate-certificate",
        "http-status-codes",
    }
)


def remarks_on(
    texts: Texts, ports: Iterable[ServicePort], spoken: Mapping[int, tuple[str, str]], *, network: bool
) -> dict[str, str]:
    """What to say about annotations that have no effect, by annotation.

    Args:
        texts: The annotations.
        ports: All ports of the Service.
        spoken: The protocol of each that a load balancer can have, and of its health check.
        network: Whether there is a private network.
    """
    numbers = sorted({port.port for port in ports})
    has = enumerated([*map(str, numbers)]) or "no ports"
    protocols, checks = ({one[place] for one in spoken.values()} for place in (0, 1))
    remarks: dict[str, str] = {}
    for key in (*texts.whole, *(one for one in texts.emptied - KEYS if not _PORT_KEY.fullmatch(one))):
        why = _why(key, has) or _unspoken(key, protocols, checks) or _misplaced(key, texts, network=network)
        if why:
            remarks[PREFIX + key] = f"{PREFIX}{key}: {why}"
    known = frozenset(numbers)
    for number, keys in texts.ports.items():
        protocol, check = spoken.get(number, ("tcp", "tcp"))
        absent = "" if number in known else f"the Service has no port {number}, it has {has}"
        for key in keys:
            why = _not_of_a_port(key) or absent or _unspoken(key, {protocol}, {check})
            if why:
                name = f"{PREFIX}port.{number}.{key}"
                remarks[name] = f"{name}: {why}"
    wrong = [name for name, why in remarks.items() if why.endswith(_NO_SUCH)]
    for name in wrong[:_MOST_GUESSES]:
        remarks[name] += _similar(name.removeprefix(PREFIX))
    return remarks


def _why(key: str, has: str) -> str:
    """Why a key that is none has no effect; empty = it is one."""
    if key in KEYS:
        return ""
    match = _PORT_KEY.fullmatch(key)
    absent = f"the Service has no port {match[1]:.20}, it has {has}" if match else _NO_SUCH
    return absent if match is None else _not_of_a_port(match[2]) or absent


def _not_of_a_port(key: str) -> str:
    """Why a key can't be given for a port alone; empty = it can."""
    if key in PORT_KEYS:
        return ""
    return f"counts for the whole load balancer only: write {PREFIX}{key}" if key in KEYS else _NO_SUCH


def _similar(key: str) -> str:
    """The key that was probably meant, as a question."""
    match = _PORT_KEY.fullmatch(key)
    start, name, known = (f"port.{match[1]}.", match[2], PORT_KEYS) if match else ("", key, KEYS)
    if len(name) > LONGEST_SHOWN:
        return ""
    found = get_close_matches(name.lower(), sorted(known), n=1)
    return f"; did you mean {PREFIX}{start}{found[0]}?" if found else ""


def _unspoken(key: str, protocols: Collection[str], checks: Collection[str]) -> str:
    """HTTP's settings need a port that speaks it."""
    if key in _CHECKS:
        return "" if "http" in checks else "has no effect without health-check-protocol http or https"
    if key == "http-redirect-http" or "certificate" in key:
        return "" if "https" in protocols else "has no effect without protocol https"
    if key in _HTTP and not {"http", "https"} & {*protocols}:
        return "has no effect without protocol http or https"
    return ""


def _misplaced(key: str, texts: Texts, *, network: bool) -> str:
    if key == "node-selector" and "share" in texts.whole:
        return "has no effect on a shared load balancer, all Services have the same targets"
    if key in {"private-ipv4", "private-subnet-ip-range"} and not network:
        return "has no effect without a private network: set HCLOUD_NETWORK"
    return ""
