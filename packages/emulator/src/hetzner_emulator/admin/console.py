"""The page that shows the cloud to a person; the page itself is no secret, what it shows asks for a token."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

PATH = "/_sandbox/console"
_FOLDER = Path(__file__).parent / "page"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
FILES = {path.name: path.read_bytes() for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES}
"""What the page is made of, by name."""
# The page runs its own scripts alone, asks nobody but the sandbox, and nobody shows it inside another page.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


async def page(_request: web.Request) -> web.StreamResponse:
    """The page."""
    return _file("index.html")


async def part(request: web.Request) -> web.StreamResponse:
    """A script or the style of the page."""
    name = request.match_info["name"]
    if name not in FILES:
        raise web.HTTPNotFound
    return _file(name)


async def to_the_page(_request: web.Request) -> web.StreamResponse:
    """Lead who typed the bare address to the page; a browser takes along what stands behind the ``#``."""
    raise web.HTTPFound(PATH)


def _file(name: str) -> web.Response:
    kind = _TYPES[Path(name).suffix]
    return web.Response(body=FILES[name], headers=_HEADERS, content_type=kind, charset="utf-8")
