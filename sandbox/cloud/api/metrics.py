"""Metrics of the right shape: the sandbox measures nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from sandbox.cloud.api.call import Call
from sandbox.cloud.errors import InvalidInput
from sandbox.cloud.state.records import timestamp


def flat_metrics(call: Call, series: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Zeroes for the series of the wanted types.

    Raises:
        InvalidInput: Type, start or end is missing or wrong.
    """
    wanted = [part for text in call.query.getall("type", []) for part in text.split(",")]
    if not wanted or set(wanted) - set(series):
        raise InvalidInput({"type": [f"must be one or more of: {', '.join(series)}"]})
    start, end = _moment(call, "start"), _moment(call, "end")
    if end < start:
        raise InvalidInput({"end": ["must be after start"]})
    step_text = call.query.get("step", "")
    step = float(step_text) if step_text.isdecimal() and int(step_text) else max(1.0, (end - start) // 200)
    points = [start + i * step for i in range(min(500, int((end - start) / step) + 1))]
    names = [name for kind in wanted for name in series[kind]]
    return {
        "start": timestamp(start),
        "end": timestamp(end),
        "step": step,
        "time_series": {name: {"values": [[point, "0"] for point in points]} for name in names},
    }


def _moment(call: Call, name: str) -> float:
    try:
        return dt.datetime.fromisoformat(call.query.get(name, "")).timestamp()
    except ValueError as error:
        raise InvalidInput({name: ["must be a time in ISO 8601"]}) from error
