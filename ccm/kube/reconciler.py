"""Workers: take a key from the queue, reconcile the key, and requeue the key if necessary.

``reconcile(key)`` brings the actual state to the desired state, whatever event added the key. It returns None
if it is done, or a number of seconds after which the worker requeues the key. If it raises an error, the
worker requeues the key with an increasing delay. If an error in the chain of causes has ``retry_after``, the
worker requeues the key after that number of seconds, and doesn't count a failure.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import structlog

from ccm.errors import CcmError
from ccm.kube.queue import WorkQueue
from ccm.tracing import Tracer

log = structlog.stdlib.get_logger(__name__)


Reconcile = Callable[[str], Awaitable[float | None]]


async def run_workers(queue: WorkQueue, reconcile: Reconcile, workers: int = 1) -> None:
    """Run the workers until cancelled. Two workers never process the same key at the same time."""
    if queue.tracer is not None:
        reconcile = _traced(queue.tracer, queue.name, reconcile)
    async with asyncio.TaskGroup() as group:
        for number in range(workers):
            group.create_task(_work(queue, reconcile), name=f"{queue.name}-worker-{number}")


def _traced(tracer: Tracer, queue: str, reconcile: Reconcile) -> Reconcile:
    async def traced(key: str) -> float | None:
        with tracer.reconcile(queue, key) as span:
            again_after = await reconcile(key)
            span.outcome("done" if again_after is None else "requeued")
            return again_after

    return traced


async def _work(queue: WorkQueue, reconcile: Reconcile) -> None:
    while True:
        key = await queue.get()
        try:
            await process(queue, reconcile, key)
        finally:
            queue.done(key)
        # Let probes and the lease renewal run, even if thousands of keys are processed without a wait.
        await asyncio.sleep(0)


async def process(queue: WorkQueue, reconcile: Reconcile, key: str) -> None:
    """Reconcile one key, and requeue the key if necessary."""
    try:
        again_after = await reconcile(key)
    except Exception as error:
        wait = retry_after(error)
        if wait is None:
            queue.add_rate_limited(key)
        else:
            queue.forget(key)
            queue.add_after(key, wait)
        log.error(  # noqa: TRY400 - an expected error needs no stack trace
            "reconcile_failed",
            queue=queue.name,
            key=key,
            failures=queue.failures(key),
            error=f"{type(error).__name__}: {error}",
            retry_after=wait,
            exc_info=not isinstance(error, CcmError),
        )
        return
    queue.forget(key)
    if again_after is not None:
        queue.add_after(key, again_after)


def retry_after(error: BaseException) -> float | None:
    """The seconds to wait according to an error or one of its causes; None if no error has a time."""
    for link in _chain(error):
        seconds = getattr(link, "retry_after", None)
        # Zero isn't a time to wait, so such an error is an ordinary failure.
        if isinstance(seconds, int | float) and seconds > 0:
            return float(seconds)
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
