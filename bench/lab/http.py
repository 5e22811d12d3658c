"""An application on a free loopback port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

# Answers that are held back must not hold up the end.
SHUTDOWN_SECONDS = 0.1


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[str]:
    """Serve an application for the time of a block; yields its address, without a path."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
