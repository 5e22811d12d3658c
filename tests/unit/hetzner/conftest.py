"""Fixtures for the tests of ccm.hetzner."""

from collections.abc import AsyncIterator

import emulated_cloud
import pytest
from emulated_cloud import EmulatedCloud

from ccm.hetzner.api import HetznerApi


@pytest.fixture
async def sky() -> AsyncIterator[EmulatedCloud]:
    cloud = await emulated_cloud.start()
    yield cloud
    await emulated_cloud.stop(cloud)


@pytest.fixture
async def api(sky: EmulatedCloud) -> AsyncIterator[HetznerApi]:
    api = sky.api()
    yield api
    await api.close()
