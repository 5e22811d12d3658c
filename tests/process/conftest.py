"""The real process: ``python -m ccm`` between a real API server and the emulated cloud."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

# The emulated cloud is shared with the unit tests of ccm.hetzner.
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "hetzner"))

from process_world import World, open_world

from sandbox.kubernetes import toolchain
from sandbox.site import cache_directory


@pytest.fixture(scope="session")
def programs() -> toolchain.Toolchain:
    built = toolchain.find_control_plane(cache_directory(os.environ))
    if built is None:
        pytest.skip("the Kubernetes toolchain is not built: ./dev setup builds it")
    return built


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(
    programs: toolchain.Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    async with open_world(programs, tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def in_order_again(world: World) -> AsyncIterator[None]:
    """Whatever a test leaves, the next one starts without processes and faults, and with the right token."""
    yield
    await world.tidy_up()
