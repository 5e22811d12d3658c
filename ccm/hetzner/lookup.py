"""Which Node a server is for, and why a Node finds none. Pure.

A Node that joins has no provider ID, so its name has to be its server's. The commonest mistake is that they
differ; then a server that has one of the Node's addresses tells which one was meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ccm.cloud.instances import HOSTNAME, NodeView
from ccm.cloud.notice import Notice
from ccm.hetzner.api.wire import Server
from ccm.hetzner.robot.client import RobotServer

REASON = "InstanceLookupFailed"
NODE = "ccm-from-scratch/node"


def node_of(server: Server) -> str:
    """The name of the only Node that a server is for: its label says so, or its own name."""
    return server.labels.get(NODE) or server.name


def addresses_of(server: Server) -> set[str]:
    """Its IPv4 addresses, public and private; one that it lacks may be an empty text."""
    return {server.public_ipv4, *(private.ip for private in server.private_net)}


def explain_absence(
    node: NodeView, servers: Iterable[Server], dedicated: Iterable[RobotServer] | None
) -> Notice:
    """Tell the owner of a Node why no server was found by its name.

    Args:
        node: The Node, with the addresses that its kubelet reported.
        servers: The cloud's servers, as far as known.
        dedicated: Robot's; None = Robot is not asked.
    """
    where = (
        "Hetzner Cloud has no server" if dedicated is None else "Neither Hetzner Cloud nor Robot has a server"
    )
    message = f"{where} named {node.name}; a node and its server must have the same name"
    servers, dedicated = list(servers), None if dedicated is None else list(dedicated)
    # Who has no public address has an empty one here.
    own = {address.address for address in node.addresses if address.type != HOSTNAME} - {""}
    for kind, number, name, addresses in _known(servers, dedicated or ()):
        shared = sorted(own & addresses)
        if shared:
            message += (
                f". {kind} {number}, which has its address {shared[0]}, is named {name!r}: rename one of them"
            )
            break
    else:
        alike = (one for one in _known(servers, dedicated or ()) if one[2].lower() == node.name.lower())
        for kind, number, name, _ in alike:
            message += f". {kind} {number} is named {name!r}: rename it, upper and lower case count"
            break
    return Notice(REASON, message)


def _known(
    servers: Iterable[Server], dedicated: Iterable[RobotServer]
) -> Iterator[tuple[str, int, str, set[str]]]:
    for server in servers:
        yield "Server", server.id, server.name, addresses_of(server)
    for one in dedicated:
        yield "Robot server", one.id, one.name, {one.server_ip or ""}
