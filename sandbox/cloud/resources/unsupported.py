"""Resources that the sandbox does not have: it says so instead of pretending."""

from __future__ import annotations

from sandbox.cloud.call import Call, Reply
from sandbox.cloud.collection import listing
from sandbox.cloud.errors import ApiError, NotFound
from sandbox.cloud.registry import Handler, add_operation

MISSING = {"volumes": "volume", "floating_ips": "floating_ip", "zones": "zone"}


def _empty(path: str) -> Handler:
    async def handler(call: Call) -> Reply:
        return listing(call, path, [], lambda entry: entry)

    return handler


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


for _path, _kind in MISSING.items():
    add_operation("GET", f"/{_path}", _empty(_path))
    add_operation("GET", f"/{_path}/{{id}}", _absent(_kind))
    add_operation("POST", f"/{_path}", _refuse(_path))
