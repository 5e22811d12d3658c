"""The lab of bench/, whose cells are asserted here."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from bench import fault_lab
from sandbox.kubernetes import toolchain
from sandbox.site import cache_directory


@pytest.fixture(autouse=True)
def hurried() -> Iterator[None]:
    with fault_lab.hurried():
        yield


@pytest.fixture(scope="session")
def programs() -> toolchain.Toolchain:
    cache = cache_directory(os.environ)
    built = toolchain.find_control_plane(cache)
    if built is None:
        pytest.skip("the Kubernetes toolchain is not built: ./dev setup builds it")
    return built
