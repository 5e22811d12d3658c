"""What the CCM is doing while something goes wrong: the rows of the matrix.

All rows begin with the same cluster: three nodes with routes and a Service with its load balancer, and beside
them what is not ours: a route and a load balancer that somebody made by hand.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from ccm.controllers.names import SHUTDOWN_TAINT
from tests.faults.facts import (
    balancer_fact,
    certificate_fact,
    node_fact,
    route_fact,
    routes_of,
    service_fact,
)
from tests.faults.lab import FOREIGN_ROUTE, UIDS, Lab, start_controllers
from tests.faults.objects import NODES, SERVICES, service

PRIVATE = {"use-private-ip": "true"}
DOMAIN = "shop.example.com"
RICH = {
    **PRIVATE,
    "algorithm-type": "least_connections",
    "port.443.protocol": "https",
    "port.443.certificate-type": "managed",
    "port.443.http-managed-certificate-domains": DOMAIN,
}
ALL = ("s0", "s1", "s2")
NOT_OURS = (route_fact(FOREIGN_ROUTE, "s0"), "load balancer theirs of somebody else")


def other(*targets: str) -> list[str]:
    """The Service that has nothing to do with the row, and its load balancer."""
    return [service_fact("other"), balancer_fact("other", ["tcp 25>30025"], targets or ALL)]


def plain(*targets: str) -> list[str]:
    """The Service ``web`` in its simple form."""
    ports = ["tcp 80>30080", "tcp 81>30081"]
    return [service_fact("web"), balancer_fact("web", ports, targets or ALL)]


def rich() -> list[str]:
    """The Service ``web`` with all that takes a request."""
    ports = ["tcp 80>30080", "https 443>30443"]
    return [
        service_fact("web"),
        balancer_fact("web", ports, ALL, "least_connections"),
        certificate_fact("web", [DOMAIN]),
    ]


def three_nodes() -> list[str]:
    """The cluster at the beginning."""
    return [*(node_fact(name) for name in ALL), *routes_of(range(3)), *other(), *NOT_OURS]


async def nothing(_lab: Lab) -> None:
    """Nothing happens."""


@dataclass(frozen=True)
class Operation:
    """One row.

    Attributes:
        name: Its heading.
        prepare: Makes what the row begins with; the controllers run already.
        begins: What is so then, besides the three nodes.
        act: What changes in the cluster once the fault has begun.
        ends: All that has to be so at the end.
        outside: What changes in the cloud by itself just before the fault.
    """

    name: str
    prepare: Callable[[Lab], Awaitable[None]]
    begins: Callable[[], list[str]]
    act: Callable[[Lab], Awaitable[None]]
    ends: Callable[[], list[str]]
    outside: Callable[[Lab], Awaitable[None]] = nothing


async def set_up(lab: Lab) -> None:
    """The three nodes, the other Service, and what is not ours; then the controllers start."""
    for number in range(3):
        await lab.add_server(number)
        lab.put_node(number)
    (gateway,) = (key for key, name in lab.names.items() if name == "s0" and isinstance(key, str))
    route = {"destination": FOREIGN_ROUTE, "gateway": gateway}
    await lab.emulator.call("POST", f"/networks/{lab.network}/actions/add_route", route)
    theirs = {"name": "theirs", "load_balancer_type": "lb11", "location": "fsn1"}
    await lab.emulator.call("POST", "/load_balancers", theirs)
    lab.put_service(service("other", [25], PRIVATE, UIDS["other"]))
    lab.tasks += start_controllers(lab.cloud, lab.cluster)


def _nothing_more() -> list[str]:
    return []


async def _two_more_servers(lab: Lab) -> None:
    for number in (3, 4):
        await lab.add_server(number)


async def _two_new_nodes(lab: Lab) -> None:
    for number in (3, 4):
        lab.put_node(number, initialised=False)


def _five_nodes() -> list[str]:
    names = [f"s{number}" for number in range(5)]
    return [*(node_fact(name) for name in names), *routes_of(range(5)), *other(*names), *NOT_OURS]


async def _one_more_server(lab: Lab) -> None:
    await lab.add_server(3)


async def _one_more_node(lab: Lab) -> None:
    lab.put_node(3)


def _four_nodes() -> list[str]:
    names = [f"s{number}" for number in range(4)]
    return [*(node_fact(name) for name in names), *routes_of(range(4)), *other(*names), *NOT_OURS]


async def _none_ready(lab: Lab) -> None:
    for number in range(3):
        lab.put_node(number, ready=False)


async def _server_vanishes(lab: Lab) -> None:
    await lab.emulator.call("DELETE", f"/servers/{lab.server('s1')}")


async def _node_vanishes(lab: Lab) -> None:
    lab.cluster.remove(f"{NODES}/s1")


def _without_s1() -> list[str]:
    left = ("s0", "s2")
    return [*(node_fact(name) for name in left), *routes_of([0, 2]), *other(*left), *NOT_OURS]


async def _server_goes_off(lab: Lab) -> None:
    await lab.emulator.admin("POST", f"/servers/{lab.server('s1')}/events/off")
    await _none_ready(lab)


def _s1_is_off() -> list[str]:
    off = node_fact("s1", taints=[SHUTDOWN_TAINT])
    return [off, *(one for one in three_nodes() if one != node_fact("s1"))]


async def _rich_service(lab: Lab) -> None:
    lab.put_service(service("web", [80, 443], RICH, UIDS["web"]))


async def _plain_service(lab: Lab) -> None:
    lab.put_service(service("web", [80, 81], PRIVATE, UIDS["web"]))


async def _no_service(lab: Lab) -> None:
    lab.cluster.remove(f"{SERVICES}/web")


_ALL = (
    Operation("initialise nodes", _two_more_servers, _nothing_more, _two_new_nodes, _five_nodes),
    Operation("delete a node", nothing, _nothing_more, _none_ready, _without_s1, _server_vanishes),
    Operation("mark a node off", nothing, _nothing_more, _server_goes_off, _s1_is_off),
    Operation(
        "create a load balancer",
        nothing,
        _nothing_more,
        _rich_service,
        lambda: [*three_nodes(), *rich()],
    ),
    Operation(
        "update a load balancer", _plain_service, plain, _rich_service, lambda: [*three_nodes(), *rich()]
    ),
    Operation("delete a load balancer", _rich_service, rich, _no_service, three_nodes),
    Operation("create a route", _one_more_server, _nothing_more, _one_more_node, _four_nodes),
    # The server stays: a route to nowhere would go before the fault begins.
    Operation("delete a route", nothing, _nothing_more, _node_vanishes, _without_s1),
)
OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in _ALL}
