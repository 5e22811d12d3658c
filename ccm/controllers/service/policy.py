"""What a Service asks for, and what to do about it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ccm.cloud import Notice
from ccm.controllers.names import CLEANUP_FINALIZER
from ccm.controllers.service.change_limits import DriftBackoff
from ccm.controllers.service.hosts import Host
from ccm.kube.objects import LoadBalancerIngress, Service

# Of a Service, that are kept and that a cloud gets to see. Tens of thousands fit into an object, each takes a
# quarter of a KiB of memory, and no load balancer takes more than dozens.
MAX_PORTS = 128
MAX_SHOWN = 3  # addresses of a status in a message


@dataclass(frozen=True, slots=True)
class Classes:
    """Which Services are ours, by their ``loadBalancerClass``, and whether those ``without`` one are."""

    names: frozenset[str] = frozenset()
    without: bool = True

    def contain(self, service: Service) -> bool:
        """Whether a Service's class is one of these."""
        chosen = service.spec.load_balancer_class
        return chosen in self.names if chosen else self.without


def wants_load_balancer(service: Service) -> bool:
    """Whether a Service requests a load balancer, of this controller or another."""
    return service.spec.type == "LoadBalancer" and service.metadata.deletion_timestamp is None


def has_finalizer(service: Service) -> bool:
    """Whether the Service has the finalizer for the cleanup of its load balancer."""
    return CLEANUP_FINALIZER in service.metadata.finalizers


def needs_cleanup(service: Service) -> bool:
    """Whether what was made for the Service must be deleted."""
    return has_finalizer(service) and not wants_load_balancer(service)


def relevant(service: Service) -> tuple[object, ...]:
    """What a load balancer is made from. If two of these are equal, nothing is to be done."""
    spec = service.spec
    return (
        service.metadata.uid,
        spec.type,
        spec.load_balancer_class,
        spec.load_balancer_source_ranges,
        spec.ports,
        spec.session_affinity,
        spec.session_affinity_config,
        spec.load_balancer_ip,
        spec.external_ips,
        service.metadata.annotations,
        spec.external_traffic_policy,
        spec.health_check_node_port,
        len(spec.ip_families),
        service.metadata.deletion_timestamp is None,
    )


@dataclass(slots=True)
class CachedService:
    """One Service, and the result of its last sync. Lost at a restart, which costs one more sync."""

    service: Service  # as it was at its last sync
    hosts: tuple[Host, ...] | None = None  # the Nodes of the last call to the cloud; None = no call yet
    ingress: tuple[LoadBalancerIngress, ...] | None = None  # the status that we wrote; None = none yet
    notices: frozenset[Notice] = frozenset()  # reported to the owner, and still true
    # since when, in the event loop's seconds, its Nodes are out of date; None = they are not
    due: float | None = None
    # how often others changed what we wrote
    drift_backoff: DriftBackoff = field(default_factory=DriftBackoff)

    def drift(self, old: Service, new: Service) -> str:
        """Describe what another client changed of what we wrote; empty = nothing, as for our own writes."""
        if has_finalizer(old) and not has_finalizer(new):
            return f"the finalizer {CLEANUP_FINALIZER} was removed"
        theirs = new.status.load_balancer.ingress
        if self.ingress is None or old.status.load_balancer.ingress != self.ingress or theirs == self.ingress:
            return ""
        return (
            f"the status contains {_shown(theirs)}, but the load balancer has the addresses "
            f"{_shown(self.ingress)}"
        )


def _shown(ingress: tuple[LoadBalancerIngress, ...]) -> str:
    addresses = [entry.ip or entry.hostname for entry in ingress]
    more = f" and {len(addresses) - MAX_SHOWN} more" if len(addresses) > MAX_SHOWN else ""
    return ", ".join(addresses[:MAX_SHOWN]) + more or "nothing"


@dataclass(frozen=True, slots=True)
class Ensure:
    """Create or update the load balancer.

    ``announced``: Events report it even if nothing changes. ``by_owner``: it counts for the rate limit.
    """

    service: Service
    announced: bool
    by_owner: bool


@dataclass(frozen=True, slots=True)
class UpdateHosts:
    """Only the Nodes behind the load balancer changed."""

    service: Service


@dataclass(frozen=True, slots=True)
class Postpone:
    """The owner changes the Service too often: the change waits for so many seconds; ``hosts`` does not."""

    service: Service
    seconds: float
    hosts: UpdateHosts | None


@dataclass(frozen=True, slots=True)
class Release:
    """Delete the load balancer, then remove our finalizer."""

    service: Service


@dataclass(frozen=True, slots=True)
class Abandon:
    """Delete the load balancer of a Service that is gone without our consent, or is another controller's now.

    ``successor`` has its name now; None = nothing.
    """

    service: Service
    successor: Service | None


Action = Ensure | UpdateHosts | Postpone | Release | Abandon | None  # None = nothing is to be done


def decide(
    cached: CachedService | None,
    service: Service | None,
    hosts: tuple[Host, ...],
    *,
    foreign: bool = False,
    rest: float = 0.0,
) -> Action:
    """Decide what to do about a Service; None = nothing has the name now.

    ``cached`` is what we know of its name, ``hosts`` are the Nodes that belong behind load balancers.
    ``foreign``: another controller works for it. ``rest``: seconds until its owner may cause the next change.
    """
    if cached is not None and (
        service is None or foreign or cached.service.metadata.uid != service.metadata.uid
    ):
        return Abandon(cached.service, service)
    if service is None or foreign:
        return None
    if not wants_load_balancer(service):
        # A cached Service is released even if another client removed our finalizer.
        return Release(service) if cached is not None or needs_cleanup(service) else None
    changed = cached is None or relevant(cached.service) != relevant(service)
    outdated = cached is not None and cached.hosts not in (None, hosts)
    if changed and rest > 0:
        # Nodes don't wait for it.
        waits = UpdateHosts(cached.service) if cached is not None and outdated else None
        return Postpone(service, rest, waits)
    first = not has_finalizer(service)
    if outdated and not changed and not first:
        return UpdateHosts(service)
    # After a restart everything is new to us, and nothing is to anybody else.
    return Ensure(service, announced=first or (changed and cached is not None), by_owner=changed)


def after_waiting(before: Ensure | Release, now: Action) -> Action:
    """The decision to execute after a wait: the later one, or None if the later one is of another kind."""
    if isinstance(now, Ensure) and now.service.metadata.uid == before.service.metadata.uid:
        if isinstance(before, Release):
            return None
        announced, by_owner = before.announced or now.announced, before.by_owner or now.by_owner
        return Ensure(now.service, announced, by_owner)
    return before if isinstance(before, Release) else None


@dataclass(frozen=True, slots=True)
class Requeue:
    """When to look at a Service because it changed, in seconds; None = there is no reason to.

    ``contested``: what something else writes again and again, to be reported now; empty = nothing.
    """

    after: float | None = None
    contested: str = ""


class ServiceCache:
    """The Services that the controller works for, by key, and what it decides by them."""

    def __init__(self, classes: Classes) -> None:
        self.services: dict[str, CachedService] = {}
        self._classes = classes
        self._foreign: set[str] = set()

    def decide(
        self,
        key: str,
        service: Service | None,
        hosts: tuple[Host, ...],
        *,
        rest: float = 0.0,
        before: Ensure | Release | None = None,
    ) -> Action:
        """Decide what to do about a Service now; ``before``: what was decided when it began to wait."""
        cached = self.services.get(key)
        foreign = service is not None and self.is_foreign(service)
        if before is not None:
            # Its Nodes are read when it is looked at, so older ones are no reason of their own.
            seen = hosts if cached is None or cached.hosts is None else cached.hosts
            return after_waiting(before, decide(cached, service, seen, foreign=foreign))
        action = decide(cached, service, hosts, foreign=foreign, rest=rest)
        if isinstance(action, Ensure) and cached is None:
            # Nodes that change while it waits are noticed, too.
            self.services[key] = CachedService(action.service)
        return action

    def changed(
        self, old: Service | None, new: Service | None, now: float, is_failing: Callable[[str], bool]
    ) -> Requeue:
        """Note a change of a Service; ``is_failing`` tells of a key whether it is tried again anyway."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._foreign.discard(old.metadata.uid)
        if new is None:
            return Requeue(0.0) if old is not None and old.metadata.key in self.services else Requeue()
        cached = self.services.get(new.metadata.key)
        if self.is_foreign(new) and cached is None:
            return Requeue()
        if needs_cleanup(new):
            tried_again = old is not None and needs_cleanup(old) and is_failing(new.metadata.key)
            return Requeue() if tried_again else Requeue(0.0)
        if old is None or relevant(old) != relevant(new):
            return Requeue(0.0) if wants_load_balancer(new) or cached is not None else Requeue()
        lost = cached.drift(old, new) if cached is not None else ""
        if cached is None or not lost or is_failing(new.metadata.key):
            return Requeue()
        was_contested, after = cached.drift_backoff.contested, cached.drift_backoff.next_delay(now)
        return Requeue(after, lost if cached.drift_backoff.contested and not was_contested else "")

    def is_foreign(self, service: Service) -> bool:
        """Whether another controller works for it.

        A Service loses its class with its type, and stays then whose it was, as far as that is remembered.
        """
        uid, cached = service.metadata.uid, self.services.get(service.metadata.key)
        if wants_load_balancer(service):
            self._foreign.discard(uid)
            if not self._classes.contain(service):
                self._foreign.add(uid)
        elif cached is not None and cached.service.metadata.uid == uid:
            return False
        return uid in self._foreign or not self._classes.contain(service)
