"""Projects, a cloud and a control plane for the Pulumi CLI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.engine.engine_cloud import EmulatedCloud, lab_at, serve
from tests.sandbox.engine.engine_lab import Lab


@pytest.fixture
def cloud() -> Iterator[EmulatedCloud]:
    yield from serve("instant")


@pytest.fixture
def slow_cloud() -> Iterator[EmulatedCloud]:
    yield from serve("realistic")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def hetzner(tmp_path: Path, cloud: EmulatedCloud) -> Lab:
    return lab_at(tmp_path, cloud)
