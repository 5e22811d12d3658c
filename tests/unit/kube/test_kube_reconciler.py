import asyncio

import pytest

from ccm.clock import loop_time
from ccm.errors import CcmError
from ccm.kube.backoff import RetryLimiter
from ccm.kube.errors import TooManyRequests
from ccm.kube.queue import WorkQueue
from ccm.kube.reconciler import retry_after, run_workers

pytestmark = pytest.mark.looptime


class Work:
    """Does what a script says, and notes when."""

    def __init__(self, *script: object) -> None:
        self.script = list(script)
        self.log: list[tuple[str, float]] = []
        self.busy: set[str] = set()
        self.max_per_group = 0

    async def __call__(self, key: str) -> float | None:
        assert key not in self.busy
        self.busy.add(key)
        self.max_per_group = max(self.max_per_group, len(self.busy))
        self.log.append((key, round(loop_time(), 3)))
        await asyncio.sleep(1)
        self.busy.discard(key)
        outcome = self.script.pop(0) if self.script else None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def _run(queue: WorkQueue, work: Work, seconds: float, workers: int = 1) -> None:
    task = asyncio.create_task(run_workers(queue, work, workers))
    await asyncio.sleep(seconds)
    while queue.ages():  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_failure_comes_back_later_and_later_until_it_succeeds():
    queue = WorkQueue(limiter=RetryLimiter(base=10, cap=1000))
    work = Work(CcmError("no"), ValueError("bug"), None)
    queue.add("a")
    await _run(queue, work, 100)
    assert work.log == [("a", 0), ("a", 11), ("a", 32)]
    assert queue.failures("a") == 0


async def test_result_says_when_to_look_again():
    queue, work = WorkQueue(), Work(30.0, None)
    queue.add("a")
    await _run(queue, work, 100)
    assert work.log == [("a", 0), ("a", 31)]


async def test_error_with_a_time_comes_back_exactly_then_and_counts_for_nothing():
    queue, work = WorkQueue(limiter=RetryLimiter(base=10)), Work(TooManyRequests(429, retry_after=5))
    queue.add("a")
    await _run(queue, work, 8)
    assert work.log == [("a", 0), ("a", 6)]
    assert queue.failures("a") == 0


async def test_error_that_asks_for_no_wait_is_a_failure_like_any_other():
    queue = WorkQueue(limiter=RetryLimiter(base=10))
    work = Work(*(TooManyRequests(429, retry_after=0.0) for _ in range(50)))
    queue.add("a")
    await _run(queue, work, 20)
    assert work.log == [("a", 0), ("a", 11)]
    assert queue.failures("a") == 2


async def test_many_workers_but_never_two_on_one_key():
    queue, work = WorkQueue(), Work()
    for key in "abcab":
        queue.add(key)
    task = asyncio.create_task(run_workers(queue, work, 3))
    await asyncio.sleep(0.5)
    for key in "abc":
        queue.add(key)
    await asyncio.sleep(10)
    task.cancel()
    assert work.max_per_group == 3
    assert sorted(key for key, _ in work.log) == ["a", "a", "b", "b", "c", "c"]


async def test_cancelled_worker_leaves_nothing_in_its_hands():
    queue, work = WorkQueue(), Work()
    queue.add("a")
    task = asyncio.create_task(run_workers(queue, work))
    await asyncio.sleep(0.5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert queue.ages() == []


def test_time_is_found_along_the_chain():
    outer = CcmError("outer")
    outer.__cause__ = TooManyRequests(429, retry_after=9)
    assert retry_after(outer) == 9
    assert retry_after(CcmError("plain")) is None


def test_chain_in_a_circle_ends():
    first, second = CcmError("a"), CcmError("b")
    first.__cause__, second.__cause__ = second, first
    assert retry_after(first) is None
