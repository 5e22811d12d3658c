"""Robot's web service for dedicated servers, which are those of the emulated cloud's admin calls."""

import base64
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from hetzner_emulator.cloud import Cloud
from hetzner_emulator.http.access import own_names_only
from hetzner_emulator.models.robot_servers import RobotServer, robot_wire

INTERVAL = 3600
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RobotError(Exception):
    """A request is refused; ``facts`` are further fields of the error."""

    def __init__(self, status: int, code: str, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"status": status, "code": code, "message": message, **facts}}


class _Window:
    """Counts requests by path in windows of an hour, as Robot does."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self.limit = limit
        self._clock = clock
        self._counts: dict[str, tuple[int, int]] = {}

    def take(self, name: str) -> None:
        hour = int(self._clock() // INTERVAL)
        known_hour, count = self._counts.get(name, (hour, 0))
        count = count + 1 if known_hour == hour else 1
        self._counts[name] = (hour, count)
        if count > self.limit:
            facts = {"max_request": self.limit, "interval": INTERVAL}
            raise RobotError(403, "RATE_LIMIT_EXCEEDED", "rate limit exceeded", **facts)


def create_robot_app(cloud: Cloud, users: Mapping[str, str], limit: int) -> web.Application:
    """The application for the servers in a cloud's state, which ``POST /_sandbox/robot/servers`` adds.

    ``users`` are passwords by user name, and ``limit`` is the number of requests an hour for each kind.
    """
    window = _Window(limit, cloud.now)

    @web.middleware
    async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
        try:
            _authorise(request, users)
            window.take(request.path.strip("/").partition("/")[0])
            return await handler(request)
        except RobotError as error:
            return _json(error.body, error.status)
        except web.HTTPNotFound:
            return _json(RobotError(404, "NOT_FOUND", "page not found").body, 404)

    app = web.Application(middlewares=[own_names_only, guard])
    app.add_routes(_routes(cloud))
    return app


def _routes(cloud: Cloud) -> list[web.RouteDef]:
    def find(request: web.Request) -> RobotServer:
        server = cloud.store.find(RobotServer, int(request.match_info["number"]))
        if server is None:
            text = f"Server with id {request.match_info['number']} not found"
            raise RobotError(404, "SERVER_NOT_FOUND", text)
        return server

    async def list_servers(_request: web.Request) -> web.Response:
        servers = sorted(cloud.store.all(RobotServer), key=lambda server: server.id)
        if not servers:
            raise RobotError(404, "SERVER_NOT_FOUND", "No server found")
        return _json([{"server": robot_wire(server)} for server in servers])

    async def get_server(request: web.Request) -> web.Response:
        return _json({"server": robot_wire(find(request))})

    async def get_reset(request: web.Request) -> web.Response:
        server = find(request)
        shown = robot_wire(server)
        identity = {name: shown[name] for name in ("server_ip", "server_ipv6_net", "server_number")}
        state = {"type": ["sw", "hw"], "operating_status": server.operating_status}
        return _json({"reset": {**identity, **state}})

    return [
        web.get("/server", list_servers),
        web.get(r"/server/{number:\d+}", get_server),
        web.get(r"/reset/{number:\d+}", get_reset),
    ]


def _authorise(request: web.Request, users: Mapping[str, str]) -> None:
    scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
    try:
        user, _, password = base64.b64decode(encoded).decode().partition(":")
    except ValueError:
        user, password = "", ""
    expected = users.get(user)
    if scheme.lower() != "basic" or expected is None or not hmac.compare_digest(password, expected):
        raise RobotError(401, "UNAUTHORIZED", "Unauthorized")


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
