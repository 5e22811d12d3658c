from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sandbox.kubernetes import toolchain
from sandbox.site import cache_directory
from tests.prepared import missing


@pytest.fixture(scope="session")
def cache() -> Path:
    return cache_directory(os.environ)


@pytest.fixture(scope="session")
def machine_programs(cache: Path) -> toolchain.Toolchain:
    """All programs, of the default version; ``kubernetes`` has those of the control plane."""
    built = toolchain.find(cache)
    if built is None:
        missing("not all of the Kubernetes toolchain is built: ./dev setup builds it", for_machines=True)
    return built


@pytest.fixture
def frozen() -> datetime:
    return datetime(2026, 11, 21, 12, tzinfo=UTC)
