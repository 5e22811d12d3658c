from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_cluster import SHOP, ServiceCluster, running

from ccm.cloud import CloudUnavailable
from ccm.controllers.names import CLEANUP_FINALIZER
from ccm.controllers.service.change_limits import FIRST_DELAY, MAX_DELAY, RESET_AFTER, DriftBackoff
from ccm.controllers.service.controller import ServiceOptions

ALONE = ServiceOptions(resync_period=0)
OURS = [{"ip": "203.0.113.80", "ipMode": "VIP"}]
THEIRS = [{"ip": "192.0.2.1"}]


class Opponent:
    """Another controller, which writes as soon as it sees that something is not as it wants it."""

    def __init__(self, cluster: ServiceCluster, write: Callable[[dict[str, Any]], bool]) -> None:
        self.cluster, self.write = cluster, write
        self.works = True
        cluster.services.add_handler(lambda _old, new: self._see(new))

    def _see(self, new: Any) -> None:
        if new is not None and new.metadata.name == "web" and self.works:
            item = self.cluster.read("web")
            if self.write(item):
                self.cluster.transport.put(SHOP, item)


def write_status(item: dict[str, Any]) -> bool:
    """As ServiceLB of k3s does."""
    ours = item.get("status", {}).get("loadBalancer", {}).get("ingress") == OURS
    if ours:
        item["status"] = {"loadBalancer": {"ingress": THEIRS}}
    return ours


def take_finalizer(item: dict[str, Any]) -> bool:
    ours = CLEANUP_FINALIZER in item["metadata"]["finalizers"]
    item["metadata"]["finalizers"] = []
    return ours


def say(ingress: list[dict[str, Any]]) -> Callable[[dict[str, Any]], None]:
    def change(item: dict[str, Any]) -> None:
        item["status"] = {"loadBalancer": {"ingress": ingress}}

    return change


@pytest.mark.looptime
class TestController:
    @pytest.mark.parametrize(
        ("write", "message"),
        [
            (
                write_status,
                "the status contains 192.0.2.1, but the load balancer has the addresses 203.0.113.80",
            ),
            (take_finalizer, f"the finalizer {CLEANUP_FINALIZER} was removed"),
        ],
    )
    async def test_another_writer_is_reported_once(
        self, write: Callable[[dict[str, Any]], bool], message: str
    ) -> None:
        async with running(ALONE) as cluster:
            Opponent(cluster, write)
            await cluster.put("web")
            await cluster.settle(3600)
            # At once, after 5 s, 10 s, … and then every five minutes; the first look wrote both.
            assert 15 <= cluster.patches() <= 22
            assert len(cluster.calls("ensure")) <= 22
            [text] = cluster.events.messages("ServiceContested")
            assert message in text

    async def test_other_services_are_processed_meanwhile(self) -> None:
        async with running(ALONE) as cluster:
            Opponent(cluster, write_status)
            await cluster.put("web")
            cluster.transport.latency = 0.01
            await cluster.put("other")
            await cluster.settle(1)
            assert cluster.ingress("other") == OURS

    async def test_who_wins_in_the_end(self) -> None:
        async with running(ALONE) as cluster:
            opponent = Opponent(cluster, write_status)
            await cluster.put("web")
            await cluster.settle(3600)
            opponent.works = False
            assert cluster.ingress("web") == THEIRS
            await cluster.settle(MAX_DELAY)
            assert cluster.ingress("web") == OURS

    async def test_a_slip_now_and_then_is_no_fight(self) -> None:
        async with running(ALONE) as cluster:
            await cluster.put("web")
            for _ in range(10):
                await cluster.change("web", lambda item: item.update(status={}))
                assert cluster.ingress("web") == OURS
                await cluster.settle(RESET_AFTER + 1)
            assert not cluster.events.messages("ServiceContested")

    async def test_a_long_status_is_shortened(self) -> None:
        async with running(ALONE) as cluster:
            await cluster.put("web")
            many = [{"ip": f"192.0.2.{number}"} for number in range(200)]
            for ingress in (THEIRS, many):
                await cluster.change("web", say(ingress))
            [text] = cluster.events.messages("ServiceContested")
            assert "192.0.2.0, 192.0.2.1, 192.0.2.2 and 197 more" in text

    async def test_the_owner_does_not_wait_for_it(self) -> None:
        async with running(ALONE) as cluster:
            Opponent(cluster, write_status)
            await cluster.put("web")
            await cluster.settle(3600)
            await cluster.change("web", lambda item: item["metadata"].update(annotations={"a": "b"}))
            [made] = cluster.balancers.services.values()
            assert made.annotations == {"a": "b"}

    async def test_a_service_that_fails_has_one_delay(self) -> None:
        async with running(ALONE) as cluster:
            await cluster.put("web")
            cluster.cloud.script.fail("ensure", CloudUnavailable("no answer"))
            await cluster.change("web", lambda item: item["metadata"].update(annotations={"a": "b"}))
            calls = len(cluster.calls("ensure"))
            await cluster.change("web", lambda item: item.update(status={}))
            assert len(cluster.calls("ensure")) == calls
            cluster.cloud.script.heal("ensure")
            await cluster.settle(5)
            assert cluster.ingress("web") == OURS


@given(st.lists(st.floats(0, 2 * RESET_AFTER), max_size=60))
def test_the_first_repair_is_immediate_and_later_ones_wait(pauses: list[float]) -> None:
    drift_backoff, now, before = DriftBackoff(), 0.0, -RESET_AFTER - 1
    for pause in pauses:
        now += pause
        delay = drift_backoff.next_delay(now)
        assert 0 <= delay <= MAX_DELAY
        if now > before + RESET_AFTER:
            assert (delay, drift_backoff.contested) == (0, False)
        elif now >= before:
            assert delay >= FIRST_DELAY
        else:
            assert now + delay == pytest.approx(before)
        before = now + delay
