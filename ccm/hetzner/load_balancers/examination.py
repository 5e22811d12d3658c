"""Finds out about one Service: what there is, what there should be, and what its owner should know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ccm.cloud import NodeView, Notice, ServiceView
from ccm.hetzner.api.wire import LoadBalancer, LoadBalancerType
from ccm.hetzner.load_balancers import official
from ccm.hetzner.load_balancers.certificates import Certificates, Resolution
from ccm.hetzner.load_balancers.creation import Site
from ccm.hetzner.load_balancers.desire import Circumstances, desire, only_targets
from ccm.hetzner.load_balancers.errors import InvalidAnnotations, NotOurLoadBalancer, wrong_project
from ccm.hetzner.load_balancers.finder import TargetFinder
from ccm.hetzner.load_balancers.inventory import JUST_NOW, TYPES_AGE, VIEW_AGE, Inventory
from ccm.hetzner.load_balancers.listeners import wanted_listeners
from ccm.hetzner.load_balancers.ownership import Neighbours, Place, locate, placed_on
from ccm.hetzner.load_balancers.plan import Desired, fits
from ccm.hetzner.load_balancers.restoring import DEFAULT_TYPE, marked
from ccm.hetzner.load_balancers.wishes.read import Wishes, read
from ccm.hetzner.load_balancers.wishes.table import PREFIX
from ccm.hetzner.load_balancers.wording import enumerated
from ccm.hetzner.settings import LoadBalancerSettings

# Not even what is in them is known where they are too long: then their problem's key is the prefix alone.
_TARGET_KEYS = frozenset({PREFIX, PREFIX + "node-selector", PREFIX + "use-private-ip"})


@dataclass
class Case:
    """What was found out.

    Attributes:
        service: The Service.
        wishes: Its annotations.
        place: Its load balancer, and what it may decide about it.
        desired: What the load balancer should be.
        site: Where a new one is made.
        certificates: Those of its https ports.
        notices: What the owner should know.
    """

    service: ServiceView
    wishes: Wishes
    place: Place
    desired: Desired
    site: Site = field(default_factory=Site)
    certificates: Resolution = field(default_factory=Resolution)
    notices: list[Notice] = field(default_factory=list[Notice])

    def describe_creation(self) -> str:
        """The creation of the load balancer as a step of a plan."""
        desired = self.desired
        kind = desired.type.name if desired.type else ""
        ports = ", ".join(str(one.listen_port) for one in desired.listeners) or "none"
        targets = len(desired.targets or ())
        return f"create load balancer {desired.name} ({kind}) {self.site}, ports: {ports}, targets: {targets}"


@dataclass(frozen=True)
class _Size:
    """How large a load balancer should be.

    Attributes:
        wanted: Its type; None = leave it.
        limits: The type whose limits hold.
        notices: What the owner should know.
        problem: What is wrong with the type that is asked for.
        kept: ``type``, if it can't go back to the default.
    """

    wanted: LoadBalancerType | None
    limits: LoadBalancerType
    notices: list[Notice] = field(default_factory=list[Notice])
    problem: str = ""
    kept: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Examiner:
    """See the module.

    Attributes:
        inventory: The load balancers.
        finder: The servers.
        certificates: The certificates.
        settings: Defaults from the environment.
        network: The private network's id, or None.
        cluster: The cluster's id; may be empty.
    """

    inventory: Inventory
    finder: TargetFinder
    certificates: Certificates
    settings: LoadBalancerSettings
    network: Callable[[], int | None]
    cluster: str

    def read(self, service: ServiceView) -> Wishes:
        """The Service's annotations."""
        return read(service, self.settings, network=self.network() is not None)

    def judge_for_official(self, service: ServiceView, balancer: LoadBalancer | None) -> tuple[str, ...]:
        """See :func:`ccm.hetzner.load_balancers.official.judge`."""
        network = self.network() is not None
        return official.judge(service, self.settings, network=network, balancer=balancer)

    async def locate(self, service: ServiceView, wishes: Wishes, age: float = VIEW_AGE) -> Place:
        """The Service's load balancer, in a list at most ``age`` seconds old.

        Raises:
            NotOurLoadBalancer: it can't have one because of another that is not ours.
            CloudError: not known.
        """
        everyone = await self.inventory.all(service, age)
        try:
            return locate(service, wishes, everyone, self._neighbours())
        except NotOurLoadBalancer:
            if (self.inventory.balancers.age or 0.0) < JUST_NOW:
                raise
        # Before we complain: what stands in the way may be gone, what is to be adopted may have come.
        return locate(service, wishes, await self.inventory.all(service, age=0.0), self._neighbours())

    def _neighbours(self) -> Neighbours:
        return Neighbours(self.cluster, self.settings.tenants, self.inventory.served)

    async def examine(self, service: ServiceView, nodes: Sequence[NodeView], *, dry: bool) -> Case:
        """Find out everything.

        Args:
            service: The Service.
            nodes: The Nodes behind it.
            dry: Request no certificates.

        Raises:
            CloudError: there can't be a load balancer, or it is not known what there is.
        """
        wishes = self.read(service)
        place = await self.locate(service, wishes)
        if place.balancer is None:
            await self.inventory.check_vanished(service)
        size = await self._size(service, wishes, place)
        if size.problem:
            wishes = replace(wishes, problems={**wishes.problems, PREFIX + "type": size.problem})
        if place.balancer is None and (problem := await self._unknown_place(service, wishes)):
            wishes = replace(wishes, problems={**wishes.problems, **problem})
        if wishes.problems and place.balancer is None:
            raise InvalidAnnotations(wishes.complaints)
        certificates = Resolution()
        if not wishes.problems:
            certificates = await self.certificates.resolve(service, wishes, place.balancer, dry=dry)
        found = await self.finder.find(wishes, place.balancer, size.limits, nodes)
        if place.balancer is None and found.strange:
            raise wrong_project(nodes)
        around = Circumstances(
            place=place,
            cluster=self.cluster,
            network=self.network(),
            type=size.wanted,
            limits=size.limits,
            certificates=certificates.by_port,
            targets=found.targets,
            cluster_targets=found.ours,
            reachable=self.finder.reachable(),
            kept=size.kept,
        )
        desired, remarks = desire(service, wishes, around)
        if place.balancer is not None:
            desired = _within_what_is_known(desired, place.balancer, wishes, certificates)
        case = Case(service, wishes, place, desired, certificates=certificates)
        case.notices = [*_remarks(wishes), *size.notices, *found.notices, *remarks, *certificates.notices]
        if place.balancer is None:
            case.site = await self._site(wishes, nodes)
        return case

    async def nothing_to_balance(self, service: ServiceView) -> list[Notice]:
        """What the owner of a Service should know that has no port for a load balancer, and has none yet."""
        if not service.ports or any(port.protocol == "TCP" for port in service.ports):
            return []
        if placed_on(service, await self.inventory.all(service)):
            return []
        _, notices = wanted_listeners(service, self.read(service), {})
        return [one for one in notices if one.reason == "UnsupportedProtocolConfigured"]

    async def _unknown_place(self, service: ServiceView, wishes: Wishes) -> dict[str, str]:
        """What is wrong with the place that is asked for, by annotation."""
        if not wishes.location and not wishes.network_zone:
            return {}
        for age in (TYPES_AGE, JUST_NOW):  # before we complain: it may be a new one
            known = await self.inventory.locations(age)
            names = {one.name for one in known} if wishes.location else {one.network_zone for one in known}
            chosen = wishes.location or wishes.network_zone
            if chosen in names:
                return {}
        key = "location" if wishes.location else "network-zone"
        variable = f"HCLOUD_LOAD_BALANCERS_{key.upper().replace('-', '_')}"
        name = PREFIX + key if service.annotations.get(PREFIX + key, "").strip() else variable
        return {PREFIX + key: f"{name}: {chosen!r} is not one of {', '.join(sorted(names))}"}

    async def _site(self, wishes: Wishes, nodes: Sequence[NodeView]) -> Site:
        chosen = Site(wishes.location, wishes.network_zone)
        return await self.finder.site(nodes) if chosen == Site() else chosen

    async def _size(self, service: ServiceView, wishes: Wishes, place: Place) -> _Size:
        present = place.balancer.load_balancer_type if place.balancer else None
        if present is not None and wishes.type in _as_it_is(place.balancer):
            return _Size(None, present, _deprecated(present, service))
        known = await self.inventory.types()
        name = wishes.type or DEFAULT_TYPE
        wanted = known.get(name)
        if wanted is None:
            source = (
                PREFIX + "type" if PREFIX + "type" in service.annotations else "HCLOUD_LOAD_BALANCERS_TYPE"
            )
            problem = f"{source}: {name!r} is not one of {', '.join(sorted(known))}"
            return _Size(None, present or LoadBalancerType(), problem=problem)
        if not wishes.type and place.balancer is not None and not fits(wanted, place.balancer):
            now = place.balancer.load_balancer_type
            text = (
                f"no type is configured any more, but {name} is too small for its ports or nodes: {now.name} "
            )
            notice = Notice("LoadBalancerTypeKept", text + "stays")
            return _Size(None, now, [notice], kept=frozenset({"type"}))
        return _Size(wanted, wanted, _deprecated(wanted, service))


def _as_it_is(balancer: LoadBalancer | None) -> tuple[str, ...]:
    """Wishes for a type that change nothing: what it has, and none at all unless one was annotated before."""
    if balancer is None:
        return ()
    name = balancer.load_balancer_type.name
    return (name,) if "type" in marked(balancer) and name != DEFAULT_TYPE else (name, "")


def _deprecated(kind: LoadBalancerType, service: ServiceView) -> list[Notice]:
    text = f"type {kind.name} of {service.key} is deprecated"
    return [Notice("LoadBalancerTypeDeprecated", text)] if kind.deprecated else []


def _within_what_is_known(
    desired: Desired, actual: LoadBalancer, wishes: Wishes, certificates: Resolution
) -> Desired:
    """What can't be understood or found now stays as it is."""
    if wishes.problems:
        desired = only_targets(desired, actual)
        if wishes.problems.keys() & _TARGET_KEYS:
            desired = only_targets(Desired(actual.name, actual.labels), actual)
    if certificates.errors:
        wanted = {one.listen_port for one in desired.listeners}
        kept = {one.listen_port for one in actual.services} & wishes.ports.keys() - wanted
        desired = replace(desired, foreign_ports=desired.foreign_ports | kept)
    return desired


def _remarks(wishes: Wishes) -> list[Notice]:
    if wishes.problems or not wishes.warnings:
        return []  # with problems, one Event names both
    return [Notice("InvalidLoadBalancerAnnotation", enumerated([*wishes.warnings.values()], between="; "))]
