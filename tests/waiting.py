"""Conditions that other tasks or processes make true."""

import asyncio
from collections.abc import Callable


async def until(check: Callable[[], object]) -> None:
    """Wait at most a minute for a condition."""
    async with asyncio.timeout(60):
        while not check():  # noqa: ASYNC110 - other tasks and processes set no event
            await asyncio.sleep(0.02)
