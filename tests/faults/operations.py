"""What the CCM is doing while something goes wrong: the rows of the matrix.

All rows begin with the same cluster: three nodes with routes and a Service with its load balancer, and beside
them what is not ours: a route and a load balancer that somebody made by hand.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from ccm.controllers.names import SHUTDOWN_TAINT
from tests.faults.facts import balancer_fact, certificate_fact, node_fact, route_fact, routes_of, service_fact
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
NOT_OURS = (route_fact(FOREIGN_ROUTE, "s0"), "load balancer theirs of somebody else")


def cluster_of(*numbers: int, off: str = "") -> list[str]:
    """Nodes with their routes, the Service ``other`` with its load balancer, and what is not ours."""
    names = [f"s{number}" for number in numbers]
    nodes = [node_fact(name, taints=[SHUTDOWN_TAINT] if name == off else []) for name in names]
    balancer = balancer_fact("other", ["tcp 25>30025"], names)
    return [*nodes, *routes_of(numbers), service_fact("other"), balancer, *NOT_OURS]


THREE = (0, 1, 2)
THREE_NODES = cluster_of(*THREE)
_TARGETS = [f"s{number}" for number in THREE]
PLAIN_SERVICE = [service_fact("web"), balancer_fact("web", ["tcp 80>30080", "tcp 81>30081"], _TARGETS)]
RICH_SERVICE = [
    service_fact("web"),
    balancer_fact("web", ["tcp 80>30080", "https 443>30443"], _TARGETS, "least_connections"),
    certificate_fact("web", [DOMAIN]),
]
"""The Service ``web`` with all that takes a request."""

Act = Callable[[Lab], Awaitable[None]]


async def nothing(_lab: Lab) -> None:
    """Nothing happens."""


@dataclass(frozen=True)
class Operation:
    name: str  # its heading
    act: Act  # what changes in the cluster once the fault has begun
    ends: Sequence[str]  # all that is so at the end
    prepare: Act = nothing  # makes what the row begins with; the controllers run already
    begins: Sequence[str] = ()  # what is so then, besides the three nodes
    outside: Act = nothing  # what changes in the cloud by itself just before the fault


async def set_up(lab: Lab) -> None:
    """The three nodes, the other Service, and what is not ours; then the controllers start."""
    for number in THREE:
        await lab.add_server(number)
        lab.put_node(number)
    (gateway,) = (key for key, name in lab.names.items() if name == "s0" and isinstance(key, str))
    route = {"destination": FOREIGN_ROUTE, "gateway": gateway}
    await lab.emulator.call("POST", f"/networks/{lab.network}/actions/add_route", route)
    theirs = {"name": "theirs", "load_balancer_type": "lb11", "location": "fsn1"}
    await lab.emulator.call("POST", "/load_balancers", theirs)
    lab.put_service(service("other", [25], PRIVATE, UIDS["other"]))
    lab.tasks += start_controllers(lab.cloud, lab.cluster)


def servers(*numbers: int) -> Act:
    async def act(lab: Lab) -> None:
        for number in numbers:
            await lab.add_server(number)

    return act


def nodes(*numbers: int, ready: bool = True, initialized: bool = True) -> Act:
    async def act(lab: Lab) -> None:
        for number in numbers:
            lab.put_node(number, ready=ready, initialized=initialized)

    return act


def web(ports: Sequence[int], annotations: Mapping[str, str]) -> Act:
    async def act(lab: Lab) -> None:
        lab.put_service(service("web", ports, annotations, UIDS["web"]))

    return act


def removal(path: str) -> Act:
    async def act(lab: Lab) -> None:
        lab.cluster.remove(path)

    return act


async def _server_vanishes(lab: Lab) -> None:
    await lab.emulator.call("DELETE", f"/servers/{lab.server('s1')}")


async def _server_goes_off(lab: Lab) -> None:
    await lab.emulator.admin("POST", f"/servers/{lab.server('s1')}/events/off")
    await nodes(*THREE, ready=False)(lab)


_plain, _rich = web([80, 81], PRIVATE), web([80, 443], RICH)
_WITHOUT_S1 = cluster_of(0, 2)
_ALL = (
    Operation("initialize nodes", nodes(3, 4, initialized=False), cluster_of(*range(5)), servers(3, 4)),
    Operation("delete a node", nodes(*THREE, ready=False), _WITHOUT_S1, outside=_server_vanishes),
    Operation("mark a node off", _server_goes_off, cluster_of(*THREE, off="s1")),
    Operation("create a load balancer", _rich, [*THREE_NODES, *RICH_SERVICE]),
    Operation("update a load balancer", _rich, [*THREE_NODES, *RICH_SERVICE], _plain, PLAIN_SERVICE),
    Operation("delete a load balancer", removal(f"{SERVICES}/web"), THREE_NODES, _rich, RICH_SERVICE),
    Operation("create a route", nodes(3), cluster_of(*range(4)), servers(3)),
    # The server stays: a route to nowhere would go before the fault begins.
    Operation("delete a route", removal(f"{NODES}/s1"), _WITHOUT_S1),
)
OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in _ALL}
