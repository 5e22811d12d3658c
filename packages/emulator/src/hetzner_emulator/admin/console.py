"""The console page; the page is public, but its requests need a token."""

from pathlib import Path

from aiohttp import web

PATH = "/_sandbox/console"
_FOLDER = Path(__file__).parent / "page"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
FILES = {path.name: path.read_bytes() for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES}
"""Maps the name of each file of the console page to the content of the file."""
# The page runs only its own scripts, sends requests only to the emulator, and can't be framed.
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
    """Serve the page."""
    return _file("index.html")


async def part(request: web.Request) -> web.StreamResponse:
    """Serve a script or style sheet of the page."""
    name = request.match_info["name"]
    if name not in FILES:
        raise web.HTTPNotFound
    return _file(name)


async def to_the_page(_request: web.Request) -> web.StreamResponse:
    """Redirect ``/`` to the page; browsers keep the fragment."""
    raise web.HTTPFound(PATH)


def _file(name: str) -> web.Response:
    kind = _TYPES[Path(name).suffix]
    return web.Response(body=FILES[name], headers=_HEADERS, content_type=kind, charset="utf-8")
