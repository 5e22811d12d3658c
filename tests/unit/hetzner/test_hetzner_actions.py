import asyncio
from collections.abc import Sequence

import pytest

from ccm.cloud import CloudUnavailable
from ccm.hetzner.api.actions import BATCH, ActionWaiter
from ccm.hetzner.api.api_errors import ActionFailed, ActionTimedOut
from ccm.hetzner.api.models import Action, ActionError

pytestmark = pytest.mark.looptime


class Actions:
    """Actions that end when a test ends them. Records the polls."""

    def __init__(self) -> None:
        self.ended: dict[int, Action] = {}
        self.polls: list[list[int]] = []
        self.error: Exception | None = None

    async def fetch(self, ids: Sequence[int]) -> list[Action]:
        self.polls.append(list(ids))
        if self.error:
            raise self.error
        return [self.ended.get(number, Action(number)) for number in ids]

    def waiter(self, **options: float) -> ActionWaiter:
        return ActionWaiter(self.fetch, **options)


async def test_what_has_ended_needs_no_poll() -> None:
    actions = Actions()
    await actions.waiter().wait(Action(1, "do", "success"))
    with pytest.raises(ActionFailed, match=r"action do failed: no space \(full\)"):
        await actions.waiter().wait(Action(1, "do", "error", ActionError("full", "no space")))
    assert actions.polls == []


async def test_a_hundred_cost_four_requests_a_poll() -> None:
    actions = Actions()
    waiter = actions.waiter()
    waits = [asyncio.create_task(waiter.wait(Action(number))) for number in range(100)]
    await asyncio.sleep(0.5)
    assert [len(poll) for poll in actions.polls] == [BATCH] * 4
    actions.ended = {number: Action(number, status="success") for number in range(100)}
    await asyncio.gather(*waits)


async def test_polls_get_rarer_and_soon_again_for_new_work() -> None:
    actions = Actions()
    waiter = actions.waiter(timeout=1000)
    old = asyncio.create_task(waiter.wait(Action(1)))
    await asyncio.sleep(60)
    assert len(actions.polls) < 20
    before = len(actions.polls)
    actions.ended[2] = Action(2, status="success")
    started = asyncio.get_running_loop().time()
    await waiter.wait(Action(2))
    assert asyncio.get_running_loop().time() - started <= 5.1
    assert len(actions.polls) > before
    old.cancel()
    await waiter.close()


async def test_waiting_ends_some_time() -> None:
    actions = Actions()
    waiter = actions.waiter(timeout=10)
    with pytest.raises(ActionTimedOut, match="is still running after 10 s"):
        await waiter.wait(Action(1, "slow"))
    await waiter.close()


async def test_a_missing_answer_fails_all_waiters() -> None:
    actions = Actions()
    actions.error = CloudUnavailable("down")
    waiter = actions.waiter()
    outcomes = await asyncio.gather(*(waiter.wait(Action(n)) for n in (1, 2)), return_exceptions=True)
    assert outcomes == [actions.error] * 2


async def test_two_may_wait_for_the_same_and_one_may_leave() -> None:
    actions = Actions()
    waiter = actions.waiter()
    first = asyncio.create_task(waiter.wait(Action(1)))
    second = asyncio.create_task(waiter.wait(Action(1)))
    await asyncio.sleep(0.1)
    first.cancel()
    actions.ended[1] = Action(1, status="success")
    await second
    assert first.cancelled()


async def test_all_are_awaited_before_a_failure_is_raised() -> None:
    actions = Actions()
    actions.ended = {1: Action(1, "a", "error", ActionError("x", "bad")), 2: Action(2, "b", "success")}
    with pytest.raises(ActionFailed, match="action a failed"):
        await actions.waiter().wait_all([Action(1), Action(2)])
