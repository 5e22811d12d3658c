"""Conditions that other tasks or processes make true."""

import asyncio
import time
from collections.abc import Callable


async def until(check: Callable[[], object]) -> None:
    """Wait at most a minute for a condition."""
    async with asyncio.timeout(60):
        while not check():  # noqa: ASYNC110 - other tasks and processes set no event
            await asyncio.sleep(0.02)


def wait(check: Callable[[], object], seconds: float = 60) -> None:
    """Wait for a condition, in a test without an event loop."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.02)
