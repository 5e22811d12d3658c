import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.kube.fairness import FairQueue, FairSemaphore, namespace_of
from ccm.kube.queue import WorkQueue

adding = st.tuples(st.just("add"), st.sampled_from("abc"))
taking = st.tuples(st.just("pop"), st.frozensets(st.sampled_from("abc")))


@given(st.lists(st.one_of(adding, taking)))
def test_each_group_keeps_its_order_and_who_was_served_least_recently_is_next(steps) -> None:
    line: FairQueue[tuple[str, int]] = FairQueue()
    waiting: list[tuple[str, int]] = []
    served: list[str] = []
    for number, (what, group) in enumerate(steps):
        if what == "add":
            line.add(group, (group, number))
            waiting.append((group, number))
        else:
            found = line.pop(lambda one, group=group: one in group)
            able = [one for one in waiting if one[0] in group]
            assert (found is None) is (not able)
            if found is None:
                continue
            assert found == next(one for one in waiting if one[0] == found[0])
            last = {one: index for index, one in enumerate(served)}
            assert all(last.get(found[0], -1) <= last.get(one, -1) for one, _ in able)
            waiting.remove(found)
            served.append(found[0])
        assert len(line) == len(waiting)


@pytest.mark.looptime
async def test_a_new_group_waits_for_one_item_of_the_busiest_group() -> None:
    turns, done, waited = FairSemaphore(1), list[str](), dict[str, bool]()

    async def work(key: str) -> None:
        async with turns.take(namespace_of(key)) as waited[key]:
            await asyncio.sleep(4)
            done.append(key)

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(work(f"loud/{number}"))
        await asyncio.sleep(5)
        group.create_task(work("quiet/web"))
    assert done.index("quiet/web") == 2
    assert [key for key, had_to in waited.items() if not had_to] == ["loud/0"]
    assert [key for key in done if key != "quiet/web"] == [f"loud/{number}" for number in range(20)]


@pytest.mark.looptime
@pytest.mark.parametrize("given_up_at", [0.5, 1, 1.5])
async def test_a_cancelled_waiter_loses_no_slot(given_up_at: float) -> None:
    """Also at the very moment at which it is given."""
    turns, working = FairSemaphore(1), 0

    async def work(group: str) -> None:
        nonlocal working
        async with turns.take(group):
            working += 1
            assert working == 1
            try:
                await asyncio.sleep(1)
            finally:
                working -= 1

    tasks = [asyncio.create_task(work(group)) for group in "abcabc"]
    for number in (1, 4):
        asyncio.get_running_loop().call_later(given_up_at, tasks[number].cancel)
    async with asyncio.timeout(20):
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await work("last")
    assert [isinstance(result, asyncio.CancelledError) for result in results] == [
        number in (1, 4) for number in range(6)
    ]


@pytest.mark.looptime
async def test_one_group_leaves_workers_to_the_others() -> None:
    queue = WorkQueue(group=namespace_of, max_per_group=2)
    for key in ("loud/1", "loud/2", "loud/3", "quiet/1", "loud/4"):
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["loud/1", "quiet/1", "loud/2"]
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    assert not waiting.done()
    queue.add("quiet/2")
    assert await waiting == "quiet/2"
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    queue.done("loud/1")
    assert await waiting == "loud/3"
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    assert not waiting.done()
    for key in ("loud/2", "loud/3"):
        queue.done(key)
    queue.add("loud/5")
    assert [await waiting, await queue.get()] == ["loud/4", "loud/5"]
