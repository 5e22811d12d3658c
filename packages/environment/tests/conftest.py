from __future__ import annotations

import os

import pytest

from sandbox.kubernetes import toolchain
from sandbox.site import cache_directory
from tests.prepared import missing


@pytest.fixture(scope="session")
def programs():
    built = toolchain.find_control_plane(cache_directory(os.environ))
    if built is None:
        missing("the Kubernetes toolchain is not built: ./dev setup builds it")
    return built
