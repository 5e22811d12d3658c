"""Load balancers of Hetzner Cloud as a capability of a cloud."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

from ccm.cloud import (
    AccessDenied,
    CloudError,
    LoadBalancerResult,
    NodeView,
    Notice,
    Rejected,
    ServiceView,
)
from ccm.hetzner.api import HetznerApi
from ccm.hetzner.budget import Priority
from ccm.hetzner.environment import LoadBalancerSettings
from ccm.hetzner.errors import NotFound, Refused, RefusedProtected, unavailable
from ccm.hetzner.load_balancers.annotations import Wishes, read
from ccm.hetzner.load_balancers.apply import Sleep, apply, delete
from ccm.hetzner.load_balancers.certificates import Certificates, Resolution
from ccm.hetzner.load_balancers.creation import PATH, Site, create, site_near
from ccm.hetzner.load_balancers.desire import Circumstances, desire, only_targets, released
from ccm.hetzner.load_balancers.ownership import (
    ADOPTED,
    SERVICE_UID,
    Place,
    labels_after,
    locate,
    placed_on,
    ports_by_label,
)
from ccm.hetzner.load_balancers.plan import Desired, Planned, plan
from ccm.hetzner.load_balancers.reader import PREFIX
from ccm.hetzner.load_balancers.status import ingress_of
from ccm.hetzner.load_balancers.targets import Target, candidates, settle, target_of
from ccm.hetzner.snapshot import View
from ccm.hetzner.wire import Certificate, LoadBalancer, LoadBalancerType, Network, Server

VIEW_AGE = 30.0  # how old the list of load balancers may be, in seconds
SERVERS_AGE = 60.0
MISSING_AGE = 60.0  # seconds for which a server that a fresh list lacks is taken to be missing
TYPES_AGE = 3600.0
CREATION_TIME = 3.3  # seconds that Hetzner usually takes; asking earlier only costs requests
ROUNDS = 3  # plans until what the API decides by itself has settled
DEFAULT_TYPE = "lb11"
_TARGET_KEYS = frozenset({PREFIX + "node-selector", PREFIX + "use-private-ip"})


class InvalidAnnotations(Rejected):
    """Annotations of a Service are wrong; names them all."""

    def __init__(self, problems: Iterable[str]) -> None:
        text = "; ".join(problems)
        super().__init__(text, notices=(Notice("InvalidLoadBalancerAnnotation", text),))


class LoadBalancerIncomplete(CloudError):
    """A load balancer is not all that it should be; the rest of it is."""


@dataclass
class _Case:
    """One look at one Service's load balancer."""

    service: ServiceView
    wishes: Wishes
    place: Place
    desired: Desired
    site: Site = field(default_factory=Site)
    certificates: Resolution = field(default_factory=Resolution)
    notices: list[Notice] = field(default_factory=list[Notice])


class HetznerLoadBalancers:
    """Implements :class:`ccm.cloud.LoadBalancers`.

    Args:
        api: The API.
        servers: The shared view of servers.
        settings: Defaults from the environment.
        scheme: What provider IDs of Cloud servers start with.
        network: The private network's id, or None; asked each time because it is known only after the start.
        cluster: The cluster's id, for labels; may be empty.
        sleep: Waits.
    """

    def __init__(
        self,
        api: HetznerApi,
        servers: View[Server],
        settings: LoadBalancerSettings,
        *,
        scheme: str,
        network: Callable[[], int | None],
        cluster: str = "",
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._api = api
        self._servers = servers
        self._settings = settings
        self._scheme = scheme
        self._network = network
        self._cluster = cluster
        self._sleep = sleep
        self._balancers: View[LoadBalancer] = View(
            lambda priority: api.list(PATH, "load_balancers", LoadBalancer, priority=priority)
        )
        self._types: View[LoadBalancerType] = View(
            lambda priority: api.list(
                "/load_balancer_types", "load_balancer_types", LoadBalancerType, priority=priority
            )
        )
        certificates: View[Certificate] = View(
            lambda priority: api.list("/certificates", "certificates", Certificate, priority=priority)
        )
        self._certificates = Certificates(api, certificates, cluster, sleep=sleep)
        self._views = (self._balancers, self._types, certificates)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._doubtful: set[str] = set()
        self._seen: dict[str, int] = {}
        self._added: dict[int, set[tuple[int, str]]] = {}
        self._missing: dict[int, float] = {}

    async def close(self) -> None:
        """Stop reading."""
        for view in self._views:
            await view.close()

    async def find(self, service: ServiceView) -> LoadBalancerResult | None:
        """See :meth:`ccm.cloud.LoadBalancers.find`."""
        found = placed_on(service, await self._all(service))
        wishes = self._read(service)
        return LoadBalancerResult(ingress_of(found[0], wishes)) if found else None

    async def plan(self, service: ServiceView, nodes: Sequence[NodeView]) -> Sequence[str]:
        """See :meth:`ccm.cloud.LoadBalancers.plan`."""
        async with self._lock(service):
            case = await self._examine(service, nodes, dry=True)
            balancer = case.place.balancer
            steps = list(case.certificates.steps)
            if balancer is None:
                return [*steps, *_describe_creation(case)]
            steps += [str(one.step) for one in plan(case.desired, balancer)]
            return [*steps, *(await self._sweep(case, balancer, dry=True))[0]]

    async def ensure(self, service: ServiceView, nodes: Sequence[NodeView]) -> LoadBalancerResult:
        """See :meth:`ccm.cloud.LoadBalancers.ensure`."""
        async with self._lock(service):
            try:
                result = await self._ensure(service, nodes)
            except CloudError:
                # Whatever it was: the next look is a fresh one.
                self._doubtful.add(service.uid)
                raise
            self._doubtful.discard(service.uid)
            return result

    async def delete(self, service: ServiceView) -> LoadBalancerResult:
        """See :meth:`ccm.cloud.LoadBalancers.delete`."""
        async with self._lock(service):
            steps: list[str] = []
            notices: list[Notice] = []
            found = placed_on(service, await self._all(service, age=0.0))
            if not found:
                await self._check_vanished(service)
            for balancer in found:
                await self._remove(service, balancer, steps, notices)
            managed = any("managed" in value.lower() for value in service.annotations.values())
            swept, errors = await self._certificates.sweep(service, (), look=managed, dry=False)
            if errors:
                raise errors[0]
            self._seen.pop(service.uid, None)
            self._doubtful.discard(service.uid)
            return LoadBalancerResult((), steps=(*steps, *swept), notices=tuple(notices))

    async def _ensure(self, service: ServiceView, nodes: Sequence[NodeView]) -> LoadBalancerResult:
        case = await self._examine(service, nodes, dry=False)
        problems = list(case.wishes.problems.values())
        steps, errors = list(case.certificates.steps), list(case.certificates.errors)
        balancer = case.place.balancer
        if balancer is None:
            if problems:
                raise InvalidAnnotations(problems)
            balancer = await self._create(case, steps)
        self._seen[service.uid] = balancer.id
        balancer = await self._converge(case, balancer, steps, errors)
        swept, leftovers = await self._sweep(case, balancer, dry=False)
        steps += swept
        errors += leftovers
        if problems:
            errors.insert(0, InvalidAnnotations(problems))
        if errors:
            raise _incomplete(errors, case.notices)
        return LoadBalancerResult(ingress_of(balancer, case.wishes), tuple(steps), tuple(case.notices))

    async def _converge(
        self, case: _Case, balancer: LoadBalancer, steps: list[str], errors: list[CloudError]
    ) -> LoadBalancer:
        """Plan and apply until nothing is left to do, or something is that can't be done."""
        for _ in range(ROUNDS):
            planned = plan(case.desired, balancer)
            if not planned:
                return balancer
            applied = await apply(self._api, balancer, planned, sleep=self._sleep)
            balancer = applied.balancer
            self._balancers.put(balancer)
            self._remember_targets(balancer.id, planned)
            steps += applied.steps
            if applied.reread:
                balancer = await self._look(balancer.id)
            if applied.errors:
                errors += [_explain(text, error) for text, error in applied.errors]
                return balancer
            if not applied.reread:
                return balancer
        return balancer

    async def _examine(self, service: ServiceView, nodes: Sequence[NodeView], *, dry: bool) -> _Case:
        """Find out what there is and what there should be."""
        wishes = self._read(service)
        place = locate(service, wishes, await self._all(service), self._cluster)
        if place.balancer is None:
            await self._check_vanished(service)
        wanted_type, limits, notices = await self._type(service, wishes, place)
        if wishes.problems and place.balancer is None:
            raise InvalidAnnotations(wishes.problems.values())
        certificates = (
            Resolution() if wishes.problems else await self._certificates.resolve(service, wishes, dry=dry)
        )
        targets, cluster_targets, more = await self._targets(wishes, place, limits, nodes)
        around = Circumstances(
            place=place,
            cluster=self._cluster,
            network=self._network(),
            type=wanted_type,
            limits=limits,
            certificates=certificates.by_port,
            targets=targets,
            cluster_targets=cluster_targets,
            reachable=self._reachable(),
        )
        desired, remarks = desire(service, wishes, around)
        if wishes.problems and place.balancer is not None:
            desired = only_targets(desired, place.balancer)
            if wishes.problems.keys() & _TARGET_KEYS:
                desired = only_targets(Desired(place.balancer.name, place.balancer.labels), place.balancer)
        if certificates.errors and place.balancer is not None:
            desired = _keeping_listeners(desired, place.balancer, wishes)
        case = _Case(service, wishes, place, desired, certificates=certificates)
        case.notices = [*_remarks(wishes), *notices, *more, *remarks, *certificates.notices]
        if place.balancer is None:
            case.site = Site(wishes.location, wishes.network_zone)
            if case.site == Site():
                case.site = await self._site(nodes)
        return case

    async def _type(
        self, service: ServiceView, wishes: Wishes, place: Place
    ) -> tuple[LoadBalancerType | None, LoadBalancerType, list[Notice]]:
        """The type that is wanted (None = leave it), the one whose limits hold, and remarks."""
        present = place.balancer.load_balancer_type if place.balancer else None
        if present is not None and wishes.type in ("", present.name):
            return None, present, []
        known = (await self._types.read(TYPES_AGE, Priority.LOAD_BALANCERS)).by_name
        name = wishes.type or DEFAULT_TYPE
        wanted = known.get(name)
        if wanted is None:
            text = f"{PREFIX}type: {name!r} is not one of {', '.join(sorted(known))}"
            raise InvalidAnnotations([text, *wishes.problems.values()])
        notices: list[Notice] = []
        if not wishes.type:
            text = f"no type is configured, {name} is used; set {PREFIX}type or HCLOUD_LOAD_BALANCERS_TYPE"
            notices.append(Notice("LoadBalancerTypeUnconfigured", text))
        if wanted.deprecated:
            notices.append(
                Notice("LoadBalancerTypeDeprecated", f"type {name} of {service.key} is deprecated")
            )
        return wanted, wanted, notices

    async def _targets(
        self, wishes: Wishes, place: Place, limits: LoadBalancerType, nodes: Sequence[NodeView]
    ) -> tuple[tuple[Target, ...], frozenset[tuple[int, str]], list[Notice]]:
        """The targets, the identities of all that are this cluster's, and remarks."""
        selected = [node for node in nodes if wishes.share or wishes.nodes.matches(node.labels)]
        wanted = candidates(selected, self._scheme, private=wishes.use_private_ip)
        balancer = place.balancer
        found = (target_of(one) for one in balancer.targets) if balancer else ()
        present = {one for one in found if one is not None}
        unknown = {one.server for one in wanted.by_node.values() if one.server and one not in present}
        await self._look_up(unknown)
        targets, notices = settle(
            wanted,
            present,
            self._servers.contents.by_id.get,
            network=self._network(),
            limit=limits.max_targets,
        )
        every = candidates(nodes, self._scheme, private=wishes.use_private_ip).by_node.values()
        ours = {one.identity for one in every}
        if balancer is not None:
            ours |= self._added.get(balancer.id, ours)
        return targets, frozenset(ours), notices

    async def _look_up(self, numbers: set[int]) -> None:
        """Have servers in the view; what was missed in a fresh list is not looked for again at once."""
        if not numbers:
            return
        servers = (await self._servers.read(SERVERS_AGE, Priority.LOAD_BALANCERS)).by_id
        missing = numbers - servers.keys()
        now = time.monotonic()
        self._missing = {one: since for one, since in self._missing.items() if now - since < MISSING_AGE}
        if missing - self._missing.keys():
            servers = (await self._servers.read(0.0, Priority.LOAD_BALANCERS)).by_id
            self._missing.update(dict.fromkeys(missing - servers.keys(), now))

    async def _create(self, case: _Case, steps: list[str]) -> LoadBalancer:
        """Make the load balancer and wait until it is ready."""
        if case.site == Site():
            text = (
                f"no location is known for the load balancer: annotate the Service with {PREFIX}location or "
                f"{PREFIX}network-zone, or set HCLOUD_LOAD_BALANCERS_LOCATION"
            )
            raise Rejected(text, notices=(Notice("LoadBalancerLocationMissing", text),))
        try:
            created = await create(self._api, case.desired, case.site)
        except Refused as error:
            if error.code == "uniqueness_error":
                return await self._find_late(case)
            raise
        balancer = created.load_balancer
        self._balancers.put(balancer)  # at once: whatever happens now, it is found again
        steps += _describe_creation(case)
        if created.action.status == "running":
            await self._sleep(CREATION_TIME)
        await self._api.wait(created.action)
        return await self._look(balancer.id) if case.desired.network is not None else balancer

    async def _find_late(self, case: _Case) -> LoadBalancer:
        """The name is taken: maybe by our own request of before, whose answer never came."""
        place = locate(case.service, case.wishes, await self._all(case.service, age=0.0), self._cluster)
        if place.balancer is None:
            raise unavailable(
                f"POST {PATH}", f"the name {case.desired.name!r} is taken, but by no load balancer"
            )
        return place.balancer

    async def _remove(
        self, service: ServiceView, balancer: LoadBalancer, steps: list[str], notices: list[Notice]
    ) -> None:
        """Delete a load balancer, or leave it if it is not for us to delete."""
        name = f"load balancer {balancer.name} ({balancer.id})"
        owners = ports_by_label(balancer)
        others = set(owners.values()) - {service.uid}
        leads = balancer.labels.get(SERVICE_UID) == service.uid
        if not leads or others or ADOPTED in balancer.labels:
            mine = [port for port, uid in owners.items() if uid == service.uid]
            ports = mine if owners else [one.listen_port for one in balancer.services]
            rest = released(labels_after(service, balancer), balancer, ports, targets=leads and not owners)
            await self._release(balancer, rest, steps)
            if not others:
                text = f"{name} was not made for this Service and stays"
                notices.append(Notice("LoadBalancerReleased", text, warning=False))
            return
        try:
            if not balancer.protection.delete:
                await delete(self._api, f"{PATH}/{balancer.id}", sleep=self._sleep)
                self._balancers.remove(balancer.id)
                steps.append(f"delete {name}")
                return
        except NotFound:
            self._balancers.remove(balancer.id)
            return
        except RefusedProtected:
            pass
        await self._release(
            balancer, released(labels_after(service, balancer), balancer, (), targets=False), steps
        )
        text = f"{name} stays because it is protected against deletion; delete it yourself when you want to"
        notices.append(Notice("LoadBalancerProtected", text))

    async def _release(self, balancer: LoadBalancer, rest: Desired, steps: list[str]) -> None:
        applied = await apply(self._api, balancer, plan(rest, balancer), sleep=self._sleep)
        self._balancers.put(applied.balancer)
        steps += applied.steps
        if applied.errors:
            raise applied.errors[0][1]

    async def _sweep(
        self, case: _Case, balancer: LoadBalancer, *, dry: bool
    ) -> tuple[list[str], list[CloudError]]:
        """Delete managed certificates that were replaced; not while something else is still wrong."""
        if case.certificates.errors or case.wishes.problems:
            return [], []
        in_use = {number for one in balancer.services if one.http for number in one.http.certificates}
        look = bool(in_use - case.certificates.managed)
        try:
            return await self._certificates.sweep(case.service, case.certificates.managed, look=look, dry=dry)
        except CloudError as error:
            return [], [error]

    async def _check_vanished(self, service: ServiceView) -> None:
        """A load balancer that we have seen is not in the list: is it gone, or are we in another project?

        Raises:
            AccessDenied: nothing of ours is there, so the list proves nothing.
        """
        number = self._seen.get(service.uid)
        if number is None:
            return
        try:
            self._balancers.put(await self._get(number))
        except NotFound:
            pass
        else:
            text = f"load balancer {number} was this Service's and has lost its labels; adopt or delete it"
            raise Rejected(text, notices=(Notice("LoadBalancerNotOurs", text),))
        network = self._network()
        if network is not None:
            try:
                await self._api.get(
                    f"/networks/{network}", "network", Network, priority=Priority.LOAD_BALANCERS
                )
            except NotFound:
                raise _vanished(f"load balancer {number} is gone, and so is network {network}") from None
        alive = self._balancers.contents.by_id
        if network is None and len(self._seen) > 1 and not any(one in alive for one in self._seen.values()):
            raise _vanished(f"all {len(self._seen)} load balancers are gone at once")
        del self._seen[service.uid]

    async def _site(self, nodes: Sequence[NodeView]) -> Site:
        """Near the servers."""
        wanted = {one.server for one in candidates(nodes, self._scheme, private=False).by_node.values()}
        servers = (await self._servers.read(SERVERS_AGE, Priority.LOAD_BALANCERS)).by_id
        return site_near(server for number, server in servers.items() if number in wanted)

    async def _all(self, service: ServiceView, age: float = VIEW_AGE) -> list[LoadBalancer]:
        """All load balancers of the project.

        Raises:
            Unavailable: one of them can't be understood; it may be the one that we look for.
        """
        age = 0.0 if service.uid in self._doubtful else age
        contents = await self._balancers.read(age, Priority.LOAD_BALANCERS)
        found = list(contents.by_id.values())
        if contents.odd and not placed_on(service, found):
            odd = next(iter(contents.odd.values()))
            raise unavailable(f"GET {PATH}", f"load balancer {odd.name!r} ({odd.id}): {odd.problem}")
        return found

    async def _look(self, number: int) -> LoadBalancer:
        balancer = await self._get(number)
        self._balancers.put(balancer)
        return balancer

    async def _get(self, number: int) -> LoadBalancer:
        try:
            return await self._api.get(
                f"{PATH}/{number}", "load_balancer", LoadBalancer, priority=Priority.LOAD_BALANCERS
            )
        except NotFound:
            self._balancers.remove(number)
            raise

    def _read(self, service: ServiceView) -> Wishes:
        return read(service, self._settings, network=self._network() is not None)

    def _reachable(self) -> frozenset[int]:
        servers = self._servers.contents.by_id.values()
        return frozenset(one.id for one in servers if one.public_net.ipv4 and one.public_net.ipv4.ip)

    def _remember_targets(self, number: int, planned: Iterable[Planned]) -> None:
        targets = (getattr(one.step, "target", None) for one in planned)
        added = {one.identity for one in targets if isinstance(one, Target)}
        if added:
            self._added.setdefault(number, set()).update(added)

    def _lock(self, service: ServiceView) -> asyncio.Lock:
        share = service.annotations.get(PREFIX + "share", "").strip()
        key = f"share {share}" if share else service.uid
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock


def _describe_creation(case: _Case) -> list[str]:
    desired = case.desired
    kind = desired.type.name if desired.type else ""
    ports = ", ".join(str(one.listen_port) for one in desired.listeners) or "none"
    targets = len(desired.targets or ())
    return [f"create load balancer {desired.name} ({kind}) {case.site}, ports: {ports}, targets: {targets}"]


def _keeping_listeners(desired: Desired, actual: LoadBalancer, wishes: Wishes) -> Desired:
    """A listener whose certificate can't be found now stays as it is."""
    wanted = {one.listen_port for one in desired.listeners}
    kept = {one.listen_port for one in actual.services} & wishes.ports.keys() - wanted
    return replace(desired, foreign_ports=desired.foreign_ports | kept)


def _remarks(wishes: Wishes) -> list[Notice]:
    if not wishes.remarks:
        return []
    return [Notice("InvalidLoadBalancerAnnotation", "; ".join(wishes.remarks.values()))]


def _explain(step: str, error: CloudError) -> CloudError:
    """An error that says which step failed."""
    explained = LoadBalancerIncomplete(f"{step}: {error.message}", notices=error.notices)
    explained.__cause__ = error
    return explained


def _incomplete(errors: Sequence[CloudError], notices: Sequence[Notice]) -> CloudError:
    if len(errors) == 1 and not notices:
        return errors[0]
    told = [notice for error in errors for notice in error.notices]
    whole = LoadBalancerIncomplete("; ".join(error.message for error in errors), notices=(*notices, *told))
    whole.__cause__ = errors[0]
    return whole


def _vanished(what: str) -> AccessDenied:
    text = (
        f"{what}: the token seems to belong to another project, so nothing is made or deleted. Restart the "
        "cloud-controller-manager if they were deleted on purpose"
    )
    return AccessDenied(text, notices=(Notice("LoadBalancersVanished", text),))
