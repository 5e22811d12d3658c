"""Reads the body of a request: bounded in size by the application, here in time."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from aiohttp import web

from hetzner_emulator.errors import ApiError

READ_SECONDS = 30.0


async def read_json(request: web.Request, seconds: float = READ_SECONDS) -> Any:
    """The decoded body; an empty object where there is none.

    Args:
        request: Of a client.
        seconds: That the client may take to send it.

    Raises:
        ApiError: ``json_error`` for no JSON, too much of it, or a client that leaves meanwhile (status 499);
            ``timeout`` for one that doesn't come.
    """
    if not request.can_read_body:
        return {}
    try:
        async with asyncio.timeout(seconds):
            data = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise ApiError("json_error", "invalid JSON input: the body is too large") from error
    except web.RequestPayloadError as error:
        raise ApiError("json_error", "invalid JSON input: the body is not encoded as it says") from error
    except ConnectionError as error:
        raise ApiError("json_error", "the client left before it had sent the body", status=499) from error
    except TimeoutError as error:
        raise ApiError("timeout", f"the body did not come within {seconds:g} s", status=408) from error
    if not data.strip():
        return {}
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError("json_error", f"invalid JSON input: {error}") from error
