import pytest

from bench import idle, shutdown
from bench.lab import hours

pytestmark = pytest.mark.slow
FEW = 4


async def test_a_quiet_hour_is_counted() -> None:
    counts = (await hours.ours("idle", idle.TARGETS))["counts"]
    assert set(counts) == {"GET /servers", "GET /load_balancers"}, "it only looks"
    assert sum(counts.values()) <= idle.BOUND


async def test_an_hour_with_a_machine_that_is_off_is_counted() -> None:
    found = await hours.ours("shutdown", FEW)
    assert "GET /servers/{id}" in found["counts"], "the one that is off is looked at"
    assert sum(found["counts"].values()) <= shutdown.CALLS
    assert 0 < found["tainted"] <= shutdown.SECONDS
    assert 0 < found["untainted"] <= shutdown.SECONDS
