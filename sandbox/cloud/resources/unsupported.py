"""Resources that the sandbox does not have: it says so instead of pretending."""

from __future__ import annotations

from sandbox.cloud.api.call import Call
from sandbox.cloud.api.registry import Handler, add_operation
from sandbox.cloud.api.resource import listing
from sandbox.cloud.errors import ApiError, NotFound
from sandbox.cloud.wire.reply import Reply

MISSING = {"volumes": "volume", "floating_ips": "floating_ip"}


def _empty(path: str) -> Handler:
    async def handler(call: Call) -> Reply:
        return listing(call, path, [], lambda entry: entry)

    return handler


async def _no_actions(call: Call) -> Reply:
    return listing(call, "actions", [], lambda entry: entry)


def _refuse(path: str) -> Handler:
    async def handler(_call: Call) -> Reply:
        text = (
            f"the sandbox has no {path.replace('_', ' ')}: this part of the Hetzner Cloud API is not emulated"
        )
        raise ApiError("unsupported_error", text, {"resource": path}, status=501)

    return handler


def _absent(kind: str) -> Handler:
    async def handler(call: Call) -> Reply:
        raise NotFound(kind, call.parameters["id"])

    return handler


_BELOW = (
    ("GET", ""),
    ("PUT", ""),
    ("DELETE", ""),
    ("GET", "/actions"),
    ("GET", "/actions/{action_id}"),
    ("POST", "/actions/{action}"),
)

for _path, _kind in MISSING.items():
    add_operation("GET", f"/{_path}", _empty(_path))
    add_operation("POST", f"/{_path}", _refuse(_path))
    add_operation("GET", f"/{_path}/actions", _no_actions)
    add_operation("GET", f"/{_path}/actions/{{id}}", _absent("action"))
    for _method, _rest in _BELOW:
        add_operation(_method, f"/{_path}/{{id}}{_rest}", _absent(_kind))
