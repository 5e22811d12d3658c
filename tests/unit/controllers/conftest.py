"""Fixtures for the controllers' tests."""

from collections.abc import AsyncIterator

import pytest
from fake_cluster import Cluster, running


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    async with running(cluster.nodes):
        await cluster.nodes.synced.wait()
        yield cluster
