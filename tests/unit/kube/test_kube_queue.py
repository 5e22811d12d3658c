import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from virtual_time import VirtualLoop

from ccm.clock import loop_time
from ccm.kube.backoff import RetryLimiter
from ccm.kube.queue import WorkQueue

pytestmark = pytest.mark.looptime


async def test_no_delay_is_now():
    queue = WorkQueue("nodes")
    queue.add_after("a", 0)
    queue.add_after("b", -1)
    assert (queue.name, WorkQueue().name, len(queue)) == ("nodes", "", 2)


async def test_done_of_something_else_changes_nothing():
    queue = WorkQueue()
    queue.add("a")
    queue.done("a")
    queue.done("b")
    assert await queue.get() == "a"


async def test_an_earlier_delay_replaces_a_later_one():
    queue = WorkQueue()
    queue.add_after("a", 5)
    queue.add_after("a", 2)
    assert await queue.get() == "a"
    queue.done("a")
    queue.add_after("a", 10)
    assert await queue.get() == "a"
    assert loop_time() == pytest.approx(12), "nothing is left of the request for 5"


async def test_cancelled_worker_leaves_the_key_to_the_next():
    queue = WorkQueue()
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    queue.add("a")
    first.cancel()
    assert await second == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_ages_show_stuck_work():
    queue = WorkQueue()
    assert queue.ages() == []
    await asyncio.sleep(3)
    queue.add("a")
    queue.add("b")
    queue.add_after("c", 100)
    assert (queue.is_delayed("c"), queue.is_delayed("another")) == (True, False)
    queue.add_rate_limited("d")
    await queue.get()
    await asyncio.sleep(7)
    assert queue.ages() == pytest.approx([7])
    await queue.get()
    await asyncio.sleep(2)
    assert queue.ages() == pytest.approx([9, 2])


class Recorded:
    def __init__(self) -> None:
        self.log: list[object] = []

    def depth(self, waiting: int) -> None:
        self.log.append(("depth", waiting))

    def added(self) -> None:
        self.log.append("added")

    def started(self, waited: float) -> None:
        self.log.append(("started", waited))

    def finished(self, worked: float) -> None:
        self.log.append(("finished", worked))

    def retried(self) -> None:
        self.log.append("retried")


async def test_observer_learns_of_everything():
    recorded = Recorded()
    queue = WorkQueue(observer=recorded)
    await asyncio.sleep(2)
    queue.add("a")
    queue.add("a")
    await asyncio.sleep(3)
    await queue.get()
    await asyncio.sleep(4)
    queue.done("a")
    queue.add_rate_limited("a")
    assert recorded.log == ["added", ("depth", 1), ("started", 3), ("depth", 0), ("finished", 4), "retried"]


KEYS = st.sampled_from("abcd")


class WorkersMachine(RuleBasedStateMachine):
    """Workers that come, go and take their time: no key in two hands, none lost."""

    def __init__(self) -> None:
        super().__init__()
        self.virtual = VirtualLoop()
        self.queue = self.virtual.run(self._make())
        self.workers: list[asyncio.Task[None]] = []
        self.in_work: list[str] = []
        self.added: dict[str, float] = {}
        self.begun: dict[str, float] = {}
        self.max_per_group = 0

    @staticmethod
    async def _make() -> WorkQueue:
        return WorkQueue(limiter=RetryLimiter(base=1, cap=8))

    async def _work(self, seconds: float) -> None:
        while True:
            key = await self.queue.get()
            try:
                self.begun[key] = loop_time()
                self.in_work.append(key)
                self.max_per_group = max(self.max_per_group, self.in_work.count(key))
                await asyncio.sleep(seconds)
            finally:
                self.in_work.remove(key)
                # A worker that is cancelled has not finished; its key must come back.
                if asyncio.current_task().cancelling():
                    self.queue.add(key)
                self.queue.done(key)

    async def _start(self, seconds: float) -> None:
        self.workers.append(asyncio.create_task(self._work(seconds)))
        await asyncio.sleep(0.001)

    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0]))
    def start_worker(self, seconds):
        self.virtual.run(self._start(seconds))

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def cancel_worker(self, data):
        worker = self.workers.pop(data.draw(st.integers(0, len(self.workers) - 1)))
        worker.cancel()
        self.virtual.settle()

    @rule(key=KEYS, seconds=st.sampled_from([0, 0, 1, 5]), settled=st.booleans())
    def add(self, key, seconds, settled):
        async def add() -> None:
            self.queue.add_after(key, seconds)
            self.added[key] = loop_time()

        self.virtual.run(add())
        if settled:
            self.virtual.settle()

    @rule(seconds=st.sampled_from([0.1, 1, 4]))
    def pass_time(self, seconds):
        self.virtual.advance(seconds)

    @invariant()
    def one_hand_at_most(self):
        assert self.max_per_group <= 1

    def teardown(self):
        for worker in self.workers:
            worker.cancel()
        self.virtual.settle()
        self.virtual.run(self._start(0.0))
        self.virtual.advance(60)
        # What was requested began after the request: work that began before may not have seen its reason.
        assert [key for key, when in self.added.items() if self.begun.get(key, -1.0) < when] == []
        assert self.in_work == []
        assert len(self.queue) == 0
        self.virtual.close()


TestWorkersMachine = WorkersMachine.TestCase
TestWorkersMachine.settings = settings(stateful_step_count=30)
