"""How our own commands reach a machine: ssh with the key of the Pulumi program."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hetzner_machines.names import NAMESPACES, Names
from sandbox.site import Site

_OPTIONS = (
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "LogLevel=ERROR",
    "ConnectTimeout=10",
    # a server refuses a client after some keys: those of an agent come before the one that is named
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
)


class Way(NamedTuple):
    """How a machine is reached."""

    address: str  # public IPv4 address; of a machine without, the private one
    jump: str = ""  # public IPv4 address of the machine through which one without is reached
    # The machine's network namespace, where no address leads to it from here: it is reached in there, at its
    # loopback address.
    namespace: str = ""


def ssh(site: Site, way: Way, *options: str) -> list[str]:
    """The command that logs in to a machine as root; what runs there is put behind it."""
    entered = ["nsenter", f"--net={NAMESPACES / way.namespace}"] if way.namespace else []
    chosen = [word for option in (*_OPTIONS, *options) for word in ("-o", option)]
    if way.jump:
        # ssh's own -J takes neither the key nor these options to the machine in between
        through = shlex.join(ssh(site, Way(way.jump), *options)[:-1])
        chosen += ["-o", f"ProxyCommand={through} -W %h:%p root@{way.jump}"]
    # a person's own configuration may name another port or user for all hosts
    return [*entered, "ssh", "-F", "none", "-i", str(site.ssh_key), *chosen, f"root@{way.address}"]


def ways(site: Site, servers: Iterable[Mapping[str, Any]]) -> dict[str, Way | None]:
    """How each machine is reached, by server name; None for one that does not run and has no address."""
    listed, names = list(servers), Names(site.id)
    jump = next((_public(server) for server in listed if server["labels"].get("role") == "nat"), "")
    return {server["name"]: _way(server, jump, names) for server in listed}


def _way(server: Mapping[str, Any], jump: str, names: Names) -> Way | None:
    if public := _public(server):
        return Way(public)
    private = [at["ip"] for at in server["private_net"]]
    if private and jump:
        return Way(private[0], jump)
    # a machine has its namespace as long as it runs
    running = server["status"] == "running"
    return Way("127.0.0.1", namespace=names.server(server["id"])) if running else None


def _public(server: Mapping[str, Any]) -> str:
    return (server["public_net"]["ipv4"] or {}).get("ip", "")
