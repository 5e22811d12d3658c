"""An application on a port of 127.0.0.1, for as long as somebody wants it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine

from aiohttp import web

from hetzner_emulator import descriptors
from hetzner_emulator.errors import EmulatorError
from hetzner_emulator.http.connections import CONNECTIONS, KEEP_ALIVE_SECONDS, Tersely

SHUTDOWN_SECONDS = 2
LOOPBACK = "127.0.0.1"


async def serve_until(
    stopped: asyncio.Event,
    app: web.Application,
    port: int,
    answering: Callable[[web.AppRunner], Awaitable[None]],
) -> None:
    """Serve an application, and clean it up at the end; the process gets all descriptors that it may.

    Args:
        stopped: Ends it.
        app: The emulated API; its silent connections are watched.
        port: TCP port on 127.0.0.1; 0 leaves the choice to the system, and ``port_of`` tells it.
        answering: Called once the application answers; may add sockets.

    Raises:
        EmulatorError: The port can't be listened on.
    """
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS, keepalive_timeout=KEEP_ALIVE_SECONDS
    )
    logging.getLogger("aiohttp.server").addFilter(Tersely())
    descriptors.allow_all()
    try:
        await runner.setup()
        await _listen(runner, port)
        await answering(runner)
        assert runner.server is not None
        await _until(stopped, app[CONNECTIONS].watch(runner.server))
    finally:
        await runner.cleanup()


def port_of(runner: web.AppRunner) -> int:
    """The port on 127.0.0.1 that an application is served on."""
    return next(port for host, port, *_ in runner.addresses if host == LOOPBACK)


async def _until(stopped: asyncio.Event, work: Coroutine[None, None, None]) -> None:
    """Wait for an event while some work goes on."""
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(work)
        await stopped.wait()
        working.cancel()


async def _listen(runner: web.AppRunner, port: int) -> None:
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
    except OSError as error:
        raise EmulatorError(f"port {port} on {LOOPBACK} can't be listened on: {error.strerror}") from error
