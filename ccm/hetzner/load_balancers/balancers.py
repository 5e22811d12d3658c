"""Implements the load balancers of the cloud interface for Hetzner Cloud."""

from collections.abc import Collection, Iterable, Sequence

from ccm.cloud import CloudError, Ingress, LoadBalancerResult, NodeView, Notice, Orphan, ServiceView
from ccm.hetzner.api import Priority
from ccm.hetzner.load_balancers import hccm_comparison
from ccm.hetzner.load_balancers.apply import ApplyState, RetryBudget, apply_plan
from ccm.hetzner.load_balancers.cache import LIST_AGE, SharedCache
from ccm.hetzner.load_balancers.desired import DesiredState, decide
from ccm.hetzner.load_balancers.metrics import LoadBalancerMetrics
from ccm.hetzner.load_balancers.observed import ObservedState, observe, observe_for_release
from ccm.hetzner.load_balancers.ownership_labels import orphans_among, used_by
from ccm.hetzner.load_balancers.plan import plan, plan_release
from ccm.hetzner.load_balancers.service_annotations import annotations_to_keep
from ccm.hetzner.load_balancers.service_locks import ServiceLocks
from ccm.hetzner.load_balancers.spec import LoadBalancerSpec, read
from ccm.hetzner.load_balancers.status import complaints, count_targets, ingress_of, serves
from ccm.hetzner.settings import LoadBalancerSettings

# Maximum number of plans in one sync; each choice of the API requires a new plan.
ROUNDS = 5
# Notices about settings that stay, although the Service requests other values.
_REPORTED_BY_PLAN = frozenset({"LoadBalancerTargetsKept", "LoadBalancerNotMoved", "PrimaryIPNotAssigned"})


class HetznerLoadBalancers:
    """Implements :class:`ccm.cloud.LoadBalancers`."""

    annotations_to_keep = staticmethod(annotations_to_keep)

    def __init__(
        self, cache: SharedCache, settings: LoadBalancerSettings, metrics: LoadBalancerMetrics
    ) -> None:
        self._cache = cache
        self._settings = settings
        self._metrics = metrics
        self.inventory = cache.inventory
        self.certificates = cache.certificates
        self._kept: dict[str, bool] = {}
        self._locks = ServiceLocks(cache.inventory)

    def healthy(self) -> str | None:
        """An error message, or None if the load balancers are healthy."""
        if self._kept and all(self._kept.values()):
            return (
                "no load balancer has a possible target, probably because a setting is wrong. The CCM keeps "
                "the existing targets. Check the prefix of provider IDs, the network and the token"
            )
        return self.inventory.healthy()

    async def close(self) -> None:
        """Stop running reads."""
        await self._cache.close()

    async def find(self, service: ServiceView) -> LoadBalancerResult | None:
        """See :meth:`ccm.cloud.LoadBalancers.find`."""
        self._metrics.operation("GetLoadBalancer")
        found = used_by(service, await self.inventory.all(service))
        return LoadBalancerResult(ingress_of(found[0], self._read(service))) if found else None

    async def plan(self, service: ServiceView, nodes: Sequence[NodeView]) -> Sequence[str]:
        """See :meth:`ccm.cloud.LoadBalancers.plan`."""
        spec = self._read(service)
        async with self._locks.hold(service):
            observed = await observe(spec, nodes, self._cache)
            desired = decide(spec, observed)
            stays = [
                f"note: {notice.message}" for notice in desired.notices if notice.reason in _REPORTED_BY_PLAN
            ]
            return [*map(str, plan(desired, observed)), *stays]

    @property
    def others(self) -> Collection[str]:
        """See :class:`ccm.cloud.KnowsOthers`."""
        return (hccm_comparison.NAME,)

    async def differences(self, service: ServiceView, other: str) -> Sequence[str]:  # noqa: ARG002 - one
        """See :meth:`ccm.cloud.KnowsOthers.differences`."""
        found = used_by(service, await self.inventory.all(service))
        network = self.inventory.project.network is not None
        return [
            *self._read(service).problems.values(),
            *hccm_comparison.compare_with_hccm(
                service, self._settings, network=network, balancer=found[0] if found else None
            ),
        ]

    async def ensure(self, service: ServiceView, nodes: Sequence[NodeView]) -> LoadBalancerResult:
        """See :meth:`ccm.cloud.LoadBalancers.ensure`."""
        self._metrics.operation("EnsureLoadBalancer")
        spec = self._read(service)
        try:
            async with self._locks.hold(service):
                with self.inventory.api.token.hold():
                    state = self._state(await observe(spec, nodes, self._cache))
                    desired = DesiredState("", {})
                    for _ in range(ROUNDS):
                        desired = decide(spec, state.observed)
                        await apply_plan(plan(desired, state.observed), state)
                        if not state.again or state.retry_budget.exhausted:
                            break
                result = self._result(spec, desired, state)
                self.inventory.invalid.discard(service.uid)
                return result
        except CloudError:
            # After any error, read new lists the next time, because the token may have been wrong.
            self.inventory.invalid.add(service.uid)
            self.certificates.invalidate()
            self._cache.catalogue.invalidate()
            raise

    async def delete(self, service: ServiceView) -> LoadBalancerResult:
        """See :meth:`ccm.cloud.LoadBalancers.delete`."""
        self._metrics.operation("EnsureLoadBalancerDeleted")
        async with self._locks.hold(service):
            # Earlier attempts, maybe of another process, may have done some of the steps.
            with self.inventory.api.token.hold():
                state = self._state(await observe_for_release(service, self._cache))
                await apply_plan(plan_release(state.observed), state)
            if not state.observed.others:
                self.inventory.released(service)
            if state.errors:
                raise state.errors[0]
            self.inventory.forget(service)
            self.certificates.forget(service)
            self._kept.pop(service.uid, None)
            self._metrics.forget(service)
            return LoadBalancerResult((), tuple(state.steps), (*state.observed.notices, *state.notices))

    async def orphans(self, services: Collection[str]) -> Sequence[Orphan]:
        """See :meth:`ccm.cloud.LoadBalancers.orphans`."""
        balancers = await self.inventory.balancers.read(LIST_AGE, Priority.SWEEP)
        if self.inventory.project.is_proven:
            self._cache.servers.keep(balancers.by_id.keys())
        certificates = self.certificates.cached.contents.by_id.values()
        return list(orphans_among(balancers.by_id.values(), certificates, services, self._cache.cluster))

    def _state(self, observed: ObservedState) -> ApplyState:
        return ApplyState(self._cache, RetryBudget(self.inventory.sleep), observed)

    def _result(self, spec: LoadBalancerSpec, desired: DesiredState, state: ApplyState) -> LoadBalancerResult:
        """Report a Service's result, and set metrics. Raises CloudError if a step failed."""
        errors, notices = [*desired.errors, *state.errors], [*desired.notices, *state.notices]
        service, balancer, steps = spec.service, state.observed.balancer, tuple(state.steps)
        self._metrics.keeps_targets(service, keeps=desired.keeps_targets)
        self._kept.pop(service.uid, None)
        if desired.targets:
            self._kept[service.uid] = desired.keeps_targets
        ports = {listener.listen_port for listener in desired.listeners}
        if errors:
            # With mistakes in the annotations, the addresses for the status may be wrong.
            if balancer is None or spec.problems or not serves(balancer, ports):
                raise _incomplete(errors, notices)
            raise _incomplete(errors, notices, ingress_of(balancer, spec))
        self.inventory.annotated[service.uid] = spec.annotated
        if balancer is None:
            return LoadBalancerResult((), steps, tuple(notices))
        self._metrics.saw(service, count_targets(balancer, ports))
        notices += complaints(balancer, ports)
        ingress = ingress_of(balancer, spec)
        if not ingress:
            network = self.inventory.project.network is not None
            why = spec.why_no_address(network=network)
            why = why or "the load balancer has no address that the CCM can write into the Service's status"
            notices.append(Notice("LoadBalancerWithoutAddress", why))
        return LoadBalancerResult(ingress, steps, tuple(notices))

    def _read(self, service: ServiceView) -> LoadBalancerSpec:
        return read(service, self._settings, network=self.inventory.project.network is not None)


def _incomplete(
    errors: list[CloudError], notices: Iterable[Notice], ingress: tuple[Ingress, ...] = ()
) -> CloudError:
    """Combine one or more errors into one error with all notices for the owner.

    Other Services may share the objects in ``errors``, because a failed list fails for all waiting callers.
    ``ingress`` contains the addresses of an existing load balancer.
    """
    others = tuple(notices)
    if len(errors) == 1 and not others and not ingress:
        return errors[0]
    of_errors = [notice for error in errors for notice in error.notices]
    whole = CloudError("; ".join(error.message for error in errors), notices=(*others, *of_errors))
    whole.__cause__ = errors[0]
    whole.ingress = ingress
    return whole
