"""Leader election by a Lease: of all replicas at most one works at any time.

The holder writes the Lease every ``retry_period``. A candidate takes it over when it has seen it unchanged
for the duration that is written in it, on its own monotonic clock: no two clocks are ever compared. The
holder stops by itself when it could not write for ``renew_deadline``, which is shorter. The difference is the
time in which its work must end. A write whose response is lost never lengthens it: the deadline counts from
the time at which the last write that certainly succeeded was sent.

When the work ends or the process must stop, the Lease is given back, but only after the work has really
ended; the next replica then starts at once instead of after ``duration``.
"""

import asyncio
import math
import random as randomness
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import structlog

from ccm.clock import loop_time
from ccm.kube.errors import AlreadyExists, Conflict, KubernetesError, LeaseLost, NotFound, Unauthorized
from ccm.kube.events import Recorder
from ccm.kube.objects import LeaseSpec, ObjectReference, decode_object
from ccm.kube.protocol import Transport

_API_VERSION = "coordination.k8s.io/v1"
_JITTER = 1.2
_RELEASE_TIMEOUT = 5.0
_HEALTH_GRACE = 20.0
_MAX_TRANSITIONS = 2**31 - 1  # the field has 32 bits

log = structlog.stdlib.get_logger(__name__)
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Durations in seconds."""

    duration: float = 15.0  # until other candidates acquire a Lease that the leader doesn't renew
    renew_deadline: float = 10.0  # until a leader that can't renew the Lease stops; less than ``duration``
    retry_period: float = 2.0  # between two renewals, and between two attempts to acquire the Lease
    stop_grace: float = 15.0  # for the work to end after a stop signal, before the Lease is released


@dataclass(frozen=True, slots=True)
class LeaseObserver:
    """Called for metrics; ``slow_path`` when a renewal reads the Lease again."""

    leading: Callable[[bool], None]
    slow_path: Callable[[], None]


class LeaderElector:
    """Holds a Lease while some work runs.

    ``identity`` is unique among all replicas and all restarts. ``clock`` gives monotonic seconds, best of a
    clock that goes on while the machine sleeps; ``now`` is only for the times that people read in the Lease.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        identity: str,
        namespace: str = "kube-system",
        name: str = "cloud-controller-manager",
        times: LeaseTimes | None = None,
        recorder: Recorder | None = None,
        observer: LeaseObserver | None = None,
        clock: Callable[[], float] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self.identity = identity
        self.is_leader = False
        self.holder = ""
        self._transport = transport
        self._namespace = namespace
        self._name = name
        self._collection = f"/apis/{_API_VERSION}/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{name}"
        self._times = times or LeaseTimes()
        self._recorder = recorder
        self._observer = observer
        self._clock = clock or loop_time
        self._now = now
        self._random = random
        self._lease: Object | None = None
        self._observed: LeaseSpec | None = None
        self._observed_at = 0.0
        self._renewed_at = 0.0
        self._refused = False

    def accepted(self) -> str | None:
        """What is wrong: the API server refused our credentials when it last answered. None if nothing is.

        The token of a service account that was deleted stays refused, also when there is another one of its
        name: only another Pod gets a token of that.
        """
        return (
            "the API server rejects the credentials of the cloud-controller-manager"
            if self._refused
            else None
        )

    def healthy(self) -> str | None:
        """What is wrong: we lead and have not renewed for much too long. None if nothing is."""
        silence = self._clock() - self._renewed_at
        if self.is_leader and silence > self._times.duration + _HEALTH_GRACE:
            return f"failed election to renew leadership on lease {self._name}: {silence:.0f} s ago"
        return None

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait until we lead, work, and give the Lease back when the work ends or we are cancelled.

        The work is cancelled when another leads, or may lead. Then LeaseLost is raised: end the process.
        """
        await self._acquire()
        self._lead(leading=True)
        working = asyncio.create_task(work(), name="leader-work")
        renewing = asyncio.create_task(self._renew_until_lost(), name="lease-renewal")
        lost = False
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
            lost = renewing.done() and not working.done()
        finally:
            grace = self._times.duration - self._times.renew_deadline if lost else self._times.stop_grace
            ended = await _stop(working, grace)
            still_ours = not renewing.done()
            await _stop(renewing, _RELEASE_TIMEOUT)
            self._lead(leading=False)
            if ended and still_ours:
                await self._release()
        if lost:
            cause = None if renewing.cancelled() else renewing.exception()
            raise LeaseLost(f"{self._namespace}/{self._name}", self.identity) from cause
        working.result()

    async def _acquire(self) -> None:
        log.info("waiting_for_lease", lease=self._path, identity=self.identity)
        while True:
            started = self._clock()
            try:
                # As client-go bounds each request (NewFromKubeconfig in its resourcelock): one that is on its
                # way to an API server that died with the leader must not take the time of those that follow.
                async with asyncio.timeout(self._times.renew_deadline / 2):
                    holds = await self._try()
            except (KubernetesError, TimeoutError) as error:
                self._note(error)
                log.warning("lease_not_read", lease=self._path, error=_text(error))
            else:
                self._refused = False
                if holds:
                    self._renewed_at = started
                    return
            await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        """Seconds until a candidate looks again: as client-go's, or less if the Lease may be taken before."""
        usual = self._times.retry_period * (1 + _JITTER * self._random())
        left = self._expires_at() - self._clock()
        return min(usual, left) if left > 0 else usual

    async def _renew_until_lost(self) -> None:
        while True:
            # Not a moment beyond the deadline: what is left of the duration is the work's, to end.
            await asyncio.sleep(min(self._times.retry_period, self._remaining()))
            remaining = self._remaining()
            if remaining <= 0:
                log.error("lease_lost", lease=self._path, why="not renewed in time")
                return
            started = self._clock()
            try:
                async with asyncio.timeout(min(remaining, self._times.renew_deadline / 2)):
                    if not await self._try():
                        log.error("lease_lost", lease=self._path, why="another holds it", holder=self.holder)
                        return
            except (KubernetesError, TimeoutError) as error:
                self._note(error)
                log.warning("lease_not_renewed", lease=self._path, error=_text(error))
            else:
                self._refused = False
                self._renewed_at = started

    def _note(self, error: Exception) -> None:
        """Remember whether we were refused; one who gets no answer knows nothing new."""
        if isinstance(error, KubernetesError) and error.status:
            self._refused = isinstance(error, Unauthorized)

    def _remaining(self) -> float:
        """Seconds until we have to give up if no renewal succeeds."""
        return max(0.0, self._renewed_at + self._times.renew_deadline - self._clock())

    async def _try(self) -> bool:
        """Write ourselves into the Lease if that is allowed; whether we hold it now."""
        if self.is_leader and self._lease is not None:
            try:
                return await self._write(self._lease)
            except (Conflict, NotFound):
                if self._observer:
                    self._observer.slow_path()
        try:
            lease = await self._transport.get(self._path, Object)
        except NotFound:
            return await self._create()
        self._observe(lease)
        if not self._may_take():
            return False
        try:
            return await self._write(lease)
        except Conflict:
            return False

    def _may_take(self) -> bool:
        if self.is_leader:
            # The holder that took it may be gone again, but our work was unprotected meanwhile.
            return self.holder == self.identity
        return self.holder in ("", self.identity) or self._clock() >= self._expires_at()

    async def _create(self) -> bool:
        body: Object = {
            "apiVersion": _API_VERSION,
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {**self._spec(LeaseSpec()), "leaseTransitions": 0},
        }
        try:
            self._observe(await self._transport.create(self._collection, body, Object))
        except AlreadyExists:
            return False
        return True

    async def _write(self, lease: Object) -> bool:
        spec = {**lease.get("spec", {}), **self._spec(_spec_of(lease))}
        self._observe(await self._transport.update(self._path, {**lease, "spec": spec}, Object))
        return True

    def _spec(self, before: LeaseSpec) -> Object:
        ours = before.holder_identity == self.identity
        stamp = micro_time(self._now())
        return {
            "holderIdentity": self.identity,
            # Never less than others are to leave it alone for: it has whole seconds only.
            "leaseDurationSeconds": math.ceil(self._times.duration),
            "acquireTime": before.acquire_time if ours else stamp,
            "renewTime": stamp,
            # With values that the API server would refuse, no replica could ever take over the Lease.
            "leaseTransitions": min(before.lease_transitions + (0 if ours else 1), _MAX_TRANSITIONS),
        }

    def _observe(self, lease: Object) -> None:
        """Remember the Lease, and when we saw it change."""
        spec = _spec_of(lease)
        self._lease = lease
        if spec == self._observed:
            return
        self._observed = spec
        self._observed_at = self._clock()
        if spec.holder_identity != self.holder:
            self.holder = spec.holder_identity
            log.info("leader_changed", lease=self._path, leader=self.holder)

    def _expires_at(self) -> float:
        """On our clock, the moment from which the Lease may be taken if it isn't written until then."""
        return self._observed_at + (self._observed.lease_duration_seconds if self._observed else 0)

    async def _release(self) -> None:
        """Let another replica take over at once. Whatever fails here only costs it the waiting time."""
        try:
            async with asyncio.timeout(_RELEASE_TIMEOUT):
                lease = await self._transport.get(self._path, Object)
                if _spec_of(lease).holder_identity == self.identity:
                    stamp = micro_time(self._now())
                    times = {"leaseDurationSeconds": 1, "renewTime": stamp, "acquireTime": stamp}
                    body = {**lease, "spec": {**lease["spec"], **times, "holderIdentity": ""}}
                    await self._transport.update(self._path, body, Object)
        except (KubernetesError, TimeoutError) as error:
            log.warning("lease_not_released", lease=self._path, error=_text(error))
        else:
            log.info("lease_released", lease=self._path)

    def _lead(self, *, leading: bool) -> None:
        self.is_leader = leading
        if self._observer:
            self._observer.leading(leading)
        text = "became leader" if leading else "stopped leading"
        log.info(text.replace(" ", "_"), lease=self._path, identity=self.identity)
        if self._recorder:
            reference = ObjectReference(
                api_version=_API_VERSION,
                kind="Lease",
                namespace=self._namespace,
                name=self._name,
                uid=str((self._lease or {}).get("metadata", {}).get("uid", "")),
            )
            self._recorder.event(reference, "Normal", "LeaderElection", f"{self.identity} {text}")


def micro_time(at: datetime) -> str:
    """RFC 3339 with exactly six digits after the second, which is all that Kubernetes' MicroTime accepts."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _spec_of(lease: Object) -> LeaseSpec:
    return decode_object(cast("Object", lease.get("spec") or {}), LeaseSpec)


def _text(error: Exception) -> str:
    return str(error) or "timed out"


async def _stop(task: asyncio.Task[None], grace: float) -> bool:
    """Cancel a task and wait for its end; whether it ended within ``grace`` seconds."""
    task.cancel()
    _, pending = await asyncio.wait({task}, timeout=grace)
    if pending:
        log.error("task_does_not_stop", task=task.get_name(), grace=grace)
    return not pending
