"""The lab of bench/, whose cells are asserted here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import fault_lab
from sandbox.kubernetes import toolchain


@pytest.fixture(autouse=True)
def hurried() -> Iterator[None]:
    with fault_lab.hurried():
        yield


@pytest.fixture(scope="session")
def programs() -> toolchain.Toolchain:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ccm-from-scratch"
    built = toolchain.find_control_plane(cache)
    if built is None:
        pytest.skip("the Kubernetes toolchain is not built: ./dev setup builds it")
    return built
