"""Load balancers of Hetzner Cloud as a capability of a cloud."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from weakref import WeakValueDictionary

from prometheus_client import CollectorRegistry

from ccm.cloud import CloudError, LoadBalancerResult, NodeView, Notice, Orphan, Rejected, ServiceView
from ccm.hetzner.api import HetznerApi, Priority, View
from ccm.hetzner.api.errors import Refused, unavailable
from ccm.hetzner.api.wire import LoadBalancer, Location, Server
from ccm.hetzner.load_balancers import official
from ccm.hetzner.load_balancers.certificates import Certificates, Swept
from ccm.hetzner.load_balancers.changes import Sleep
from ccm.hetzner.load_balancers.creation import PATH, Site, create
from ccm.hetzner.load_balancers.errors import InvalidAnnotations, explained, incomplete
from ccm.hetzner.load_balancers.examination import Case, Examiner
from ccm.hetzner.load_balancers.finder import TargetFinder
from ccm.hetzner.load_balancers.health import complaints, count_targets
from ccm.hetzner.load_balancers.inventory import VIEW_AGE, Inventory
from ccm.hetzner.load_balancers.metrics import LoadBalancerMetrics
from ccm.hetzner.load_balancers.orphans import orphans_among
from ccm.hetzner.load_balancers.ownership import is_of_other_cluster, placed_on
from ccm.hetzner.load_balancers.plan import plan
from ccm.hetzner.load_balancers.retirement import retire
from ccm.hetzner.load_balancers.status import ingress_of
from ccm.hetzner.load_balancers.wishes.annotations import SHARE, annotations_to_keep
from ccm.hetzner.load_balancers.wishes.table import PREFIX
from ccm.hetzner.project import Project
from ccm.hetzner.settings import LoadBalancerSettings

CREATION_TIME = 3.3  # seconds that Hetzner usually takes; asking earlier only costs requests
ROUNDS = 3  # plans until what the API decides by itself has settled


class HetznerLoadBalancers:
    """Implements :class:`ccm.cloud.LoadBalancers`.

    Args:
        api: The API.
        servers: The shared view of servers.
        settings: Defaults from the environment.
        project: Knows whether it is the right one.
        scheme: What provider IDs of Cloud servers start with.
        network: The private network's id, or None; asked each time because it is known only after the start.
        cluster: The cluster's id, for labels; may be empty.
        locations: The cloud's locations; None = they are read when they are needed.
        robots: Looks up public IPv4 addresses of dedicated servers by number; None = there are none to be.
        metrics: Counted here; None = nowhere.
        sleep: Waits.
    """

    def __init__(
        self,
        api: HetznerApi,
        servers: View[Server],
        settings: LoadBalancerSettings,
        *,
        project: Project,
        scheme: str,
        network: Callable[[], int | None],
        cluster: str = "",
        locations: View[Location] | None = None,
        robots: Callable[[], Awaitable[Mapping[int, str]]] | None = None,
        metrics: LoadBalancerMetrics | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._metrics = metrics or LoadBalancerMetrics(CollectorRegistry())
        self.inventory = Inventory(api, project, locations=locations, metrics=self._metrics, sleep=sleep)
        self.certificates = Certificates(api, cluster, tenants=settings.tenants, sleep=sleep)
        self._finder = TargetFinder(servers, scheme, network, robots)
        self._examiner = Examiner(self.inventory, self._finder, self.certificates, settings, network, cluster)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def healthy(self) -> str | None:
        """What is wrong, or None."""
        return self.inventory.healthy()

    async def close(self) -> None:
        """Stop reading."""
        await self.inventory.close()
        await self.certificates.close()

    def annotations_to_keep(self, annotations: Mapping[str, str]) -> Mapping[str, str]:
        """See :class:`ccm.cloud.ChoosesAnnotations`."""
        return annotations_to_keep(annotations)

    async def find(self, service: ServiceView) -> LoadBalancerResult | None:
        """See :meth:`ccm.cloud.LoadBalancers.find`."""
        self._metrics.operation("GetLoadBalancer")
        found = placed_on(service, await self.inventory.all(service))
        return LoadBalancerResult(ingress_of(found[0], self._examiner.read(service))) if found else None

    async def plan(self, service: ServiceView, nodes: Sequence[NodeView]) -> Sequence[str]:
        """See :meth:`ccm.cloud.LoadBalancers.plan`."""
        async with self._lock(service):
            if await self._examiner.nothing_to_balance(service):
                return []
            case = await self._examiner.examine(service, nodes, dry=True)
            balancer = case.place.balancer
            steps = list(case.certificates.steps)
            if balancer is None:
                steps.append(case.describe_creation())
            else:
                steps += [str(one.step) for one in plan(case.desired, balancer)]
                steps += (await self._sweep(case, balancer, None)).steps
            others = self._others(service, balancer)
            return [*steps, *(f"leave load balancer {one.name} ({one.id})" for one in others)]

    @property
    def others(self) -> Collection[str]:
        """See :class:`ccm.cloud.KnowsOthers`."""
        return (official.NAME,)

    async def differences(self, service: ServiceView, other: str) -> Sequence[str]:  # noqa: ARG002 - one
        """See :meth:`ccm.cloud.KnowsOthers.differences`."""
        found = placed_on(service, await self.inventory.all(service))
        return [
            *self._examiner.read(service).problems.values(),
            *self._examiner.judge_for_official(service, found[0] if found else None),
        ]

    async def ensure(self, service: ServiceView, nodes: Sequence[NodeView]) -> LoadBalancerResult:
        """See :meth:`ccm.cloud.LoadBalancers.ensure`."""
        self._metrics.operation("EnsureLoadBalancer")
        async with self._lock(service):
            try:
                result = await self._ensure(service, nodes)
            except CloudError:
                # Whatever it was: the next look is a fresh one, in case that we looked into another project.
                self.inventory.doubt(service, doubtful=True)
                self.certificates.doubt()
                raise
            self.inventory.doubt(service, doubtful=False)
            return result

    async def delete(self, service: ServiceView) -> LoadBalancerResult:
        """See :meth:`ccm.cloud.LoadBalancers.delete`."""
        self._metrics.operation("EnsureLoadBalancerDeleted")
        async with self._lock(service):
            # Each step may be the first one after any number of failures, in this process or another.
            found, notices = await self.inventory.departing(service)
            steps: list[str] = []
            for balancer in found:
                if is_of_other_cluster(balancer, self._examiner.cluster):
                    notices.append(_left_to_its_cluster(balancer))
                    continue
                done, told = await retire(self.inventory, service, balancer)
                self._finder.forget(balancer)
                steps += done
                notices += told
            self.inventory.released(service)
            there = self.inventory.balancers.contents.by_id
            left = {one.id: _certificates_of(there.get(one.id)) for one in found}
            swept = await self.certificates.retire(service, left=left)
            if swept.errors:
                raise swept.errors[0]
            self.inventory.forget(service)
            self._metrics.forget(service)
            return LoadBalancerResult((), (*steps, *swept.steps), (*notices, *swept.notices))

    async def orphans(self, services: Collection[str]) -> Sequence[Orphan]:
        """See :meth:`ccm.cloud.LoadBalancers.orphans`."""
        balancers = await self.inventory.balancers.read(VIEW_AGE, Priority.SWEEP)
        self._finder.keep(balancers.by_id.keys())
        certificates = self.certificates.view.contents.by_id.values()
        return list(orphans_among(balancers.by_id.values(), certificates, services, self._examiner.cluster))

    async def _ensure(self, service: ServiceView, nodes: Sequence[NodeView]) -> LoadBalancerResult:
        if notices := await self._examiner.nothing_to_balance(service):
            return LoadBalancerResult((), notices=tuple(notices))
        case = await self._examiner.examine(service, nodes, dry=False)
        steps, errors = list(case.certificates.steps), list(case.certificates.errors)
        balancer = case.place.balancer
        if balancer is None:
            balancer = await self._create(case, steps)
        self.inventory.saw(service, balancer)
        before = balancer
        balancer = await self._converge(case, balancer, steps, errors)
        swept = await self._sweep(case, before, balancer)
        steps += swept.steps
        errors += swept.errors
        case.notices += swept.notices
        if not errors and not case.wishes.problems:
            await self._leave_others(case, balancer, steps)
        if case.wishes.problems:
            errors.insert(0, InvalidAnnotations(case.wishes.complaints))
        if errors:
            raise incomplete(errors, case.notices)
        ports = {one.listen_port for one in case.desired.listeners}
        self._metrics.saw(service, count_targets(balancer, ports))
        case.notices += complaints(balancer, ports)
        return LoadBalancerResult(ingress_of(balancer, case.wishes), tuple(steps), tuple(case.notices))

    async def _leave_others(self, case: Case, balancer: LoadBalancer, steps: list[str]) -> None:
        """The Service has moved to this load balancer; only now it leaves those where it was."""
        for other in self._others(case.service, balancer):
            done, notices = await retire(self.inventory, case.service, other)
            self._finder.forget(other)
            steps += done
            case.notices += notices

    def _others(self, service: ServiceView, balancer: LoadBalancer | None) -> list[LoadBalancer]:
        placed = placed_on(service, self.inventory.balancers.contents.by_id.values())
        return [one for one in placed if balancer is None or one.id != balancer.id]

    async def _converge(
        self, case: Case, balancer: LoadBalancer, steps: list[str], errors: list[CloudError]
    ) -> LoadBalancer:
        """Plan and apply until nothing is left to do, or something is that can't be done."""
        for _ in range(ROUNDS):
            planned = plan(case.desired, balancer)
            if not planned:
                return balancer
            applied = await self.inventory.apply(balancer, planned)
            balancer = applied.balancer
            self._finder.remember(balancer, (one.identity for one in case.desired.targets or ()))
            steps += applied.steps
            if applied.reread:
                balancer = await self.inventory.look(balancer.id)
            if applied.errors:
                errors += [explained(text, error) for text, error in applied.errors]
                return balancer
            if not applied.reread:
                return balancer
        return balancer

    async def _create(self, case: Case, steps: list[str]) -> LoadBalancer:
        """Make the load balancer and wait until it is ready."""
        if case.site == Site():
            text = (
                f"no location is known for the load balancer: annotate the Service with {PREFIX}location or "
                f"{PREFIX}network-zone, or set HCLOUD_LOAD_BALANCERS_LOCATION"
            )
            raise Rejected(text, notices=(Notice("LoadBalancerLocationMissing", text),))
        api, inventory = self.inventory.api, self.inventory
        try:
            created = await create(api, case.desired, case.site)
        except Refused as error:
            if error.code == "uniqueness_error":
                return await self._find_late(case)
            raise
        balancer = created.load_balancer
        inventory.balancers.put(balancer)  # at once: whatever happens now, it is found again
        self._finder.remember(balancer, (one.identity for one in case.desired.targets or ()))
        steps.append(case.describe_creation())
        if created.action.status == "running":
            await inventory.sleep(CREATION_TIME)
        await api.wait(created.action)
        return await inventory.look(balancer.id) if case.desired.network is not None else balancer

    async def _find_late(self, case: Case) -> LoadBalancer:
        """The name is taken: maybe by our own request of before, whose answer never came."""
        place = await self._examiner.locate(case.service, case.wishes, age=0.0)
        if place.balancer is None:
            raise unavailable(
                f"POST {PATH}", f"the name {case.desired.name!r} is taken, but by no load balancer"
            )
        return place.balancer

    async def _sweep(self, case: Case, before: LoadBalancer, after: LoadBalancer | None) -> Swept:
        """Delete managed certificates that were replaced; not while something else is still wrong.

        Args:
            case: The Service.
            before: Its load balancer as it was.
            after: As it is now; None = only say what would be deleted.
        """
        if case.certificates.errors or case.wishes.problems:
            return Swept()
        look = bool(_certificates_of(before) - case.certificates.managed)
        used = case.certificates.managed | _certificates_of(after)
        try:
            return await self.certificates.sweep(case.service, used, before.id, look=look, dry=after is None)
        except CloudError as error:
            return Swept(errors=[error])

    def _lock(self, service: ServiceView) -> asyncio.Lock:
        share = service.annotations.get(SHARE, "").strip()
        key = f"share {share}" if share else service.uid
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock


def _left_to_its_cluster(balancer: LoadBalancer) -> Notice:
    """A Service with the same UID is there too, as when a cluster was restored beside itself."""
    text = (
        f"load balancer {balancer.name} ({balancer.id}) stays, because it is labelled as another cluster's; "
        "delete it yourself if nobody needs it"
    )
    return Notice("LoadBalancerReleased", text)


def _certificates_of(balancer: LoadBalancer | None) -> set[int]:
    """Ids of the certificates that a load balancer serves with."""
    services = balancer.services if balancer is not None else ()
    return {number for one in services if one.http for number in one.http.certificates}
