"""The page that shows the cloud to a person; the page itself is no secret, what it shows asks for a token."""

from __future__ import annotations

import base64
from hashlib import sha256
from pathlib import Path

from aiohttp import web

PATH = "/_sandbox/console"
PAGE = (Path(__file__).parent / "console.html").read_bytes()
_SCRIPT = PAGE.partition(b"<script>")[2].partition(b"</script>")[0]
_SCRIPT_HASH = base64.b64encode(sha256(_SCRIPT).digest()).decode()
# The page runs its own script alone and asks nobody but the sandbox, and nobody shows it inside another page.
_POLICY = (
    f"default-src 'none'; script-src 'sha256-{_SCRIPT_HASH}'; style-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


async def page(_request: web.Request) -> web.StreamResponse:
    """The page."""
    return web.Response(body=PAGE, headers=_HEADERS, content_type="text/html", charset="utf-8")


async def to_the_page(_request: web.Request) -> web.StreamResponse:
    """Lead who typed the bare address to the page; a browser takes along what stands behind the ``#``."""
    raise web.HTTPFound(PATH)
