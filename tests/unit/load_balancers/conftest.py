"""Fixtures: Hetzner's load balancers against the emulated cloud on a loopback port."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

# The emulated cloud of the other tests of ``ccm.hetzner``.
sys.path.insert(0, str(Path(__file__).parents[1] / "hetzner"))

import emulated_cloud
from balancer_site import BalancerSite


@pytest.fixture
async def site() -> AsyncIterator[BalancerSite]:
    """A project with a network, and a cloud opened on it."""
    sky = await emulated_cloud.start()
    site = await BalancerSite.open(sky)
    yield site
    await site.close()
    await emulated_cloud.stop(sky)
