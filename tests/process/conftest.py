"""The real process: ``python -m ccm`` between a real API server and the emulated cloud."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

# The emulated cloud is shared with the unit tests of ccm.hetzner.
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "hetzner"))

from process_world import World, open_world

from sandbox.kubernetes.toolchain import Toolchain


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(kubernetes: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with open_world(kubernetes, tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def in_order_again(world: World) -> AsyncIterator[None]:
    """Whatever a test leaves, the next one starts without processes and faults, and with the right token."""
    yield
    await world.tidy_up()
