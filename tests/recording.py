"""A pytest plugin that writes down how long each test and fixture took, by the clock and in CPU seconds."""

import json
import os
import time
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path

import pytest

from sandbox.testing.durations import Span

SHORT = 0.01
"""Set-ups and teardowns of fewer seconds are left out: there are tens of thousands of them."""


def _now() -> tuple[float, float]:
    return time.monotonic(), sum(os.times()[:4])


class Recorder:
    """Writes one JSON line for each span, into a file of this process."""

    def __init__(self, folder: Path, layer: str) -> None:
        self._layer = layer
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"{layer}-{os.getpid()}.jsonl").open("a", encoding="utf-8", buffering=1)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._phase(item, "setup"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._phase(item, "call"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._phase(item, "teardown"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        begun = _now()
        try:
            return (yield)
        finally:
            self._write(f"{fixturedef.argname} ({fixturedef.scope})", "fixture", request.node, begun)

    def pytest_unconfigure(self) -> None:
        self._file.close()

    def _phase(self, item: pytest.Item, kind: str) -> Generator[None, object, object]:
        begun = _now()
        try:
            return (yield)
        finally:
            self._write(item.nodeid, kind, item, begun)

    def _write(self, name: str, kind: str, node: pytest.Item, begun: tuple[float, float]) -> None:
        wall, cpu = (end - start for start, end in zip(begun, _now(), strict=True))
        if kind != "call" and wall < SHORT:
            return
        module = node.nodeid.partition("::")[0]
        span = Span(self._layer, name, kind, module, round(wall, 3), round(cpu, 3))
        self._file.write(json.dumps(asdict(span)) + "\n")
