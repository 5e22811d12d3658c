import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_cluster import SHOP, running

from ccm.cloud import CloudUnavailable, Ingress, LoadBalancerResult
from ccm.controllers.service.change_limits import (
    ASSUMED_STEPS,
    BURST,
    INTERVAL,
    MAX_STEPS,
    NAMESPACE_BURST,
    ChangeRateLimiter,
)
from ccm.controllers.service.controller import ServiceOptions

ALONE = ServiceOptions(resync_period=0)


def annotate(number: int) -> Any:
    def change(item: dict[str, Any]) -> None:
        item["metadata"]["annotations"] = {"load-balancer.hetzner.cloud/http-cookie-name": f"c{number}"}

    return change


def become(kind: str) -> Any:
    def change(item: dict[str, Any]) -> None:
        item["spec"]["type"] = kind

    return change


@pytest.mark.looptime
class TestController:
    async def test_a_change_each_second_is_followed_ever_more_slowly_and_the_last_one_counts(self) -> None:
        async with running(ALONE) as cluster:
            await cluster.put("web")
            for number in range(1800):
                await cluster.change("web", annotate(number))
                await cluster.settle(0.9)
            # A change is a look and a step: a burst of 30, then one in 20 seconds.
            assert len(cluster.calls("ensure")) <= BURST / 2 + 1800 / (2 * INTERVAL) + 1
            await cluster.settle(2 * INTERVAL)
            [made] = cluster.balancers.services.values()
            assert [*made.annotations.values()] == ["c1799"]

    async def test_a_person_who_tries_things_out_never_waits(self) -> None:
        async with running(ALONE) as cluster:
            await cluster.put("web")
            for number in range(25):
                await cluster.change("web", annotate(number))
                await cluster.settle(3)
            assert len(cluster.calls("ensure")) == 26

    async def test_other_services_and_new_nodes_do_not_wait_for_it(self) -> None:
        async with running(ALONE) as cluster:
            await cluster.put("web")
            for number in range(100):
                await cluster.change("web", annotate(number))
            await cluster.put("other")
            await cluster.put_node("a")
            assert cluster.targets("other") == cluster.targets("web") == ("a",)

    async def test_one_namespace_that_makes_and_deletes_services_all_day_is_slowed_down(self) -> None:
        """Whatever their names are; another namespace notices nothing of it."""
        async with running(ALONE) as cluster:
            for number in range(720):
                await cluster.put(f"web-{number}")
                await cluster.settle(2)
                await cluster.transport.delete(f"{SHOP}/web-{number}")
                await cluster.settle(3)
            made = len(cluster.calls("ensure"))
            assert made <= (NAMESPACE_BURST + 3600 / INTERVAL) / (1 + ASSUMED_STEPS)
            assert not cluster.balancers.services
            await cluster.put("web", namespace="other")
            assert len(cluster.calls("ensure")) == made + 1

    async def test_a_service_of_another_namespace_waits_for_one_change(self) -> None:
        """Sixty wait for theirs, more than there are workers."""
        async with running(ALONE) as cluster:
            done: list[str] = []

            async def ensure(service, _nodes):
                await asyncio.sleep(4)
                done.append(service.name)
                return LoadBalancerResult((Ingress(ip="203.0.113.80"),), steps=("create",))

            cluster.balancers.ensure = ensure  # type: ignore[method-assign]
            for number in range(60):
                await cluster.put(f"web-{number}")
            await cluster.put("quiet", namespace="other")
            await cluster.settle(8.1)
            assert "quiet" in done

    async def test_its_deletion_does_not_wait_and_a_recreated_one_does(self) -> None:
        async with running(ALONE) as cluster:
            await cluster.put("web")
            for number in range(100):
                await cluster.change("web", annotate(number))
            cluster.transport.remove(f"{SHOP}/web")
            await cluster.settle()
            assert not cluster.balancers.services
            await cluster.put("web")
            assert cluster.ingress("web") == []
            await cluster.settle(200)
            assert cluster.ingress("web")

    async def test_neither_does_one_that_changes_its_type_get_around_it(self) -> None:
        async with running(ALONE) as cluster:
            await cluster.put("web")
            for _ in range(100):
                await cluster.change("web", become("ClusterIP"))
                await cluster.change("web", become("LoadBalancer"))
            assert len(cluster.calls("delete-load-balancer")) <= BURST / ASSUMED_STEPS

    async def test_failures_of_the_cloud_are_not_counted(self) -> None:
        async with running(ALONE) as cluster:
            cluster.cloud.script.fail("ensure", CloudUnavailable("no answer"))
            await cluster.put("web")
            await cluster.settle(7200)
            cluster.cloud.script.heal("ensure")
            await cluster.change("web", annotate(1))
            assert cluster.ingress("web")

    async def test_a_change_of_many_steps_can_be_put_right_at_once(self) -> None:
        async with running(ALONE) as cluster:
            done: list[str] = []

            async def ensure(service, _nodes):
                done.extend(service.annotations.values())
                return LoadBalancerResult((Ingress(ip="203.0.113.80"),), steps=("move",) * 100)

            cluster.balancers.ensure = ensure  # type: ignore[method-assign]
            await cluster.put("web", annotations={"a": "b"})
            await cluster.settle(600)
            for number in range(2):
                await cluster.change("web", annotate(number))
            assert done == ["b", "c0", "c1"]
            await cluster.change("web", annotate(2))
            assert done == ["b", "c0", "c1"]
            await cluster.settle(MAX_STEPS * INTERVAL)
            assert done == ["b", "c0", "c1", "c2"]

    async def test_a_wait_is_reported_once(self) -> None:
        async with running(ALONE) as cluster:
            await cluster.put("web")
            for number in range(50):
                await cluster.change("web", annotate(number))
            [text] = cluster.events.messages("LoadBalancerChangePostponed")
            seconds = float(text.removesuffix(" s").rpartition(" ")[2])
            calls = len(cluster.calls("ensure"))
            await cluster.settle(seconds + 1)
            assert len(cluster.calls("ensure")) == calls + 1
            for number in range(50):
                await cluster.change("web", annotate(number))
            assert len(cluster.events.messages("LoadBalancerChangePostponed")) == 2


@given(st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1000)), max_size=50))
def test_no_more_than_a_burst_and_what_comes_back(specs: list[tuple[int, float]]) -> None:
    rate_limiter, now, spent = ChangeRateLimiter(), 0.0, 0
    for steps, pause in specs:
        now += pause
        if rate_limiter.delay("shop/web", now) == 0:
            assert spent <= BURST - 1 + now / INTERVAL + 1e-6
            rate_limiter.charge("shop/web", steps, now)
            spent += min(steps, MAX_STEPS)
        assert rate_limiter.delay("shop/other", now) == 0


def test_who_has_rested_is_forgotten() -> None:
    rate_limiter = ChangeRateLimiter()
    for number in range(100):
        rate_limiter.charge(f"shop/{number}", 1, 0.0)
    assert len(rate_limiter) == 101
    rate_limiter.charge("shop/web", 1, 100 * INTERVAL)
    assert len(rate_limiter) == 2
