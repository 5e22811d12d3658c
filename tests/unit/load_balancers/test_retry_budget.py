from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from balancer_site import BalancerSite, targets, view

from ccm.cloud import CloudError, Rejected
from ccm.hetzner.api import Priority
from ccm.hetzner.api.actions import ActionWaiter
from ccm.hetzner.api.api_errors import Locked, TokenChanged, Unavailable
from ccm.hetzner.api.models import Action
from ccm.hetzner.load_balancers.apply import RetryBudget
from ccm.hetzner.load_balancers.apply.apply_state import MAX_TOTAL_PAUSE, PAUSES

_DOMAINS = "http-managed-certificate-domains"
CERTIFIED = view(
    "web",
    *range(80, 85),
    annotations={
        "protocol": "https",
        "certificate-type": "managed",
        _DOMAINS: "example.com",
        **{f"port.{port}.{_DOMAINS}": f"x{port}.example.com" for port in range(80, 85)},
    },
)
ADD_TARGET = "POST /load_balancers/{id}/actions/add_target"


class Pauses:
    """What was waited for, instead of waiting."""

    def __init__(self, site: BalancerSite) -> None:
        self.all: list[float] = []
        site.balancers.inventory.sleep = self.sleep

    async def sleep(self, seconds: float) -> None:
        self.all.append(seconds)


async def many_nodes(site: BalancerSite, count: int = 20) -> None:
    await site.add_nodes(*(f"n{number}" for number in range(count)))
    await site.ensure(view(), [])
    await site.sky.forget_requests()


@pytest.mark.parametrize("code", ["locked", "conflict"])
async def test_one_that_stays_locked_costs_no_more_than_a_few_tries(site: BalancerSite, code: str) -> None:
    await many_nodes(site)
    pauses = Pauses(site)
    await site.sky.fault(path="/load_balancers/{id}/actions/add_target", code=code)
    with pytest.raises(CloudError, match=code):
        await site.ensure(view())
    assert sum(PAUSES) <= sum(pauses.all) <= MAX_TOTAL_PAUSE
    assert (await site.sky.counts())[ADD_TARGET] < 2 * len(PAUSES) + 2
    await site.sky.heal()
    await site.ensure(view())
    assert len(targets(await site.one())) == 20


async def test_one_target_that_stays_locked_keeps_no_other_back(site: BalancerSite) -> None:
    await many_nodes(site)
    Pauses(site)
    path = "/load_balancers/{id}/actions/add_target"
    await site.sky.fault(path=path, code="locked", times=len(PAUSES) + 1)
    with pytest.raises(CloudError, match="locked"):
        await site.ensure(view())
    assert len(targets(await site.one())) == 19


async def test_one_that_goes_is_not_waited_for_any_longer(site: BalancerSite) -> None:
    await site.ensure(view())
    pauses = Pauses(site)
    await site.sky.fault(method="DELETE", path="/load_balancers/*", code="locked")
    with pytest.raises(Locked):
        await site.balancers.delete(view())
    assert sum(pauses.all) <= MAX_TOTAL_PAUSE
    await site.sky.heal()
    await site.balancers.delete(view())
    assert await site.all() == []


async def test_an_action_that_hangs_is_waited_for_once(site: BalancerSite) -> None:
    await many_nodes(site)
    api = site.cloud.api
    act = api.act

    async def begun(*args: Any, **more: Any) -> Action:
        return msgspec.structs.replace(await act(*args, **more), status="running")

    async def still_running(ids: Sequence[int]) -> list[Action]:
        return [Action(number, "add_target") for number in ids]

    api.act = begun  # type: ignore[method-assign]
    hanging = ActionWaiter(still_running, timeout=0.01)  # it never ends
    api._actions[api.token.number, Priority.LOAD_BALANCERS] = hanging
    with pytest.raises(CloudError, match="still running"):
        await site.ensure(view())
    assert (await site.sky.counts())[ADD_TARGET] == 1


async def test_certificates_that_stay_locked_are_left_for_later(site: BalancerSite) -> None:
    await site.ensure(CERTIFIED)
    await site.sky.fault(method="DELETE", path="/certificates/*", code="locked")
    await site.sky.forget_requests()
    pauses = Pauses(site)
    with pytest.raises(CloudError, match="locked"):
        await site.balancers.delete(CERTIFIED)
    assert sum(pauses.all) <= MAX_TOTAL_PAUSE
    assert (await site.sky.counts())["DELETE /certificates/{id}"] < 2 * len(PAUSES) + 2


async def test_an_api_that_answers_nothing_is_asked_twice_for_certificates(site: BalancerSite) -> None:
    await site.sky.fault(method="POST", path="/certificates", code="unavailable")
    with pytest.raises(CloudError, match="unavailable"):
        await site.ensure(CERTIFIED)
    assert (await site.sky.counts())["POST /certificates"] == 2
    assert await site.all() == []


@pytest.mark.parametrize(
    ("errors", "over"),
    [
        ([Locked("x")], False),
        ([Unavailable("x")], False),
        ([Locked("x"), Unavailable("x")], True),
        ([TokenChanged("x")], True),
        ([Rejected("x")] * 9, False),
    ],
)
def test_what_is_no_use_to_go_on_after(errors: Sequence[CloudError], *, over: bool) -> None:
    retry_budget = RetryBudget(_no_sleep)
    for error in errors:
        retry_budget.note(error)
    assert retry_budget.exhausted is over


async def _no_sleep(_: float) -> None:
    """Nobody is waited for."""
