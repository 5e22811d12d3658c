"""Reads the body of a request with a timeout; the application limits its size."""

import asyncio
from typing import Any

import msgspec
from aiohttp import web

from hetzner_emulator.errors import ApiError

READ_SECONDS = 30.0


async def read_json(request: web.Request, seconds: float = READ_SECONDS) -> Any:
    """The decoded body, or an empty object without one; times out after some seconds.

    Raises ``json_error`` for invalid JSON, a body that is too large, or a client that closes the connection
    (status 499); ``timeout``.
    """
    if not request.can_read_body:
        return {}
    try:
        async with asyncio.timeout(seconds):
            data = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise ApiError("json_error", "invalid JSON input: the body is too large") from error
    except web.RequestPayloadError as error:
        raise ApiError(
            "json_error", ("invalid JSON input: the body doesn't match its Content-Encoding")
        ) from error
    except ConnectionError as error:
        raise ApiError("json_error", "the client disconnected before it sent the body", status=499) from error
    except TimeoutError as error:
        raise ApiError("timeout", f"the body did not arrive within {seconds:g} s", status=408) from error
    if not data.strip():
        return {}
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError("json_error", f"invalid JSON input: {error}") from error
