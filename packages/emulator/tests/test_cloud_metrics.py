import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from cloud_emulator import Emulator, Start
from hypothesis import given
from hypothesis import strategies as st
from multidict import MultiDict

from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import OPERATIONS
from hetzner_emulator.backend import BackendError, RecordsBackend
from hetzner_emulator.state.measurements import MAX_SAMPLES, Measurements, Sample, values_at
from hetzner_emulator.state.records import timestamp

SPAN = {"type": "cpu", "start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:01:00Z"}


class Measured(RecordsBackend):
    """Says of everything what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.totals: dict[tuple[str, int], Mapping[str, float]] = {}

    async def measure(self) -> Mapping[tuple[str, int], Mapping[str, float]]:
        return self.totals


async def ask(emulator: Emulator, path: str, **query: Any) -> dict[str, Any]:
    answer = await emulator.ok("GET", f"{path}/metrics", params=query)
    return {name: series["values"] for name, series in answer["metrics"]["time_series"].items()}


async def test_rates_are_the_increase_between_two_requests(start: Start):
    backend, now = Measured(), [1_800_000_000.0]
    emulator = await start(backend)
    emulator.cloud.now = lambda: now[0]
    server = await emulator.make_server()
    path, key = server.path, ("server", server["id"])
    span = {"type": "cpu,network", "start": timestamp(now[0]), "end": timestamp(now[0] + 300), "step": "50"}
    now[0] += 100
    backend.totals[key] = {"cpu": 5000.0, "network.0.pps.in": 0.0}
    first = await ask(emulator, path, **span)
    assert [value for _, value in first["cpu"]] == ["50", "50", "50"]  # nothing is known after now
    now[0] += 100
    backend.totals[key] = {"cpu": 5100.0, "network.0.pps.in": 30.0}
    second = await ask(emulator, path, **span)
    assert [value for _, value in second["cpu"]] == ["50", "50", "50", "1", "1"]
    assert [value for _, value in second["network.0.pps.in"]] == ["0", "0", "0", "0.3", "0.3"]
    assert second["network.0.bandwidth.in"] == []


async def test_concurrent_requests_share_a_measurement(start: Start):
    class Slow(Measured):
        asked = 0

        async def measure(self):
            self.asked += 1
            await asyncio.sleep(0)
            return self.totals

    backend = Slow()
    emulator = await start(backend)
    emulator.cloud.now = lambda: 1_800_000_000.0
    server = await emulator.make_server()
    span = MultiDict(SPAN | {"type": "cpu,cpu"})
    call = Call(emulator.cloud, "default", {"id": str(server["id"])}, span, {}, "http://test")
    answer = OPERATIONS["GET", "/servers/{id}/metrics"].handler
    await asyncio.gather(*(answer(call) for _ in range(10)))
    assert backend.asked == 1


async def test_records_have_zero_metrics(emulator: Emulator):
    server = await emulator.make_server()
    values = await ask(emulator, server.path, **SPAN | {"type": "disk"})
    assert {value for series in values.values() for _, value in series} == {"0"}


async def test_a_failed_measurement_is_an_error(start: Start):
    class Broken(RecordsBackend):
        async def measure(self):
            raise BackendError("haproxy says nothing")

    emulator = await start(Broken())
    server = await emulator.make_server()
    error = await emulator.refused("GET", f"{server.path}/metrics", params=SPAN)
    assert (error["code"], error["message"]) == ("service_error", "haproxy says nothing")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"type": "moon"}, "type"),
        *(({"start": start}, "start") for start in ("0001-01-01T00:00:00+14:00", "soon")),
        ({"end": "2025-01-01T00:00:00Z"}, "end"),
        *(({"step": step}, "step") for step in ("0", "nan", "often")),
    ],
)
async def test_invalid_parameters(emulator: Emulator, query, field):
    server = await emulator.make_server()
    await emulator.expect([field], "GET", f"{server.path}/metrics", params=SPAN | query)


@pytest.mark.parametrize(("step", "most"), [({}, 200), ({"step": "1"}, 500), ({"step": "0.001"}, 500)])
async def test_the_number_of_values_is_limited(emulator: Emulator, step, most):
    server = await emulator.make_server()
    span = {"type": "cpu", "start": "0001-01-02T00:00:00Z", "end": "9999-01-01T00:00:00Z"}
    values = await ask(emulator, server.path, **span, **step)
    assert most - 10 < len(values["cpu"]) <= most


def test_the_number_of_samples_is_limited_and_deleted_objects_have_none():
    kept, key = Measurements(), ("server", 1)
    for moment in range(MAX_SAMPLES + 10):
        kept.add({key: {"cpu": float(moment)}}, 10.0 + moment, lambda _: 0.0)
    assert len(kept.of(key)) == MAX_SAMPLES
    kept.add({key: {"cpu": 1.0}}, 1e6, lambda _: None)
    assert kept.of(key) == ()


def test_a_total_that_decreased_started_at_zero_and_open_connections_are_a_total():
    samples = [Sample(0.0, {"a": 90.0}), Sample(10.0, {"a": 20.0})]
    assert values_at(samples, "a", [5.0]) == [(5.0, 2.0)]
    samples = [Sample(0.0, {"open_connections": 9.0}), Sample(10.0, {"open_connections": 3.0})]
    assert values_at(samples, "open_connections", [0.0, 10.0, 11.0]) == [(0.0, 3.0), (10.0, 3.0)]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=6), st.lists(st.integers(-5, 60)))
def test_rates_are_never_negative(pairs, moments):
    samples = [Sample(float(at), {"a": float(total)}) for at, total in sorted(pairs)]
    found = values_at(samples, "a", sorted(map(float, moments)))
    assert all(value >= 0 for _, value in found)
    assert [at for at, _ in found] == sorted(at for at, _ in found)
