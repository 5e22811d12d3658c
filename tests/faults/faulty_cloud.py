"""The emulated cloud of the unit tests with a second project, and a look at its objects without a request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import emulated_cloud
import msgspec
from aiohttp.typedefs import Middleware
from emulated_cloud import OTHER_TOKEN, TOKEN, EmulatedCloud

from hetzner_emulator.app import CLOUD
from hetzner_emulator.config import CloudConfig

PROJECT = "lab"
_QUOTA = 3_600_000  # requests an hour: what a 429 takes away has come back in a moment


class LabError(Exception):
    """The lab itself failed, so nothing was found out."""


def state(cloud: EmulatedCloud, *kinds: str) -> list[list[dict[str, Any]]]:
    """All objects of each kind in the CCM's project, looked up behind the API and without a request."""
    kept = cloud.server.app[CLOUD].store.export()
    found: list[list[dict[str, Any]]] = [msgspec.to_builtins(kept.get(kind, [])) for kind in kinds]
    return [[one for one in records if one["project"] == PROJECT] for records in found]


@asynccontextmanager
async def open_emulated_cloud(*middlewares: Middleware) -> AsyncIterator[EmulatedCloud]:
    """A cloud with two projects; middlewares see the CCM's requests first."""
    config = CloudConfig(tokens={TOKEN: PROJECT, OTHER_TOKEN: "elsewhere"}, rate_limit=_QUOTA)
    cloud = await emulated_cloud.start(config, middlewares)
    try:
        yield cloud
    finally:
        await emulated_cloud.stop(cloud)
