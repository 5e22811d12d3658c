"""Calls of Hetzner's SDK, with the framework's errors."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ccm.cloud import CloudUnavailable
from hcloud import HCloudException
from requests import RequestException

P = ParamSpec("P")
T = TypeVar("T")


async def call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in a thread."""
    try:
        return await asyncio.to_thread(function, *args, **kwargs)
    except (HCloudException, RequestException) as error:
        raise CloudUnavailable(f"Hetzner Cloud: {error}") from error
