"""Load balancers: a Service on its way from spec to applied."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ccm.cloud import Ingress, LoadBalancerResult, NodeView, Orphan, ServiceView
from hcloud import Client
from hcloud.actions import BoundAction
from hcloud.load_balancer_types import LoadBalancerType
from hcloud.load_balancers import (
    BoundLoadBalancer,
    LoadBalancerHealthCheck,
    LoadBalancerService,
    LoadBalancerTarget,
)
from hcloud.locations import Location
from hcloud.networks import BoundNetwork
from hcloud.servers import Server

from api import call
from instances import SCHEME


@dataclass(frozen=True)
class Spec:
    """What the Service asks for."""

    name: str
    ports: Mapping[int, int]  # where clients connect, and where the nodes listen


@dataclass(frozen=True)
class Observed:
    """The load balancer in the cloud."""

    exists: bool = False
    ports: Mapping[int, int] = field(default_factory=dict)
    servers: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Desired:
    """The load balancer as it should be."""

    ports: Mapping[int, int]
    servers: frozenset[int]


@dataclass(frozen=True)
class Step:
    """One change: what to do, and with which port or server."""

    action: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.action} {self.number}" if self.number else self.action


@dataclass(frozen=True)
class Applied:
    """What was done, and where clients reach the Service now."""

    steps: tuple[str, ...]
    address: str


def spec_of(service: ServiceView) -> Spec:
    ports = {each.port: each.node_port for each in service.ports}
    return Spec(f"{service.name}-{service.uid[:8]}", ports)


def observed_of(balancer: BoundLoadBalancer | None) -> Observed:
    if balancer is None:
        return Observed()
    ports = {each.listen_port: each.destination_port for each in balancer.services}
    servers = frozenset(each.server.id for each in balancer.targets)
    return Observed(exists=True, ports=ports, servers=servers)


def desired_of(spec: Spec, nodes: Sequence[NodeView]) -> Desired:
    ids = [node.provider_id for node in nodes if node.provider_id.startswith(SCHEME)]
    return Desired(spec.ports, frozenset(int(each.removeprefix(SCHEME)) for each in ids))


def plan(desired: Desired, observed: Observed) -> tuple[Step, ...]:
    steps = [] if observed.exists else [Step("create load balancer")]
    for port, node_port in desired.ports.items():
        if port not in observed.ports:
            steps.append(Step("add port", port))
        elif observed.ports[port] != node_port:
            steps.append(Step("change port", port))
    removed = observed.ports.keys() - desired.ports.keys()
    steps += [Step("remove port", port) for port in sorted(removed)]
    steps += [Step("add server", each) for each in sorted(desired.servers - observed.servers)]
    steps += [Step("remove server", each) for each in sorted(observed.servers - desired.servers)]
    return tuple(steps)


def listener(port: int, node_port: int) -> LoadBalancerService:
    check = LoadBalancerHealthCheck("tcp", port=node_port, interval=3, timeout=2, retries=2)
    return LoadBalancerService("tcp", port, node_port, proxyprotocol=False, health_check=check)


def target(server: int) -> LoadBalancerTarget:
    return LoadBalancerTarget("server", server=Server(id=server), use_private_ip=True)


class LoadBalancers:
    def __init__(self, client: Client, network: BoundNetwork) -> None:
        self.client = client
        self.network = network

    async def ensure(self, service: ServiceView, nodes: Sequence[NodeView]) -> LoadBalancerResult:
        return await call(self.apply, service, nodes)

    async def plan(self, service: ServiceView, nodes: Sequence[NodeView]) -> Sequence[str]:
        observed = observed_of(await call(self.look_up, service))
        return [str(step) for step in plan(desired_of(spec_of(service), nodes), observed)]

    async def find(self, service: ServiceView) -> LoadBalancerResult | None:
        balancer = await call(self.look_up, service)
        return LoadBalancerResult(ingress=(address_of(balancer),)) if balancer else None

    async def delete(self, service: ServiceView) -> LoadBalancerResult:
        balancer = await call(self.look_up, service)
        if balancer is None:
            return LoadBalancerResult(ingress=())
        await call(balancer.delete)
        return LoadBalancerResult(ingress=(), steps=("delete load balancer",))

    async def orphans(self, services: Collection[str]) -> Sequence[Orphan]:
        balancers = await call(self.client.load_balancers.get_all, label_selector="service-uid")
        return [
            Orphan(each.labels["namespace"], each.labels["name"], uid, f"load balancer {each.name}")
            for each in balancers
            if (uid := each.labels["service-uid"]) not in services
        ]

    def look_up(self, service: ServiceView) -> BoundLoadBalancer | None:
        selector = f"service-uid={service.uid}"
        found = self.client.load_balancers.get_all(label_selector=selector)
        return found[0] if found else None

    def apply(self, service: ServiceView, nodes: Sequence[NodeView]) -> LoadBalancerResult:
        spec = spec_of(service)
        balancer = self.look_up(service)
        observed = observed_of(balancer)
        desired = desired_of(spec, nodes)
        steps = plan(desired, observed)
        for step in steps:
            if balancer is None:
                balancer = self.create(spec, service)
            else:
                self.change(balancer, desired, step).wait_until_finished()
        balancer = self.look_up(service)
        ingress = address_of(balancer)
        applied = Applied(tuple(map(str, steps)), ingress.ip)
        for struct in (spec, observed, desired, steps, applied):
            print(struct)
        return LoadBalancerResult(ingress=(ingress,), steps=applied.steps)

    def create(self, spec: Spec, service: ServiceView) -> BoundLoadBalancer:
        labels = {"service-uid": service.uid, "namespace": service.namespace, "name": service.name}
        created = self.client.load_balancers.create(
            name=spec.name,
            load_balancer_type=LoadBalancerType(name="lb11"),
            location=Location(name="fsn1"),
            network=self.network,
            labels=labels,
        )
        created.action.wait_until_finished()
        return created.load_balancer

    def change(self, balancer: BoundLoadBalancer, desired: Desired, step: Step) -> BoundAction:
        match step.action:
            case "add port":
                return balancer.add_service(listener(step.number, desired.ports[step.number]))
            case "change port":
                return balancer.update_service(listener(step.number, desired.ports[step.number]))
            case "remove port":
                return balancer.delete_service(LoadBalancerService(listen_port=step.number))
            case "add server":
                return balancer.add_target(target(step.number))
            case "remove server":
                return balancer.remove_target(target(step.number))
        raise ValueError(step)


def address_of(balancer: BoundLoadBalancer) -> Ingress:
    return Ingress(ip=balancer.public_net.ipv4.ip, ip_mode="VIP")
