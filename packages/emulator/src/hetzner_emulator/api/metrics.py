"""Metrics of servers and load balancers: measured on request, and zero if the backend can't measure."""

import datetime as dt
import math
from collections.abc import Mapping
from typing import Any

from hetzner_emulator.api.call import Call
from hetzner_emulator.backend import BackendError
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, InvalidInput
from hetzner_emulator.state.measurements import Key, values_at
from hetzner_emulator.state.records import RECORDS, Record, timestamp

_DEFAULT_VALUES, _MAX_VALUES = 200, 500
_FRESH = 1.0  # seconds until the next measurement


async def metrics(call: Call, entry: Record, series: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """The metrics of an object in the period of a request; ``series`` has names of its series by type.

    Raises InvalidInput for a missing or invalid parameter, and ``service_error`` if the backend fails.
    """
    names = _wanted(call, series)
    start, end = _moment(call, "start"), _moment(call, "end")
    if end < start:
        raise InvalidInput({"end": ["must be after start"]})
    step = _step(call.query.get("step"), end - start)
    moments = [start + number * step for number in range(int((end - start) / step) + 1)]
    measured = await _measure(call.cloud)
    samples = call.cloud.measurements.of((entry.KIND, entry.id))
    return {
        "start": timestamp(start),
        "end": timestamp(end),
        "step": step,
        "time_series": {
            name: {
                "values": [[at, f"{value:.6g}"] for at, value in values_at(samples, name, moments)]
                if measured
                else [[at, "0"] for at in moments]
            }
            for name in names
        },
    }


def _wanted(call: Call, series: Mapping[str, tuple[str, ...]]) -> list[str]:
    kinds = dict.fromkeys(part for text in call.query.getall("type", []) for part in text.split(","))
    if not kinds or kinds.keys() - series.keys():
        raise InvalidInput({"type": [f"must be one or more of: {', '.join(series)}"]})
    return [name for kind in kinds for name in series[kind]]


def _moment(call: Call, name: str) -> float:
    try:
        moment = dt.datetime.fromisoformat(call.query.get(name, ""))
        seconds = moment.replace(tzinfo=moment.tzinfo or dt.UTC).timestamp()
        timestamp(seconds)
    except (ValueError, OverflowError) as error:
        raise InvalidInput({name: ["must be a time in the ISO 8601 format"]}) from error
    return seconds


def _step(text: str | None, span: float) -> float:
    """Seconds between two values; more than requested if there would be too many values."""
    try:
        wanted = float(text) if text else max(1.0, math.ceil(span / (_DEFAULT_VALUES - 1)))
    except ValueError:
        wanted = 0.0
    if not 0 < wanted < math.inf:
        raise InvalidInput({"step": ["must be a number of seconds"]})
    return max(wanted, span / (_MAX_VALUES - 1))


async def _measure(cloud: Cloud) -> bool:
    """Take a sample of all objects, unless the last is fresh; False if the backend can't measure."""

    def born(key: Key) -> float | None:
        record = cloud.store.find(RECORDS[key[0]], key[1])
        return None if record is None else record.created

    async with cloud.exclusive("measurements", 0):  # concurrent requests share a measurement
        now = cloud.now()
        if now - cloud.measurements.at < _FRESH:
            return True
        try:
            measured = await cloud.backend.measure()
        except BackendError as error:
            raise ApiError("service_error", str(error)) from error
        if measured is None:
            return False
        cloud.measurements.add(measured, now, born)
        return True
