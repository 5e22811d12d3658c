"""Annotations that have no effect: misspelt ones, and those that don't fit to the rest. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches

from ccm.cloud import ServiceView
from ccm.hetzner.load_balancers.keys import KEYS, PORT_KEYS
from ccm.hetzner.load_balancers.reader import LONGEST_SHOWN, PREFIX

_PORT_KEY = re.compile(r"port\.([^.]*)\.(.+)")
_NO_SUCH = "there is no such annotation"
_MOST_GUESSES = 5  # each costs as much as reading dozens of annotations, and a Service may have thousands
_HTTP = frozenset({"http-cookie-name", "http-cookie-lifetime", "http-timeout-idle", "http-sticky-sessions"})


def remarks_on(service: ServiceView, protocols: Mapping[int, str], *, network: bool) -> dict[str, str]:
    """What to say about annotations that have no effect, by annotation.

    Args:
        service: The Service.
        protocols: Which protocol each of its ports has.
        network: Whether there is a private network.
    """
    remarks: dict[str, str] = {}
    guesses = _MOST_GUESSES
    for name, value in service.annotations.items():
        key = name.removeprefix(PREFIX)
        if key == name:
            continue
        why = _why(key, protocols) or next(_misplaced(key, service, network=network), "")
        if why == _NO_SUCH and guesses:
            guesses -= 1
            why += _similar(key)
        if why and (value.strip() or key not in KEYS):
            remarks[name] = f"{name}: {why}"
    return remarks


def _why(key: str, protocols: Mapping[int, str]) -> str:
    """Why a key of a port, or one that is none, has no effect; empty = it has."""
    match = _PORT_KEY.fullmatch(key)
    if key in KEYS:
        return _unspoken(key, protocols.values()) if key in PORT_KEYS else ""
    if match is not None and match[2] in KEYS - PORT_KEYS:
        return f"counts for the whole load balancer only: write {PREFIX}{match[2]}"
    if match is None or match[2] not in PORT_KEYS:
        return _NO_SUCH
    known = {str(number): protocol for number, protocol in protocols.items()}
    if match[1] not in known:
        has = ", ".join(sorted(known, key=int)) or "no ports"
        return f"the Service has no port {match[1]:.20}, it has {has}"
    return _unspoken(match[2], [known[match[1]]])


def _similar(key: str) -> str:
    """The key that was probably meant, as a question."""
    match = _PORT_KEY.fullmatch(key)
    start, name, known = (f"port.{match[1]}.", match[2], PORT_KEYS) if match else ("", key, KEYS)
    if len(name) > LONGEST_SHOWN:
        return ""
    found = get_close_matches(name.lower(), sorted(known), n=1)
    return f"; did you mean {PREFIX}{start}{found[0]}?" if found else ""


def _unspoken(key: str, protocols: Collection[str]) -> str:
    """HTTP's settings need a port that speaks it."""
    if ("certificate" in key and not key.startswith("health-check")) and "https" not in protocols:
        return "has no effect without protocol https"
    if key in _HTTP and not {"http", "https"} & set(protocols):
        return "has no effect without protocol http or https"
    return ""


def _misplaced(key: str, service: ServiceView, *, network: bool) -> Iterator[str]:
    if key == "node-selector" and service.annotations.get(PREFIX + "share", "").strip():
        yield "has no effect on a shared load balancer, all Services have the same targets"
    if key in {"private-ipv4", "private-subnet-ip-range"} and not network:
        yield "has no effect without a private network: set HCLOUD_NETWORK"
