import asyncio

import pytest

from ccm.hetzner.api import Budget, Priority, QuotaUsedUp
from ccm.kube.reconciler import retry_after

pytestmark = pytest.mark.looptime

NODES, BALANCERS, SWEEP = Priority.NODES, Priority.LOAD_BALANCERS, Priority.SWEEP


def budget(limit: int = 3600) -> Budget:
    return Budget(limit=limit, clock=asyncio.get_running_loop().time)


def now() -> float:
    return asyncio.get_running_loop().time()


class Clock:
    """Stands still until a test moves it, so that tokens can be counted exactly."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(clock: Clock) -> Budget:
    return Budget(clock=clock)


async def settle() -> None:
    """Let everything happen that can happen now."""
    for _ in range(5):
        await asyncio.sleep(0)


async def in_flight(tokens: Budget) -> int:
    """How many requests count as under way: what is taken off the server's word, and the answer itself."""
    for _ in range(3):
        await tokens.acquire(NODES)
    tokens.observe(None, 1000)
    return round(1000 - tokens.remaining) + 1 - 3


async def test_the_bucket_holds_an_hour_of_requests(tokens: Budget, clock: Clock) -> None:
    assert tokens.limit == tokens.remaining == 3600
    tokens.exhausted()
    assert tokens.remaining == 0
    clock.seconds += 100
    assert tokens.remaining == pytest.approx(100)
    clock.seconds += 3600
    assert tokens.remaining == 3600, "and never more"


async def test_how_long_it_would_take(tokens: Budget) -> None:
    assert tokens.expected_wait(NODES) == 0
    tokens.exhausted()
    assert tokens.expected_wait(NODES) == pytest.approx(1)
    assert tokens.expected_wait(SWEEP) == pytest.approx(361)
    tokens.observe(7200, 700)
    assert tokens.expected_wait(SWEEP) == pytest.approx(10.5), "7200 an hour are two a second"
    less_important = asyncio.create_task(tokens.acquire(SWEEP))
    await settle()
    assert not less_important.done()
    assert tokens.expected_wait(SWEEP) == pytest.approx(11)
    tokens.observe(None, 0)
    assert tokens.expected_wait(NODES) == pytest.approx(0.5), "no request waits behind a less important one"
    less_important.cancel()


async def test_thirty_seconds_are_waited_and_not_more(tokens: Budget) -> None:
    tokens.exhausted()
    waits = [asyncio.create_task(tokens.acquire(NODES)) for _ in range(31)]
    await settle()
    assert [wait.done() for wait in waits] == [False] * 30 + [True]
    assert isinstance(waits[-1].exception(), QuotaUsedUp)
    for wait in waits:
        wait.cancel()


async def test_equal_priorities_never_overtake(tokens: Budget, clock: Clock) -> None:
    tokens.exhausted()
    first = asyncio.create_task(tokens.acquire(NODES))
    await settle()
    clock.seconds += 1
    second = asyncio.create_task(tokens.acquire(NODES))
    await asyncio.sleep(1.1)
    assert (first.done(), second.done()) == (True, False)
    second.cancel()


@pytest.mark.parametrize("remaining", [1, 5])
async def test_a_token_that_comes_too_late_is_returned(tokens: Budget, remaining: int) -> None:
    tokens.exhausted()
    late = asyncio.create_task(tokens.acquire(NODES))
    await settle()
    tokens.observe(None, remaining)
    assert tokens.remaining == remaining - 1, "it has its turn"
    late.cancel()
    await settle()
    assert late.cancelled()
    assert tokens.remaining == remaining
    tokens.observe(None, 1000)
    assert await in_flight(tokens) == 0


async def test_a_cancelled_waiter_returns_no_token(tokens: Budget) -> None:
    tokens.exhausted()
    impatient = asyncio.create_task(tokens.acquire(NODES))
    behind = asyncio.create_task(tokens.acquire(NODES))
    await settle()
    impatient.cancel()
    await settle()
    assert tokens.remaining == 0
    tokens.observe(None, 9)
    await settle()
    assert behind.done(), "no request is in front any more"
    assert tokens.remaining == 8


async def test_headers_that_are_missing_or_make_no_sense_change_nothing(tokens: Budget) -> None:
    tokens.observe(None, None)
    tokens.observe(0, None)
    assert (tokens.limit, tokens.remaining) == (3600, 3600)
    tokens.observe(None, 0)
    assert (tokens.limit, tokens.remaining) == (3600, 0)
    tokens.observe(1, 7)
    assert (tokens.limit, tokens.remaining) == (1, 1)


async def test_who_waits_does_not_look_again_and_again(tokens: Budget, clock: Clock) -> None:
    tokens.observe(None, 341)
    sweep = asyncio.create_task(tokens.acquire(SWEEP))
    await settle()
    looks = clock.looks
    await asyncio.sleep(19)
    assert clock.looks == looks
    clock.seconds += 20
    await asyncio.sleep(2)
    assert sweep.done()


async def test_the_most_important_goes_first() -> None:
    tokens = budget()
    tokens.observe(3600, 168)
    order: list[str] = []

    async def work(name: str, priority: Priority) -> None:
        await tokens.acquire(priority)
        tokens.release()
        order.append(name)

    async with asyncio.TaskGroup() as group:
        for name, priority in [("lb", BALANCERS), ("n1", NODES), ("n2", NODES)]:
            group.create_task(work(name, priority))
    assert order == ["n1", "n2", "lb"]
    assert 14 < now() < 17


async def test_a_service_that_is_changed_all_the_time_leaves_routes_and_nodes_theirs() -> None:
    tokens = budget()
    tokens.observe(3600, 200)
    for _ in range(20):
        await tokens.acquire(BALANCERS)
        tokens.release()
    flapping = asyncio.create_task(tokens.acquire(BALANCERS))
    await asyncio.sleep(0)
    assert not flapping.done(), "a twentieth of the bucket is not for Services"
    for _ in range(50):
        await tokens.acquire(Priority.ROUTES)
        tokens.release()
        await tokens.acquire(NODES)
        tokens.release()
    assert now() < 0.1, "no request waits behind a Service"
    flapping.cancel()


async def test_sweeps_leave_a_reserve_that_nodes_may_use() -> None:
    tokens = budget()
    tokens.observe(3600, 350)
    sweep = asyncio.create_task(tokens.acquire(SWEEP))
    await asyncio.sleep(0)
    assert not sweep.done()
    for _ in range(10):
        await tokens.acquire(NODES)
        tokens.release()
    assert now() < 0.1
    await sweep
    assert 20 < now() < 22, "a tenth of the bucket has to be there first"


async def test_too_long_a_wait_fails_at_once() -> None:
    tokens = budget()
    tokens.observe(3600, 100)
    with pytest.raises(QuotaUsedUp, match="limit of 3600 requests per hour") as error:
        await tokens.acquire(SWEEP)
    assert retry_after(error.value) == pytest.approx(261, abs=1)
    (notice,) = error.value.notices
    assert (notice.reason, notice.message) == ("RateLimited", str(error.value))
    await tokens.acquire(NODES)
    assert now() < 0.1


async def test_waiting_is_reported() -> None:
    waited: list[float] = []
    tokens = Budget(clock=asyncio.get_running_loop().time, on_wait=waited.append)
    await asyncio.sleep(5)
    tokens.exhausted()
    await tokens.acquire(NODES)
    assert waited == [pytest.approx(1.0, abs=0.1)]
