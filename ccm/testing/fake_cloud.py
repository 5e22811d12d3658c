"""A cloud in memory with scripted failures. It is public, so that you can use it in your own tests.

It stores what tests add, and records every call by name. In each call, it does what :class:`Script`
says: raise an error, wait, or run a callback.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from ccm.cloud.errors import CloudError, Ingress, InstanceNotFound, NotOurs, Rejected
from ccm.cloud.instances import Instance, NodeView
from ccm.cloud.load_balancers import LoadBalancerResult, Orphan, ServiceView
from ccm.cloud.routes import Machine, Route, RouteTable

SCHEME = "fake://"


class Script:
    """What each call does, by its name. ``calls`` has (name, subject) of all calls so far, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self._once: defaultdict[str, deque[Exception]] = defaultdict(deque)
        self._after: defaultdict[str, deque[Exception]] = defaultdict(deque)
        self._always: dict[str, Exception] = {}
        self._delays: dict[str, float] = {}
        self._callbacks: dict[str, Callable[[str], Awaitable[None]]] = {}

    def fail(self, name: str, error: Exception, *, times: int | None = None) -> None:
        """Let a call fail: the next ``times`` times, or (None) until :meth:`heal`."""
        if times is None:
            self._always[name] = error
        else:
            self._once[name].extend([error] * times)

    def fail_after(self, name: str, error: Exception, *, times: int = 1) -> None:
        """Let a call fail after it takes effect, as if the response were lost."""
        self._after[name].extend([error] * times)

    def heal(self, name: str) -> None:
        """Let a call succeed again."""
        self._always.pop(name, None)
        self._once.pop(name, None)
        self._after.pop(name, None)

    def delay(self, name: str, seconds: float) -> None:
        """Let a call take this long."""
        self._delays[name] = seconds

    def during(self, name: str, callback: Callable[[str], Awaitable[None]]) -> None:
        """Run something inside a call; it gets the call's subject."""
        self._callbacks[name] = callback

    def count(self, name: str) -> int:
        """How often a call was made."""
        return sum(1 for called, _ in self.calls if called == name)

    @asynccontextmanager
    async def call(self, name: str, subject: str) -> AsyncGenerator[None, None]:
        """Record a call and do what the script says for it, before and after its effect."""
        await self._enter(name, subject)
        yield
        if self._after[name]:
            raise self._after[name].popleft()

    async def _enter(self, name: str, subject: str) -> None:
        self.calls.append((name, subject))
        if name in self._callbacks:
            await self._callbacks[name](subject)
        if name in self._delays:
            await asyncio.sleep(self._delays[name])
        if self._once[name]:
            raise self._once[name].popleft()
        if name in self._always:
            raise self._always[name]


class FakeInstances:
    """Machines in memory. Calls: ``list``, ``get``."""

    def __init__(self, script: Script, scheme: str = SCHEME) -> None:
        self.script = script
        self.scheme = scheme
        self.by_id: dict[str, Instance] = {}
        self.errors: dict[str, CloudError] = {}

    def add(self, instance: Instance) -> None:
        """Add a machine."""
        self.by_id[instance.provider_id] = instance

    def remove(self, provider_id: str) -> None:
        """Remove a machine."""
        self.by_id.pop(provider_id, None)

    def shut_down(self, provider_id: str, *, off: bool = True) -> None:
        """Power a machine off, or on again."""
        self.by_id[provider_id] = replace(self.by_id[provider_id], shut_down=off)

    def owns(self, provider_id: str) -> bool:
        return provider_id.startswith(self.scheme)

    async def get(self, node: NodeView, *, accepted_age: float) -> Instance:
        """See :meth:`ccm.cloud.Instances.get`; also raises the error in ``errors`` for the Node's name."""
        del accepted_age
        async with self.script.call("get", node.name):
            answer = self._look_up(node)
            if isinstance(answer, CloudError):
                raise answer
            return answer

    async def list(
        self, nodes: Sequence[NodeView], *, accepted_age: float
    ) -> Mapping[str, Instance | CloudError]:
        del accepted_age
        async with self.script.call("list", ",".join(node.name for node in nodes)):
            return {node.name: self._look_up(node) for node in nodes}

    def _look_up(self, node: NodeView) -> Instance | CloudError:
        if node.name in self.errors:
            return self.errors[node.name]
        if node.provider_id and not self.owns(node.provider_id):
            return NotOurs(node.provider_id)
        if node.provider_id:
            return self.by_id.get(node.provider_id) or InstanceNotFound(node.provider_id)
        found = [instance for instance in self.by_id.values() if instance.name == node.name]
        return found[0] if found else InstanceNotFound(node.name)


class FakeLoadBalancers:
    """Load balancers in memory. Calls: ``find``, ``plan``, ``ensure``, ``delete-load-balancer``."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.ingress = (Ingress(ip="203.0.113.80", ip_mode="VIP"),)
        self.targets: dict[str, tuple[str, ...]] = {}
        self.services: dict[str, ServiceView] = {}

    async def find(self, service: ServiceView) -> LoadBalancerResult | None:
        async with self.script.call("find", service.key):
            return LoadBalancerResult(self.ingress) if service.uid in self.targets else None

    async def plan(self, service: ServiceView, nodes: Sequence[NodeView]) -> Sequence[str]:
        async with self.script.call("plan", service.key):
            return self._steps(service, nodes)

    async def ensure(self, service: ServiceView, nodes: Sequence[NodeView]) -> LoadBalancerResult:
        async with self.script.call("ensure", service.key):
            steps = self._steps(service, nodes)
            self.targets[service.uid] = tuple(sorted(node.name for node in nodes))
            self.services[service.uid] = service
            return LoadBalancerResult(self.ingress, steps=tuple(steps))

    async def delete(self, service: ServiceView) -> LoadBalancerResult:
        async with self.script.call("delete-load-balancer", service.key):
            self.services.pop(service.uid, None)
            existed = self.targets.pop(service.uid, None) is not None
            return LoadBalancerResult((), steps=("delete",) if existed else ())

    async def orphans(self, services: Collection[str]) -> Sequence[Orphan]:
        async with self.script.call("orphans", ""):
            lost = [service for uid, service in self.services.items() if uid not in services]
            return [
                Orphan(one.namespace, one.name, one.uid, f"the load balancer of {one.key}") for one in lost
            ]

    def _steps(self, service: ServiceView, nodes: Sequence[NodeView]) -> Sequence[str]:
        if service.uid not in self.targets:
            return ["create"]
        wanted = tuple(sorted(node.name for node in nodes))
        changed = self.targets[service.uid] != wanted or self.services[service.uid] != service
        return ["update"] if changed else []


class FakeRoutes:
    """Routes in memory, in ``table``. Calls: ``list-routes``, ``create-route``, ``delete-route``."""

    def __init__(self, script: Script, scheme: str = SCHEME) -> None:
        self.script = script
        self.scheme = scheme
        self.table = RouteTable((), {})

    def attach(self, provider_id: str, name: str, address: str) -> None:
        """Add a machine to the network."""
        machines = {**self.table.machines, address: Machine(provider_id, name, address)}
        self.table = replace(self.table, machines=machines)

    def owns(self, provider_id: str) -> bool:
        return provider_id.startswith(self.scheme)

    def normalized(self, provider_id: str) -> str:
        """See :class:`ccm.cloud.NormalizesProviderIds`: leading zeros of a number don't count."""
        scheme, slash, number = provider_id.rpartition("/")
        return f"{scheme}{slash}{number.lstrip('0')}" if number.isdigit() else provider_id

    async def list(self, *, accepted_age: float) -> RouteTable:
        del accepted_age
        async with self.script.call("list-routes", ""):
            return self.table

    async def create(self, route: Route) -> None:
        """See :meth:`ccm.cloud.Routes.create`; refuses a second route to a destination."""
        async with self.script.call("create-route", route.destination):
            if (6 if ":" in route.destination else 4) not in self.table.families:
                raise Rejected(f"the network can't route {route.destination}")
            if route in self.table.routes:
                return
            if any(other.destination == route.destination for other in self.table.routes):
                raise Rejected(f"there is a route to {route.destination}")
            self.table = replace(self.table, routes=(*self.table.routes, route))

    async def delete(self, route: Route) -> None:
        async with self.script.call("delete-route", route.destination):
            self.table = replace(
                self.table, routes=tuple(other for other in self.table.routes if other != route)
            )


@dataclass
class FakeCloud:
    """A cloud in memory. If a capability is None, the cloud lacks it."""

    name: str = "fake"
    has_cluster_id: bool = True
    script: Script = field(default_factory=Script)
    instances: FakeInstances | None = None
    load_balancers: FakeLoadBalancers | None = None
    routes: FakeRoutes | None = None
    started: bool = False
    problem: str | None = None

    @classmethod
    def complete(cls) -> FakeCloud:
        """Create a cloud with every capability."""
        cloud = cls()
        cloud.instances = FakeInstances(cloud.script)
        cloud.load_balancers = FakeLoadBalancers(cloud.script)
        cloud.routes = FakeRoutes(cloud.script)
        return cloud

    async def start(self) -> None:
        async with self.script.call("start", self.name):
            self.started = True

    async def close(self) -> None:
        self.started = False

    def healthy(self) -> str | None:
        return self.problem
