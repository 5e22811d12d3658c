"""Who may make a request when the quota is short; virtual time."""

from __future__ import annotations

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


async def test_while_there_is_quota_nobody_waits() -> None:
    tokens = budget()
    for _ in range(3000):
        await tokens.acquire(SWEEP)
        tokens.release()
    assert now() < 0.1


async def test_an_empty_bucket_refills_at_the_hourly_rate() -> None:
    tokens = budget()
    tokens.exhausted()
    for _ in range(5):
        await tokens.acquire(NODES)
        tokens.release()
    assert 4.9 <= now() <= 5.2


async def test_the_servers_word_counts_not_ours() -> None:
    tokens = budget()
    tokens.observe(7200, 3)
    assert tokens.limit == 7200
    for _ in range(3):
        await tokens.acquire(NODES)
        tokens.release()
    assert now() < 0.1
    await tokens.acquire(NODES)
    assert 0.4 <= now() <= 0.6, "7200 an hour are two a second"


async def test_requests_on_their_way_are_taken_off_the_servers_word() -> None:
    tokens = budget()
    for _ in range(3):
        await tokens.acquire(NODES)
    tokens.observe(3600, 100)
    assert tokens.remaining == pytest.approx(98)


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
    assert tokens.waiting == 1, "a twentieth of the bucket is not for Services"
    for _ in range(50):
        await tokens.acquire(Priority.ROUTES)
        tokens.release()
        await tokens.acquire(NODES)
        tokens.release()
    assert now() < 0.1, "nobody waits behind a Service"
    flapping.cancel()


async def test_sweeps_leave_a_reserve_that_nodes_may_use() -> None:
    tokens = budget()
    tokens.observe(3600, 350)
    sweep = asyncio.create_task(tokens.acquire(SWEEP))
    await asyncio.sleep(0)
    assert tokens.waiting == 1
    for _ in range(10):
        await tokens.acquire(NODES)
        tokens.release()
    assert now() < 0.1
    await sweep
    assert 20 < now() < 22, "a tenth of the bucket has to be there first"


async def test_who_would_wait_too_long_is_told_at_once() -> None:
    tokens = budget()
    tokens.observe(3600, 100)
    with pytest.raises(QuotaUsedUp, match="3600 API requests an hour are used up") as error:
        await tokens.acquire(SWEEP)
    assert retry_after(error.value) == pytest.approx(261, abs=1)
    assert [notice.reason for notice in error.value.notices] == ["RateLimited"]
    await tokens.acquire(NODES)
    assert now() < 0.1


async def test_a_crowd_is_told_as_well() -> None:
    tokens = budget()
    tokens.exhausted()
    waits = [asyncio.create_task(tokens.acquire(NODES)) for _ in range(100)]
    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    assert 28 <= sum(outcome is None for outcome in outcomes) <= 31
    assert now() <= 31


async def test_giving_up_gives_the_turn_away() -> None:
    tokens = budget()
    tokens.exhausted()
    first = asyncio.create_task(tokens.acquire(NODES))
    second = asyncio.create_task(tokens.acquire(NODES))
    await asyncio.sleep(0.1)
    first.cancel()
    await second
    assert now() <= 1.2
    assert first.cancelled()


async def test_waiting_is_reported() -> None:
    waited: list[float] = []
    tokens = Budget(clock=asyncio.get_running_loop().time, on_wait=waited.append)
    tokens.exhausted()
    await tokens.acquire(NODES)
    assert waited == [pytest.approx(1.0, abs=0.1)]
