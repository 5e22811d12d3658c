"""Admin calls under ``/_sandbox``, which Hetzner's API doesn't have."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from ipaddress import IPv6Address
from typing import Any

import msgspec
from aiohttp import web

from hetzner_emulator.admin import console
from hetzner_emulator.admin.overview import overview
from hetzner_emulator.api.offer import SOLD_OUT
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.config import ACTION_MODES, ActionMode, CloudConfig
from hetzner_emulator.errors import ApiError, InvalidInput, NotFound
from hetzner_emulator.http.access import check_operator, check_peer, refusal
from hetzner_emulator.http.body import read_json
from hetzner_emulator.models.catalogs import SERVER_TYPES
from hetzner_emulator.models.robot_servers import RobotServer, robot_wire
from hetzner_emulator.models.servers import Server
from hetzner_emulator.traffic.requests import Request
from hetzner_emulator.wire.fields import Fields

PREFIX = "/_sandbox"
_GLOBS = ("operation", "path", "method", "user_agent", "project")
_ROBOT_FIELDS = ("number", "name", "ip", "ipv6_net", "product", "dc", "operating_status")
_SETTINGS = ("actions", "rate_limit", "rate_limit_remaining", "limits", "sold_out", "vswitches")
_ROBOT_STATES = ("running", "shut off", "not supported")
MAX_ACTION_SECONDS = 86_400
"""Maximum of the setting ``actions``."""
AdminHandler = Callable[[Cloud, web.Request], Any]
"""Returns the body of the response, or an awaitable that returns the body."""


def routes(cloud: Cloud) -> list[web.RouteDef]:
    """The routes of the admin calls; all but health and the page require a token."""
    guarded = [
        web.route(method, PREFIX + path, _answering(cloud, handler, check_operator))
        for method, path, handler in _CALLS
    ]
    return [
        web.get("/", console.to_the_page),
        web.get(console.PATH, console.page),
        web.get(console.PATH + "/{name}", console.part),
        web.get(f"{PREFIX}/health", _answering(cloud, _health, check_peer)),
        *guarded,
    ]


def _answering(
    cloud: Cloud, handler: AdminHandler, check: Callable[[web.Request, CloudConfig], None]
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            check(request, cloud.config)
            query = Fields(request.query)
            query.only(*_PARAMETERS.get(handler, ()))
            query.check()
            value = handler(cloud, request)
            body = msgspec.json.encode(await value if inspect.isawaitable(value) else value)
            return web.Response(body=body, content_type="application/json")
        except InvalidInput as error:
            return refusal(error.explained())
        except ApiError as error:
            return refusal(error)

    return answer


async def _fields(request: web.Request, *names: str) -> Fields:
    """The body, which can have only these fields."""
    fields = Fields(await read_json(request))
    fields.only(*names)
    return fields


def _health(cloud: Cloud, _request: web.Request) -> Any:
    return {
        "status": "ok",
        "backend": cloud.backend.name,
        "actions": cloud.action_mode,
        "requests": cloud.requests.total,
        "projects": cloud.projects,
    }


def _state(cloud: Cloud, request: web.Request) -> Any:
    state, kinds = cloud.store.export(), request.query.getall("kind", [])
    if unknown := [kind for kind in kinds if kind not in state]:
        raise InvalidInput(
            {"kind": [f"'{unknown[0]}' isn't a kind of object; allowed: {', '.join(sorted(state))}"]}
        )
    return {kind: records for kind, records in state.items() if not kinds or kind in kinds}


async def _reset(cloud: Cloud, _request: web.Request) -> Any:
    await cloud.reset()
    return {"status": "ok"}


def _number(request: web.Request, name: str, default: float) -> float:
    try:
        number = float(request.query.get(name, default))
    except ValueError as error:
        raise InvalidInput({name: ["must be a number"]}) from error
    if not 0 <= number < 2**53:
        raise InvalidInput({name: ["must be greater than or equal to 0"]})
    return number


def _wanted(request: web.Request) -> Callable[[Request], bool]:
    since = _number(request, "since", 0)
    globs = {name: request.query[name] for name in _GLOBS if name in request.query}

    def wanted(entry: Request) -> bool:
        return entry.at >= since and all(fnmatchcase(getattr(entry, name), g) for name, g in globs.items())

    return wanted


def _requests(cloud: Cloud, request: web.Request) -> Any:
    number = int(_number(request, "limit", 200))
    return {"total": cloud.requests.total, "requests": cloud.requests.latest(number, _wanted(request))}


def _counts(cloud: Cloud, request: web.Request) -> Any:
    if not request.query:
        return {"total": cloud.requests.total, "operations": dict(cloud.requests.counts)}
    counts: dict[str, int] = {}
    for entry in cloud.requests.select(_wanted(request)):
        counts[entry.operation] = counts.get(entry.operation, 0) + 1
    return {"total": sum(counts.values()), "operations": counts}


async def _add_fault(cloud: Cloud, request: web.Request) -> Any:
    return cloud.faults.add(await read_json(request))


def _clear_requests(cloud: Cloud, _request: web.Request) -> Any:
    cloud.requests.clear()
    return {"total": 0}


def _remove_faults(cloud: Cloud, request: web.Request) -> Any:
    identity = request.match_info.get("id")
    cloud.faults.remove(int(identity) if identity else None)
    return {"faults": cloud.faults.listing()}


async def _settings(cloud: Cloud, _request: web.Request) -> Any:
    now = cloud.now()
    remaining = {project: cloud.limiter.remaining(project, now) for project in cloud.projects}
    return {
        "actions": cloud.action_mode,
        "rate_limit": cloud.limiter.limit,
        "rate_limit_remaining": remaining,
        "limits": cloud.limits,
        "sold_out": {
            name: sorted(location for kind, location in cloud.sold_out if kind == name)
            for name in sorted({kind for kind, _ in cloud.sold_out})
        },
        "vswitches": sorted(cloud.vswitches),
    }


async def _change_settings(cloud: Cloud, request: web.Request) -> Any:
    fields = await _fields(request, *_SETTINGS)
    mode = _pace(fields, cloud.action_mode)
    limits = fields.read("limits", dict, {}, required=False)
    for name, value in limits.items():
        if name not in cloud.limits or not isinstance(value, int) or isinstance(value, bool) or value < 0:
            names = ", ".join(cloud.limits)
            fields.wrong("limits", f"'{name}': set an integer of at least 0 for one of these limits: {names}")
    sold_out = _sold_out(fields)
    rate_limit = fields.number("rate_limit", cloud.limiter.limit)
    remaining = fields.number("rate_limit_remaining")
    vswitches = fields.numbers("vswitches")
    fields.check()
    cloud.action_mode = mode
    cloud.limits.update(limits)
    if "sold_out" in fields:
        cloud.sold_out = sold_out
    if "vswitches" in fields:
        cloud.vswitches = frozenset(vswitches)
    if "rate_limit" in fields:
        cloud.limiter.set_limit(rate_limit)
    if "rate_limit_remaining" in fields:
        for project in cloud.projects:
            cloud.limiter.set_remaining(project, remaining, cloud.now())
    return await _settings(cloud, request)


def _pace(fields: Fields, present: ActionMode | float) -> ActionMode | float:
    wanted = fields.body.get("actions", present)
    if (
        isinstance(wanted, (int, float))
        and not isinstance(wanted, bool)
        and 0 <= wanted <= MAX_ACTION_SECONDS
    ):
        return float(wanted)
    for mode in ACTION_MODES:
        if wanted == mode:
            return mode
    fields.wrong(
        "actions", f"must be {', '.join(ACTION_MODES)}, or a number of seconds up to {MAX_ACTION_SECONDS}"
    )
    return present


def _sold_out(fields: Fields) -> frozenset[tuple[str, str]]:
    if isinstance(fields.body.get("sold_out"), str):
        return SOLD_OUT.get(fields.choice("sold_out", SOLD_OUT), frozenset())
    wanted = fields.read("sold_out", dict, {}, required=False)
    pairs = set()
    for name, locations in wanted.items():
        sold = next((kind.locations for kind in SERVER_TYPES.called(name)), ())
        if not sold or not isinstance(locations, list) or not all(place in sold for place in locations):
            there = f"a list of {', '.join(sold)}" if sold else "the server type doesn't exist"
            fields.wrong("sold_out", f"'{name}': {there}")
            continue
        pairs |= {(name, place) for place in locations}
    return frozenset(pairs)


async def _put_token(cloud: Cloud, request: web.Request) -> Any:
    """Add or change a token of any project."""
    fields = await _fields(request, "token", "project", "read_only")
    token, project = fields.text("token", required=True), fields.text("project", required=True)
    read_only = fields.flag("read_only")
    fields.check()
    cloud.tokens[token] = project
    cloud.read_only_tokens.discard(token)
    if read_only:
        cloud.read_only_tokens.add(token)
    return {"projects": cloud.projects}


async def _revoke_token(cloud: Cloud, request: web.Request) -> Any:
    fields = await _fields(request, "token")
    token = fields.text("token", required=True)
    fields.check()
    cloud.tokens.pop(token, None)
    return {"projects": cloud.projects}


def _guest_event(cloud: Cloud, request: web.Request) -> Any:
    """Simulate a guest that powers off, starts, or fails to start."""
    state = request.match_info["state"]
    if state not in {"off", "running", "failed"}:
        raise InvalidInput({"state": ["must be off, running or failed"]})
    if cloud.store.find(Server, identity := int(request.match_info["id"])) is None:
        raise NotFound("server", identity)
    cloud.guest_event(identity, state)
    return {"status": "ok"}


async def _add_robot_server(cloud: Cloud, request: web.Request) -> Any:
    fields = await _fields(request, *_ROBOT_FIELDS)
    number = fields.number("number", least=1)
    fields.address("ip", required=True)
    fields.choice("operating_status", _ROBOT_STATES)
    _check_ipv6_net(fields)
    fields.check()
    values = {name: value for name, value in fields.body.items() if name != "number"}
    try:
        server = msgspec.convert({"id": 0, "project": "", **values}, RobotServer, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidInput({"body": [str(error)]}) from error
    server.id = number or cloud.store.new_id(RobotServer)
    cloud.store.put(server)
    cloud.store.commit()
    return robot_wire(server)


def _check_ipv6_net(fields: Fields) -> None:
    value = fields.text("ipv6_net")
    try:
        valid = not value or int(IPv6Address(value)) % 2**64 == 0
    except ValueError:
        valid = False
    if not valid:
        fields.wrong(
            "ipv6_net", f"'{value}' must be the first address of an IPv6 /64 range, without the prefix length"
        )


def _robot_servers(cloud: Cloud, _request: web.Request) -> Any:
    return {"servers": [robot_wire(server) for server in cloud.store.all(RobotServer)]}


def _remove_robot_server(cloud: Cloud, request: web.Request) -> Any:
    server = cloud.store.find(RobotServer, int(request.match_info["id"]))
    if server is None:
        raise NotFound("robot_server", request.match_info["id"])
    cloud.store.remove(server)
    cloud.store.commit()
    return {"status": "ok"}


_PARAMETERS: Mapping[AdminHandler, tuple[str, ...]] = {
    _state: ("kind",),
    _requests: ("limit", "since", *_GLOBS),
    _counts: ("since", *_GLOBS),
}
_CALLS: list[tuple[str, str, AdminHandler]] = [
    ("GET", "/state", _state),
    ("POST", "/reset", _reset),
    ("GET", "/requests", _requests),
    ("GET", "/requests/counts", _counts),
    ("DELETE", "/requests", _clear_requests),
    ("GET", "/faults", lambda cloud, _: {"faults": cloud.faults.listing()}),
    ("POST", "/faults", _add_fault),
    ("DELETE", "/faults", _remove_faults),
    ("DELETE", r"/faults/{id:[0-9]{1,18}}", _remove_faults),
    ("PUT", "/tokens", _put_token),
    ("DELETE", "/tokens", _revoke_token),
    ("GET", "/settings", _settings),
    ("PUT", "/settings", _change_settings),
    ("POST", r"/servers/{id:[0-9]{1,18}}/events/{state}", _guest_event),
    ("GET", "/robot/servers", _robot_servers),
    ("POST", "/robot/servers", _add_robot_server),
    ("DELETE", r"/robot/servers/{id:[0-9]{1,18}}", _remove_robot_server),
    ("GET", "/overview", lambda cloud, _: overview(cloud)),
]
