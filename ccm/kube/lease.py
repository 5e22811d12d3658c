"""Leader election by a Lease: at most one replica works at any time.

The holder writes the Lease every ``retry_period``. A candidate acquires the Lease if the Lease hasn't changed
for the duration in its spec. The candidate measures this time with its own monotonic clock, so no two clocks
are compared. If the holder can't write for ``renew_deadline``, which is shorter than the duration, the holder
stops. Its work must end before the duration ends. The deadline starts when the holder sends a write that
succeeds, so a write with a lost response doesn't extend the deadline.

If the work ends or the process must stop, the holder releases the Lease, but only after all work has ended.
Then the next replica starts immediately, and not after ``duration``.
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
    """Callbacks for metrics. ``slow_path`` is called when a renewal reads the Lease again."""

    leading: Callable[[bool], None]
    slow_path: Callable[[], None]


class LeaderElector:
    """Acquires a Lease, and renews it while the work runs.

    ``identity`` is unique among all replicas and restarts. ``clock`` returns monotonic seconds, if possible
    from a clock that runs while the machine is suspended. ``now`` is only for the timestamps in the Lease.
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
        """An error message if the last response of the API server rejected our credentials, otherwise None.

        If a service account is deleted, its token stays invalid, even if the account is recreated with the
        same name. Only a new Pod gets a valid token.
        """
        return (
            "the API server rejects the credentials of the cloud-controller-manager"
            if self._refused
            else None
        )

    def healthy(self) -> str | None:
        """An error message if this leader hasn't renewed the Lease for much too long, otherwise None."""
        silence = self._clock() - self._renewed_at
        if self.is_leader and silence > self._times.duration + _HEALTH_GRACE:
            failure = f"failed election to renew leadership on lease {self._name}"
            return f"{failure}: the last renewal was {silence:.0f} s ago"
        return None

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Acquire the Lease, run the work, and release the Lease when the work ends or ``run`` is cancelled.

        If another replica leads or may lead, cancels the work and raises LeaseLost. Then end the process.
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
                # As in client-go (NewFromKubeconfig in resourcelock), a timeout per request: a request to an
                # API server that failed must not delay the next requests.
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
        """Seconds until a candidate's next attempt: client-go's period, or less if the Lease expires."""
        usual = self._times.retry_period * (1 + _JITTER * self._random())
        left = self._expires_at() - self._clock()
        return min(usual, left) if left > 0 else usual

    async def _renew_until_lost(self) -> None:
        while True:
            # Don't sleep beyond the deadline, because the work needs the rest of the duration to end.
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
        """Store whether the API server rejected our credentials; errors without a response don't count."""
        if isinstance(error, KubernetesError) and error.status:
            self._refused = isinstance(error, Unauthorized)

    def _remaining(self) -> float:
        """Seconds until this leader must stop if no renewal succeeds."""
        return max(0.0, self._renewed_at + self._times.renew_deadline - self._clock())

    async def _try(self) -> bool:
        """Acquire or renew the Lease if that is allowed. Returns whether this process holds the Lease now."""
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
            # If another replica was the holder meanwhile, our work was unprotected, so it must stop.
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
            # Round up to whole seconds, so that no other replica acquires the Lease too early.
            "leaseDurationSeconds": math.ceil(self._times.duration),
            "acquireTime": before.acquire_time if ours else stamp,
            "renewTime": stamp,
            # The API server would reject a larger number, so no replica could acquire the Lease again.
            "leaseTransitions": min(before.lease_transitions + (0 if ours else 1), _MAX_TRANSITIONS),
        }

    def _observe(self, lease: Object) -> None:
        """Store the Lease, and the time of its last change on our clock."""
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
        """The time on our clock at which the Lease expires if no replica renews it."""
        return self._observed_at + (self._observed.lease_duration_seconds if self._observed else 0)

    async def _release(self) -> None:
        """Let another replica acquire the Lease now. After a failure, that replica waits for the expiry."""
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
    """Format a time as RFC 3339 with six digits after the second, as MicroTime requires."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _spec_of(lease: Object) -> LeaseSpec:
    return decode_object(cast("Object", lease.get("spec") or {}), LeaseSpec)


def _text(error: Exception) -> str:
    return str(error) or "timed out"


async def _stop(task: asyncio.Task[None], grace: float) -> bool:
    """Cancel a task and wait for its end. Returns whether the task ended within ``grace`` seconds."""
    task.cancel()
    _, pending = await asyncio.wait({task}, timeout=grace)
    if pending:
        log.error("task_does_not_stop", task=task.get_name(), grace=grace)
    return not pending
