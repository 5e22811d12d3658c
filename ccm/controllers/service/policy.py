"""Decides the action for a Service."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ccm.cloud import Notice
from ccm.controllers.names import CLEANUP_FINALIZER
from ccm.controllers.service.change_limits import DriftBackoff
from ccm.controllers.service.hosts import Host
from ccm.kube.objects import LoadBalancerIngress, Service

# Maximum number of ports of a Service in the cache and in calls of the cloud. An object can contain tens of
# thousands of ports, each needs 256 bytes of memory, and a load balancer supports only dozens.
MAX_PORTS = 128
MAX_SHOWN = 3  # addresses of a status in a message


@dataclass(frozen=True, slots=True)
class Classes:
    """The ``loadBalancerClass`` names of our Services, and whether Services ``without`` a class are ours."""

    names: frozenset[str] = frozenset()
    without: bool = True

    def contain(self, service: Service) -> bool:
        """Whether a Service is ours according to its class."""
        chosen = service.spec.load_balancer_class
        return chosen in self.names if chosen else self.without


def wants_load_balancer(service: Service) -> bool:
    """Whether a Service requests a load balancer, of this controller or another."""
    return service.spec.type == "LoadBalancer" and service.metadata.deletion_timestamp is None


def has_finalizer(service: Service) -> bool:
    """Whether the Service has the finalizer for the cleanup of its load balancer."""
    return CLEANUP_FINALIZER in service.metadata.finalizers


def needs_cleanup(service: Service) -> bool:
    """Whether the load balancer of the Service must be deleted."""
    return has_finalizer(service) and not wants_load_balancer(service)


def relevant(service: Service) -> tuple[object, ...]:
    """The fields that determine the load balancer. If they are unchanged, no sync is needed."""
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
    """One Service, and the result of its last sync. A restart loses this data, and syncs again."""

    service: Service  # as it was at its last sync
    hosts: tuple[Host, ...] | None = None  # the Nodes of the last call to the cloud; None = no call yet
    ingress: tuple[LoadBalancerIngress, ...] | None = None  # the status that we wrote; None = none yet
    notices: frozenset[Notice] = frozenset()  # already reported and still valid
    # the time (of the event loop) since which its Nodes are outdated; None = up to date
    due: float | None = None
    # the delays after overwrites by other clients
    drift_backoff: DriftBackoff = field(default_factory=DriftBackoff)

    def drift(self, old: Service, new: Service) -> str:
        """Describe how another client overwrote our fields; empty = it didn't."""
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
    """Update only the targets of the load balancer."""

    service: Service


@dataclass(frozen=True, slots=True)
class Postpone:
    """Delay a change, because the owner changes the Service too often; perform ``hosts`` now."""

    service: Service
    seconds: float
    hosts: UpdateHosts | None


@dataclass(frozen=True, slots=True)
class Release:
    """Delete the load balancer, then remove our finalizer."""

    service: Service


@dataclass(frozen=True, slots=True)
class Abandon:
    """Delete the load balancer of a Service that was deleted before our cleanup, or that is no longer ours.

    ``successor`` is the Service with this name now, or None.
    """

    service: Service
    successor: Service | None


Action = Ensure | UpdateHosts | Postpone | Release | Abandon | None  # None = no action


def decide(
    cached: CachedService | None,
    service: Service | None,
    hosts: tuple[Host, ...],
    *,
    foreign: bool = False,
    rest: float = 0.0,
) -> Action:
    """Decide the action for a Service (None = no Service has this name now).

    ``cached`` is the cached data for this name. ``hosts`` are the Nodes that can be targets. ``foreign``:
    another controller is responsible. ``rest``: seconds until the rate limiter permits a change.
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
        # The update of Nodes isn't delayed.
        waits = UpdateHosts(cached.service) if cached is not None and outdated else None
        return Postpone(service, rest, waits)
    first = not has_finalizer(service)
    if outdated and not changed and not first:
        return UpdateHosts(service)
    # After a restart, the cache is empty, but users don't need Events about unchanged Services.
    return Ensure(service, announced=first or (changed and cached is not None), by_owner=changed)


def after_waiting(before: Ensure | Release, now: Action) -> Action:
    """The action after a wait: the new action, or None if the new action has another type."""
    if isinstance(now, Ensure) and now.service.metadata.uid == before.service.metadata.uid:
        if isinstance(before, Release):
            return None
        announced, by_owner = before.announced or now.announced, before.by_owner or now.by_owner
        return Ensure(now.service, announced, by_owner)
    return before if isinstance(before, Release) else None


@dataclass(frozen=True, slots=True)
class Requeue:
    """The delay in seconds before a changed Service is processed; None = don't process it.

    ``contested``: the field that another client overwrites repeatedly, to be reported now; empty = none.
    """

    after: float | None = None
    contested: str = ""


class ServiceCache:
    """The cached Services by key, and the decisions that depend on them."""

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
        """Decide the action for a Service now; ``before``: the action before a wait for a slot."""
        cached = self.services.get(key)
        foreign = service is not None and self.is_foreign(service)
        if before is not None:
            # The worker reads the Nodes after the wait, so outdated Nodes are no reason for an action.
            seen = hosts if cached is None or cached.hosts is None else cached.hosts
            return after_waiting(before, decide(cached, service, seen, foreign=foreign))
        action = decide(cached, service, hosts, foreign=foreign, rest=rest)
        if isinstance(action, Ensure) and cached is None:
            # With this entry, changes of Nodes during the wait are detected.
            self.services[key] = CachedService(action.service)
        return action

    def changed(
        self, old: Service | None, new: Service | None, now: float, is_failing: Callable[[str], bool]
    ) -> Requeue:
        """Record a change of a Service; ``is_failing`` returns whether a retry of a key is pending."""
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
        """Whether another controller is responsible for a Service.

        If the type changes, the class is removed, but the recorded controller stays responsible.
        """
        uid, cached = service.metadata.uid, self.services.get(service.metadata.key)
        if wants_load_balancer(service):
            self._foreign.discard(uid)
            if not self._classes.contain(service):
                self._foreign.add(uid)
        elif cached is not None and cached.service.metadata.uid == uid:
            return False
        return uid in self._foreign or not self._classes.contain(service)
