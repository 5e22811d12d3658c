"""Bounds what clients cost who say nothing or too little: aiohttp waits for a first request for ever."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from hetzner_emulator import descriptors

MOST_CONNECTIONS = 1000
DESCRIPTORS_OF_A_CONNECTION = 2  # its own, and where what was asked is passed on, one more
OTHER_DESCRIPTORS = 256
FIRST_REQUEST_SECONDS = 20.0
KEEP_ALIVE_SECONDS = 600.0
LOOK_SECONDS = 1.0

C = TypeVar("C")


def most_connections(allowed: int) -> int:
    """How many connections there may be, so that descriptors are left for all else.

    Args:
        allowed: Descriptors that the process may have.
    """
    others = min(OTHER_DESCRIPTORS, allowed // 2)
    return min(MOST_CONNECTIONS, (allowed - others) // DESCRIPTORS_OF_A_CONNECTION)


def to_close(silent: Mapping[C, float], idle: Mapping[C, float], busy: int, now: float, most: int) -> list[C]:
    """The connections to close.

    Args:
        silent: When those were made that never asked anything, in seconds.
        idle: When those were last answered that ask nothing now, in seconds.
        busy: How many are being answered; these are never closed.
        now: The present, in seconds.
        most: How many may stay, those that are being answered with them.
    """
    late = [connection for connection, since in silent.items() if now - since >= FIRST_REQUEST_SECONDS]
    rest = {**silent, **idle}
    for connection in late:
        del rest[connection]
    surplus = max(0, min(len(rest), len(rest) + busy - most))
    return late + sorted(rest, key=lambda connection: rest[connection])[:surplus]


class Connections:
    """Closes connections that ask nothing.

    Args:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._busy: Counter[object] = Counter()
        self._made: dict[object, float] = {}
        self._answered: dict[object, float] = {}

    @web.middleware
    async def note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Note which connection is being answered."""
        connection = request.protocol
        self._busy[connection] += 1
        try:
            return await handler(request)
        finally:
            self._busy[connection] -= 1
            self._answered[connection] = self._clock()

    def look(self, server: web.Server) -> None:
        """Close what has to be closed now."""
        now, connected = self._clock(), set(server.connections)
        self._made = {connection: self._made.get(connection, now) for connection in connected}
        self._answered = {c: moment for c, moment in self._answered.items() if c in connected}
        self._busy = Counter({c: number for c, number in self._busy.items() if number})
        quiet = connected - self._busy.keys()
        idle = {c: self._answered[c] for c in quiet & self._answered.keys()}
        silent = {c: self._made[c] for c in quiet - self._answered.keys()}
        most = most_connections(descriptors.allowed())
        for connection in to_close(silent, idle, len(connected) - len(quiet), now, most):
            connection.force_close()

    async def watch(self, server: web.Server) -> None:
        """Look again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look(server)


CONNECTIONS = web.AppKey("connections", Connections)
"""Those of an application."""


class Tersely(logging.Filter):
    """Tells in one line of a log that a client sent no HTTP, or left; aiohttp's logger adds a stack trace."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten the record; it is always logged."""
        error = record.exc_info[1] if record.exc_info else None
        # No client causes a refusal: that is of whom the sandbox itself asks.
        left = isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError)
        if left or isinstance(error, HttpProcessingError | web.RequestPayloadError):
            record.exc_info, record.exc_text = None, None
            record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
            what = "left" if left else "sent no valid HTTP"
            record.msg, record.args = "a client %s (%s)", (what, type(error).__name__)
        return True
