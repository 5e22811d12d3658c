"""Who may talk to the sandbox: this machine's programs and its own servers, never a web page of a stranger.

A browser on this machine runs pages of strangers. A name of theirs that resolves to 127.0.0.1 (DNS rebinding)
makes their page and the sandbox one origin; so the header ``Host`` must be one of our own names, everywhere.
A simple request across origins needs no permission of ours; so the header ``Origin`` must be our own where a
browser sends it.
"""

from __future__ import annotations

import functools
import hmac
import re
from collections.abc import Awaitable, Callable
from ipaddress import ip_address

from aiohttp import hdrs, web

from hetzner_emulator.config import CloudConfig
from hetzner_emulator.errors import ApiError

METADATA_HOST = "169.254.169.254"
"""The address at which servers reach the API, their metadata and k3s."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[0-9a-z.-]+)(?::[0-9]{1,5})?", re.IGNORECASE)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@functools.lru_cache(maxsize=256)  # asked for every request, and of a few names
def is_own_name(host: str) -> bool:
    """Whether a header ``Host`` names this sandbox: ``localhost``, a loopback or the metadata address.

    Args:
        host: Name or address, with or without a port.
    """
    match = _HOST.fullmatch(host)
    name = match[1].strip("[]").lower() if match else ""
    if name in {"localhost", METADATA_HOST}:
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def is_own_origin(origin: str, host: str) -> bool:
    """Whether a header ``Origin`` is that of a page which the sandbox itself served at this ``Host``."""
    return origin.lower() == f"http://{host.lower()}"


def refusal(error: ApiError) -> web.Response:
    """An HTTP answer that says no, outside of the API proper."""
    return web.json_response(error.wire(), status=error.status)


@web.middleware
async def own_names_only(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Refuse requests that a web page of a stranger could have made."""
    host, origin = request.headers.get(hdrs.HOST, ""), request.headers.get(hdrs.ORIGIN)
    if not is_own_name(host):
        text = f"host '{host}' is not a name of the sandbox: use localhost or 127.0.0.1"
        return refusal(ApiError("forbidden", text))
    if origin is not None and not is_own_origin(origin, host):
        return refusal(ApiError("forbidden", f"requests of pages from '{origin}' are not answered"))
    return await handler(request)


def check_peer(request: web.Request, _config: CloudConfig) -> None:
    """Refuse admin calls of servers, which reach the API on a socket of their own.

    Raises:
        ApiError: ``forbidden``; the caller is not on loopback.
    """
    try:
        allowed = ip_address(request.remote or "").is_loopback
    except ValueError:
        allowed = request.remote is None  # a UNIX socket has no address
    if not allowed:
        raise ApiError("forbidden", "admin calls are answered on loopback only")


def bearer_token(request: web.Request) -> str:
    """The token that a request bears.

    Raises:
        ApiError: ``unauthorized``; there is none.
    """
    scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise ApiError("unauthorized", "token is required")
    return token.strip()


def check_operator(request: web.Request, config: CloudConfig) -> None:
    """Refuse admin calls of anybody but who started the sandbox.

    Their token is one that the sandbox was started with and that may write; tokens that were given out since
    belong to tenants that somebody plays.

    Raises:
        ApiError: ``forbidden`` for a server, ``unauthorized`` without such a token.
    """
    check_peer(request, config)
    given = bearer_token(request).encode("utf-8", "surrogateescape")  # a header may hold any bytes
    allowed = False
    for token in config.tokens.keys() - config.read_only_tokens:
        allowed |= hmac.compare_digest(given, token.encode())
    if not allowed:
        raise ApiError("unauthorized", "admin calls need a token that the sandbox was started with")
