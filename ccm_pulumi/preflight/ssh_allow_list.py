"""Refuses an allow-list without the address of this program, before the firewall applies it.

A server of the cluster reports that address, so no third party is involved. A first run has no server and is
not checked; there the error of the connection names the firewall.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Collection

from ..config.labels import NAT
from ..config.setting_types import key_of
from ..lib.errors import ConfigurationError, InfraError, Problem
from ..lib.ssh import Host, run_once
from .adoption import DYNAMIC, FIREWALL, SERVER, State

_SECONDS = 10.0


def refuse_to_shut_out(allowed: Collection[str], state: State, ask: Callable[[Host], str]) -> None:
    """Refuses a changed allow-list without this program's address, as far as ``ask`` knows that."""
    host = _entrance(state)
    if host is None or set(allowed) == _allowed_before(state):
        return
    seen = ask(host)
    if seen and not any(ipaddress.ip_address(seen) in ipaddress.ip_network(one) for one in allowed):
        why = f"add {seen}, the address from which this program connects to the servers"
        raise ConfigurationError([Problem(key_of("ssh_allowed_cidrs"), ", ".join(allowed), why)])


def address_seen_by(host: Host) -> str:
    """The address from which a server sees this program; empty if it does not answer."""
    asking = run_once(
        [host], 'echo "${SSH_CONNECTION%% *}"', what="asking for our address", timeout=5, within=_SECONDS
    )
    try:
        return str(ipaddress.ip_address(asyncio.run(asking).strip()))
    except (InfraError, ValueError):
        return ""


def _allowed_before(state: State) -> set[str]:
    rules = state.get((FIREWALL, "servers"), {}).get("rules") or []
    return {source for rule in rules if rule.get("port") == "22" for source in rule.get("sourceIps") or ()}


def _entrance(state: State) -> Host | None:
    """The server by which this program reaches the others, from the state."""
    key = state.get((f"{DYNAMIC}KeyPair", "key"))
    for role in (NAT, "control"):
        server = state.get((SERVER, role))
        boot = state.get((f"{DYNAMIC}Boot", role))
        if key and server and boot and server.get("ipv4Address"):
            return Host(server["ipv4Address"], key["private_key"], boot.get("host_key"))
    return None
