"""Serves an application on a port of 127.0.0.1."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from hetzner_emulator import descriptors
from hetzner_emulator.errors import EmulatorError
from hetzner_emulator.http.connections import ShortClientErrors

SHUTDOWN_SECONDS = 2
KEEP_ALIVE_SECONDS = 600.0
LOOPBACK = "127.0.0.1"


async def serve_until(
    stopped: asyncio.Event,
    app: web.Application,
    port: int,
    answering: Callable[[web.AppRunner], Awaitable[None]],
) -> None:
    """Serve an application on a port of 127.0.0.1 (0 for a free one) until ``stopped``, then clean up.

    Raises the process's limit of open files. Calls ``answering``, which can add sockets, once it accepts
    requests. Raises EmulatorError if the port is in use.
    """
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS, keepalive_timeout=KEEP_ALIVE_SECONDS
    )
    logging.getLogger("aiohttp.server").addFilter(ShortClientErrors())
    descriptors.allow_all()
    try:
        await runner.setup()
        try:
            await web.TCPSite(runner, LOOPBACK, port).start()
        except OSError as error:
            raise EmulatorError(f"port {port} on {LOOPBACK} can't be opened: {error.strerror}") from error
        await answering(runner)
        await stopped.wait()
    finally:
        await runner.cleanup()


def port_of(runner: web.AppRunner) -> int:
    """The port on 127.0.0.1 that an application is served on."""
    return next(port for host, port, *_ in runner.addresses if host == LOOPBACK)
