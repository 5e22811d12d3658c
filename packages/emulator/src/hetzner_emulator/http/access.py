"""Access control: programs on this machine and servers of the sandbox have access, foreign web pages don't.

A browser on this machine runs foreign pages. If their name resolves to 127.0.0.1 (DNS rebinding), page and
emulator have one origin, so the header ``Host`` must be one of our own names. Browsers send simple requests
across origins without a preflight, so a header ``Origin`` must be our own.
"""

import functools
import hmac
import re
from collections.abc import Awaitable, Callable
from ipaddress import ip_address

from aiohttp import hdrs, web

from hetzner_emulator.config import CloudConfig
from hetzner_emulator.errors import ApiError

METADATA_HOST = "169.254.169.254"
"""The address at which servers reach the API, the metadata service, and k3s."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[0-9a-z.-]+)(?::[0-9]{1,5})?", re.IGNORECASE)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@functools.lru_cache(maxsize=256)  # called for each request, with few different names
def is_own_name(host: str) -> bool:
    """Whether a header ``Host`` is ``localhost``, a loopback address, or the metadata address."""
    match = _HOST.fullmatch(host)
    name = match[1].strip("[]").lower() if match else ""
    if name in {"localhost", METADATA_HOST}:
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def is_own_origin(origin: str, host: str) -> bool:
    """Whether a header ``Origin`` is that of the console page at this ``Host``."""
    return origin.lower() == f"http://{host.lower()}"


def refusal(error: ApiError) -> web.Response:
    """The response for an error outside of the API."""
    return web.json_response(error.wire(), status=error.status)


@web.middleware
async def own_names_only(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Refuse requests that a foreign web page could have sent."""
    host, origin = request.headers.get(hdrs.HOST, ""), request.headers.get(hdrs.ORIGIN)
    if not is_own_name(host):
        text = f"host '{host}' is not a name of the sandbox: use localhost or 127.0.0.1"
        return refusal(ApiError("forbidden", text))
    if origin is not None and not is_own_origin(origin, host):
        return refusal(ApiError("forbidden", f"the sandbox rejects requests from web pages of '{origin}'"))
    return await handler(request)


def check_peer(request: web.Request, _config: CloudConfig) -> None:
    """Refuse admin calls of servers, which reach the API on another socket (``forbidden``)."""
    try:
        allowed = ip_address(request.remote or "").is_loopback
    except ValueError:
        allowed = request.remote is None  # a UNIX socket has no address
    if not allowed:
        raise ApiError("forbidden", "the sandbox accepts admin calls only on loopback addresses")


def bearer_token(request: web.Request) -> str:
    """The token of a request; raises ``unauthorized`` without one."""
    scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise ApiError("unauthorized", "token is required")
    return token.strip()


def check_operator(request: web.Request, config: CloudConfig) -> None:
    """Refuse admin calls without a read-write token valid at the start: later ones belong to tenants."""
    check_peer(request, config)
    given = bearer_token(request).encode("utf-8", "surrogateescape")  # headers can have any bytes
    allowed = False
    for token in config.tokens.keys() - config.read_only_tokens:
        allowed |= hmac.compare_digest(given, token.encode())
    if not allowed:
        raise ApiError(
            "unauthorized", "admin calls require a read-write token that was valid when the sandbox started"
        )
