"""What all tests share."""

from __future__ import annotations

import asyncio


def pytest_configure() -> None:
    # Before Python 3.12, pytest-asyncio's look at the current event loop makes one that nobody closes, unless
    # it was told that there is none.
    asyncio.set_event_loop(None)
