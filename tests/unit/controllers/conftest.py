"""Fixtures for the controllers' tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from fake_cluster import NODES, Cluster, Events

from ccm.kube.informer import Informer
from ccm.kube.objects import Node
from ccm.testing.fake_cloud import FakeCloud
from ccm.testing.memory_transport import MemoryTransport


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    transport = MemoryTransport()
    nodes = Informer(transport, NODES, Node)
    running = asyncio.create_task(nodes.run())
    await nodes.synced.wait()
    yield Cluster(transport, nodes, FakeCloud.complete(), Events())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
