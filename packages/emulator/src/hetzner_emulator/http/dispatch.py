"""Turns HTTP requests into calls, and replies into HTTP responses; applies faults and limits."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from aiohttp import web

from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import OPERATIONS, Operation
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, StateFileError
from hetzner_emulator.http.access import bearer_token
from hetzner_emulator.http.body import read_json
from hetzner_emulator.http.router import Router
from hetzner_emulator.traffic.fault_rules import FaultRule
from hetzner_emulator.traffic.faults import corrupt
from hetzner_emulator.traffic.requests import Request
from hetzner_emulator.wire.reply import Reply

log = logging.getLogger(__name__)

PREFIX = "/v1"
_HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
_encode = msgspec.json.encode


@dataclass
class _Exchange:
    """The state of a request on its way."""

    request: web.Request
    path: str
    project: str = ""
    template: str = ""
    fault: FaultRule | None = None
    code: str = ""


class Dispatcher:
    """Handles every request below ``/v1``."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._router = Router(OPERATIONS.values())

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Handle and log a request."""
        begin = time.perf_counter()
        exchange = _Exchange(request, request.path.removeprefix(PREFIX) or "/")
        correlation = f"{self._cloud.randomness.getrandbits(64):016x}"
        status = 0
        try:
            reply = await self._answer(exchange)
            response = await self._respond(exchange, reply, correlation)
            status = 0 if response is None else reply.status
        finally:
            self._log(exchange, status, time.perf_counter() - begin, correlation)
        if response is None:
            return _cut(request)
        return response

    async def _answer(self, exchange: _Exchange) -> Reply:
        try:
            return await self._dispatch(exchange)
        except ApiError as failure:
            error = failure
        except StateFileError as failure:
            log.error("%s", failure)  # noqa: TRY400  the message is enough
            error = ApiError("server_error", str(failure))
        except Exception:
            log.exception("bug in %s", exchange.template)
            error = ApiError("server_error", "internal error of the sandbox. See the sandbox's log")
        exchange.code = error.code
        return error_reply(error)

    async def _dispatch(self, exchange: _Exchange) -> Reply:
        request, cloud = exchange.request, self._cloud
        match = self._router.match(exchange.path)
        if match is None:
            # Hetzner's gateway responds before it checks the token.
            raise ApiError("not_found", "api route not found")
        token = bearer_token(request)
        if token not in cloud.tokens:
            raise ApiError("unauthorized", "the token you have provided is invalid")
        exchange.project = cloud.tokens[token]
        operation = match.operations.get(request.method)
        exchange.template = operation.name if operation else f"{request.method} {exchange.path}"
        if not cloud.limiter.take(exchange.project, cloud.now()):
            raise ApiError("rate_limit_exceeded", "limit of API requests per hour reached")
        if operation is None:
            raise ApiError("method_not_allowed", "the request method is not allowed")
        if request.method != "GET" and token in cloud.read_only_tokens:
            raise ApiError("forbidden", "the token is only allowed to perform GET requests")
        exchange.fault = cloud.faults.for_request(request.method, exchange.path, operation.path)
        return await self._perform(exchange, operation, match.parameters)

    async def _perform(
        self, exchange: _Exchange, operation: Operation, parameters: Mapping[str, str]
    ) -> Reply:
        request, fault, cloud = exchange.request, exchange.fault, self._cloud
        body = await read_json(request)  # first, while the client is still connected
        if fault is not None:
            await asyncio.sleep(fault.latency)
            if fault.drop == "before" or (fault.error and not fault.after):
                return _faulty(exchange, fault)
        call = Call(
            cloud=cloud,
            project=exchange.project,
            parameters=parameters,
            query=request.query,
            body=body,
            url=f"{request.scheme}://{request.host}{request.path}",
        )
        try:
            reply = await operation.handler(call)
        finally:
            cloud.store.commit()
        if fault is None:
            return reply
        await asyncio.sleep(fault.hold)
        return self._after_effect(exchange, fault, reply)

    def _after_effect(self, exchange: _Exchange, fault: FaultRule, reply: Reply) -> Reply:
        if fault.error:
            return _faulty(exchange, fault)
        if fault.stale and exchange.request.method == "GET":
            address = exchange.request.path_qs
            return self._cloud.faults.stale(fault, exchange.project, address, reply)
        return corrupt(fault, reply)

    async def _respond(
        self, exchange: _Exchange, reply: Reply, correlation: str
    ) -> web.StreamResponse | None:
        """The HTTP response, or None if a fault closes the connection."""
        fault = exchange.fault
        if fault is not None and fault.drop:
            return None
        headers = {"X-Correlation-Id": correlation, **reply.headers}
        if exchange.project:
            headers.update(self._cloud.limiter.headers(exchange.project, self._cloud.now()))
        if reply.status == 204:
            return web.Response(status=204, headers=headers)
        if fault is not None and fault.raw:
            return web.Response(body=_HTML, status=reply.status, headers=headers, content_type="text/html")
        body = _encode(reply.body)
        if not exchange.project:
            body = msgspec.json.format(body, indent=2)
        headers["Content-Type"] = (
            "application/json; charset=UTF-8" if not exchange.project else "application/json"
        )
        if fault is not None and fault.truncated_body:
            await _half(exchange.request, body, reply.status, headers)
            return None
        return web.Response(body=body, status=reply.status, headers=headers)

    def _log(self, exchange: _Exchange, status: int, seconds: float, correlation: str) -> None:
        request = exchange.request
        self._cloud.requests.add(
            Request(
                at=self._cloud.now(),
                project=exchange.project,
                operation=exchange.template or f"{request.method} {exchange.path}",
                method=request.method,
                path=exchange.path,
                query=request.query_string,
                status=status,
                code=exchange.code,
                seconds=round(seconds, 6),
                user_agent=request.headers.get("User-Agent", ""),
                correlation_id=correlation,
            )
        )


def error_reply(error: ApiError) -> Reply:
    """The reply with an error."""
    return Reply(error.status, error.wire())


def _faulty(exchange: _Exchange, fault: FaultRule) -> Reply:
    if fault.error is None:
        return Reply(0, None)  # the connection closes without a response
    exchange.code = fault.error.code
    return error_reply(fault.error)


def _cut(request: web.Request) -> web.StreamResponse:
    """Close the connection at once."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=499)


async def _half(request: web.Request, body: bytes, status: int, headers: Mapping[str, str]) -> None:
    """Announce the whole body and send half of it."""
    response = web.StreamResponse(status=status, headers=headers)
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()
