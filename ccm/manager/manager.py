"""Starts and stops all parts in order.

1. Start the health and metrics server, also in followers. 2. Acquire the lease, if leader election is
enabled. 3. As leader, start the cloud, the informers, then the controllers in the order of the table. 4. At
the end (SIGTERM, or a lost lease), cancel the controllers and wait until they end. After SIGTERM, release the
lease, so that the next replica starts immediately.
"""

import asyncio
import gc
import random
from collections.abc import Callable, Sequence
from typing import Any, cast

import structlog

from ccm.clock import loop_time
from ccm.cloud import Cloud, CloudError, ShowsEnvironment
from ccm.errors import ConfigurationError
from ccm.kube.backoff import Backoff
from ccm.kube.events import EventRecorder
from ccm.kube.informer import Informer
from ccm.kube.lease import LeaderElector
from ccm.manager.controllers import TABLE, Controller, ControllerContext, Entry
from ccm.manager.metrics import Metrics
from ccm.manager.options import Options
from ccm.manager.serving import Connections, Endpoint, Health

_FLUSH = 1.0
# If an informer gets only errors for this many seconds, the readiness check fails.
_STALE = 120.0
# The processing of a key is stuck after this many seconds. Waits for the cloud end after three minutes.
_STUCK = 900.0

log = structlog.stdlib.get_logger(__name__)


class Manager:
    """One run of the cloud-controller-manager. The cloud must be open, but not started."""

    def __init__(
        self,
        options: Options,
        cloud: Cloud,
        connections: Connections,
        metrics: Metrics,
        *,
        identity: str,
        clock: Callable[[], float] | None = None,
        table: Sequence[Entry] = TABLE,
        redact: Callable[[str], str] = str,
    ) -> None:
        self.health = Health()
        shown = cloud.shown_environment() if isinstance(cloud, ShowsEnvironment) else None
        self.endpoint = Endpoint(options.flags, self.health, metrics.registry, connections, shown)
        self._options = options
        self._cloud = cloud
        self._connections = connections
        self._metrics = metrics
        self._identity = identity
        self._clock = clock
        self._table = table
        self._recorder = EventRecorder(
            connections.work,
            "cloud-controller-manager",
            host=identity.split("_", maxsplit=1)[0],
            redact=redact,
        )

    async def run(self) -> None:
        """Run until cancelled.

        Raises LeaseLost if another replica leads or may lead. Raises ConfigurationError if the flags or the
        environment name an object that doesn't exist or must not be used.
        """
        async with self.endpoint:
            sending = asyncio.create_task(self._recorder.outbox.run(), name="events")
            try:
                await self._lead_or_wait()
            finally:
                await self._recorder.outbox.flush(_FLUSH)
                sending.cancel()
                await self._cloud.close()

    async def _lead_or_wait(self) -> None:
        flags = self._options.flags
        if not flags["leader-elect"]:
            await self._lead()
            return
        name = flags["leader-elect-resource-name"]
        elector = LeaderElector(
            self._connections.lease,
            identity=self._identity,
            namespace=flags["leader-elect-resource-namespace"],
            name=name,
            times=self._options.lease_times,
            recorder=self._recorder,
            observer=self._metrics.lease(name),
            clock=self._clock,
        )
        self.health.add("leaderElection", elector.healthy, live=True)
        self.health.add("credentials", elector.accepted)
        await elector.run(self._lead)

    async def _lead(self) -> None:
        """Run the parts that only the leader runs."""
        await self._start_cloud()
        self.health.add(f"cloud-{self._cloud.name}", self._cloud.healthy)
        context = ControllerContext(
            self._cloud, self._connections.work, self._recorder, self._options, self._metrics
        )
        controllers = self._build(context)
        self.health.add("queues", self._queues_move)
        try:
            async with asyncio.TaskGroup() as group:
                for path, informer in context.informers.items():
                    self.health.add(f"informer-{path.rsplit('/', 1)[-1]}", _informer_check(informer))
                    group.create_task(informer.run(), name=f"informer {path}")
                for entry, controller in controllers:
                    await self._start(entry, controller, group)
                if not controllers:
                    why = "all controllers are disabled, or not supported by the cloud"
                    log.warning("nothing_to_do", why=why)
                    await asyncio.Event().wait()
                # Existing objects stay, so the garbage collector needn't scan them repeatedly.
                gc.collect()
                gc.freeze()
        except ExceptionGroup as failures:
            raise _first(failures) from failures
        finally:
            for entry, _ in controllers:
                self._metrics.running(entry.metric, running=False)

    async def _start_cloud(self) -> None:
        """Retry until the cloud has started. Meanwhile, a health check reports the wait."""
        if not self._cloud.has_cluster_id and not self._options.flags["allow-untagged-cloud"]:
            problem = (
                f'cloud provider "{self._cloud.name}" has no cluster ID; set the ID, or set '
                "--allow-untagged-cloud"
            )
            raise ConfigurationError([problem])
        backoff, waiting = Backoff(base=1.0), "starting"
        self.health.add("cloud-start", lambda: waiting)
        while True:
            try:
                await self._cloud.start()
            except CloudError as error:
                waiting = f"the cloud can't be used: {error}"
                pause = backoff.next(loop_time(), random.random())  # noqa: S311 - jitter
                log.warning(
                    "cloud_not_started", cloud=self._cloud.name, error=str(error), pause=round(pause, 1)
                )
                await asyncio.sleep(pause)
            else:
                self.health.remove("cloud-start")
                log.info("cloud_started", cloud=self._cloud.name)
                return

    def _build(self, context: ControllerContext) -> list[tuple[Entry, Controller]]:
        built: list[tuple[Entry, Controller]] = []
        for entry in self._table:
            if not self._options.runs(entry.name):
                log.info("controller_off", controller=entry.name)
                continue
            controller = entry.build(context)
            if controller is None:
                log.warning("controller_skipped", controller=entry.name, why="the cloud doesn't have it")
            else:
                built.append((entry, controller))
        return built

    def _queues_move(self) -> str | None:
        stuck = {name: age for name, age in self._metrics.longest_work().items() if age > _STUCK}
        queues = ", ".join(f"{name} ({age:.0f} s)" for name, age in stuck.items())
        return f"processing of a key takes too long in these queues: {queues}" if stuck else None

    async def _start(self, entry: Entry, controller: Controller, group: asyncio.TaskGroup) -> None:
        log.info("controller_started", controller=entry.name)
        self.health.add(entry.name, controller.healthy)
        self._metrics.running(entry.metric, running=True)
        group.create_task(controller.run(), name=entry.name)
        interval = self._options.flags["controller-start-interval"]
        await asyncio.sleep(interval * (1 + random.random()))  # noqa: S311 - jitter


def _informer_check(informer: Informer[Any]) -> Callable[[], str | None]:
    def check() -> str | None:
        if not informer.synced.is_set():
            return f"the list of {informer.path} is not complete yet: {informer.last_error or 'wait'}"
        since = informer.failing_since
        silence = 0.0 if since is None else loop_time() - since
        if silence < _STALE:
            return None
        return f"for {silence:.0f} s, the CCM has failed to watch {informer.path}: {informer.last_error}"

    return check


def _first(failures: ExceptionGroup[Exception]) -> Exception:
    """The first error of a group of tasks, which cancelled the other tasks."""
    first = failures.exceptions[0]
    return _first(cast("Any", first)) if isinstance(first, ExceptionGroup) else first
