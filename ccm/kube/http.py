"""Kubernetes' REST API over HTTP: requests, pages of lists, watches and errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import aiohttp

from ccm.clock import loop_time
from ccm.kube.backoff import TokenBucket
from ccm.kube.decoding import LineSplitter, decode_error, decode_event, decode_one, decode_page
from ccm.kube.errors import AnswerTooLarge, ConnectionFailed, Unauthorized
from ccm.kube.protocol import MERGE_PATCH, Body, Page, PatchType, WatchEvent
from ccm.tracing import Span, current, kubernetes_template

T = TypeVar("T")
JSON = "application/json"
# A watch is a dead connection if it is silent for this many seconds after its timeout.
WATCH_GRACE = 15.0
_TOTAL = 60.0
# In bytes. Decoding a page temporarily needs several times its size. If a page exceeds this limit, the caller
# requests smaller pages: 500 objects of 2 KiB fit, and objects with the most annotations that the API server
# accepts are read one by one. After pages of twice the size, the allocator kept 8 MiB. etcd limits one object
# to 1.5 MiB, and escapes in JSON multiply the size by at most six.
MAX_PAGE_SIZE = 1024 * 1024
MAX_OBJECT_SIZE = 16 * 1024 * 1024
_CONNECT = 10.0


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``body`` is sent as JSON; ``timeout`` is aiohttp's."""

    verb: str
    path: str
    query: Mapping[str, str]
    body: Body | None
    content_type: str
    timeout: aiohttp.ClientTimeout


@dataclass(frozen=True, slots=True)
class Call:
    """The result of one request, for metrics. All times are in seconds.

    ``status`` is the HTTP status code, or ``<error>``. ``seconds`` is the time until the response headers.
    ``waited`` is the delay by our own rate limit before. ``retry``: the server rejected the same request
    before.
    """

    host: str
    verb: str
    status: str
    seconds: float
    waited: float = 0.0
    retry: bool = False


@dataclass(frozen=True, slots=True)
class Transfer:
    """The number of bytes in the bodies of a request and its response, for metrics. Excludes watches."""

    host: str
    verb: str
    sent: int
    received: int


Observer = Callable[[Call | Transfer], None]


class Connection(Protocol):
    """Sends requests with our credentials. ``version`` counts changes of the token and of the TLS files."""

    version: int

    async def send(self, request: Request) -> aiohttp.ClientResponse:
        """Send a request, and return after the response headers. Raises the errors of aiohttp."""
        ...

    async def renew(self, refused: int) -> bool:
        """Reload credentials whose version ``refused`` the server rejected. Returns whether they changed."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class HttpTransport:
    """A ``Transport`` over HTTP. ``limiter`` may delay requests; ``host`` is for metrics."""

    def __init__(
        self,
        connection: Connection,
        *,
        host: str = "",
        limiter: TokenBucket | None = None,
        observe: Observer = lambda _: None,
        grace: float = WATCH_GRACE,
    ) -> None:
        self._connection = connection
        self._host = host
        self._limiter = limiter
        self._observe = observe
        self._grace = grace

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    def without_limit(self) -> HttpTransport:
        """A transport with the same connections, whose requests bypass the rate limit."""
        return HttpTransport(self._connection, host=self._host, observe=self._observe, grace=self._grace)

    async def get(self, path: str, kind: type[T]) -> T:
        return decode_one(await self._read("GET", path), kind)

    async def list_pages(
        self, path: str, kind: type[T], *, limit: int = 500, name: str = ""
    ) -> AsyncGenerator[Page[T], None]:
        query = {"limit": str(limit)}
        if name:
            query["fieldSelector"] = f"metadata.name={name}"
        most = MAX_OBJECT_SIZE if name or limit == 1 else MAX_PAGE_SIZE
        while True:
            body = await self._read("GET", path, query=query, most=most)
            page, more = decode_page(body, kind)
            # Free a large page before the next page arrives.
            del body
            yield page
            del page
            if not more:
                return
            query["continue"] = more

    async def watch(
        self, path: str, kind: type[T], resource_version: str, *, timeout: float
    ) -> AsyncGenerator[WatchEvent[T], None]:
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(timeout))),
        }
        silence = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=timeout + self._grace)
        splitter = LineSplitter(MAX_OBJECT_SIZE)
        async with self._open(Request("GET", path, query, None, JSON, silence)) as response:
            async for chunk in response.content.iter_any():
                for line in splitter.feed(chunk):
                    event = decode_event(line, kind)
                    if event is not None:
                        yield event

    async def patch(
        self, path: str, body: Body, kind: type[T], *, content_type: PatchType = MERGE_PATCH
    ) -> T:
        return decode_one(await self._read("PATCH", path, body=body, content_type=content_type), kind)

    async def create(self, path: str, body: Body, kind: type[T]) -> T:
        return decode_one(await self._read("POST", path, body=body), kind)

    async def update(self, path: str, body: Body, kind: type[T]) -> T:
        return decode_one(await self._read("PUT", path, body=body), kind)

    async def delete(self, path: str, *, uid: str | None = None) -> None:
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        await self._read("DELETE", path, body=options)

    async def text(self, path: str) -> str:
        """The unchanged body of the response to a GET, for example of ``/healthz``."""
        return (await self._read("GET", path)).decode("utf-8", "replace")

    async def _read(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
        content_type: str = JSON,
        most: int = MAX_OBJECT_SIZE,
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(total=_TOTAL, sock_connect=_CONNECT)
        request = Request(verb, path, query or {}, body, content_type, timeout)
        async with self._open(request) as response:
            return await self._body(request, response, most)

    @asynccontextmanager
    async def _open(self, request: Request) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Send a request, and yield the successful response. Raises only KubernetesError."""
        try:
            version = self._connection.version
            try:
                response = await self._attempt(request)
            except (Unauthorized, aiohttp.ClientSSLError):
                # Kubernetes replaces tokens before they expire, but with a slow clock, we may be late. After
                # a TLS error, the client hasn't sent the request yet.
                if not await self._connection.renew(version):
                    raise
                response = await self._attempt(request, retry=True)
            async with response:
                yield response
        except TimeoutError as error:
            raise ConnectionFailed(message=f"{request.verb} {request.path} timed out") from error
        except (aiohttp.ClientError, OSError) as error:
            text = f"{request.verb} {request.path}: {error or type(error).__name__}"
            raise ConnectionFailed(message=text) from error

    async def _attempt(self, request: Request, *, retry: bool = False) -> aiohttp.ClientResponse:
        waited = 0.0 if self._limiter is None else self._limiter.reserve(loop_time())
        if waited:
            await asyncio.sleep(waited)
        started = loop_time()
        status = "<error>"
        try:
            response = await self._connection.send(request)
            status = str(response.status)
        finally:
            seconds = loop_time() - started
            self._observe(Call(self._host, request.verb, status, seconds, waited, retry))
            span = current.get()
            if span is not None and request.verb != "GET":
                _trace(span, request, status, seconds)
        if response.ok:
            return response
        async with response:
            raise decode_error(response.status, response.headers, await self._body(request, response))

    async def _body(
        self, request: Request, response: aiohttp.ClientResponse, most: int = MAX_OBJECT_SIZE
    ) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > most:
                # Closing the connection drops the rest of the body.
                what = f"{request.verb} {request.path}: the response is larger than {most} bytes"
                raise AnswerTooLarge(message=what)
            parts.append(chunk)
        sent = int(response.request_info.headers.get("Content-Length", 0))
        self._observe(Transfer(self._host, request.verb, sent, size))
        return b"".join(parts)


def _trace(span: Span, request: Request, status: str, seconds: float) -> None:
    number = int(status) if status.isdigit() else 0
    error = "" if 0 < number < 400 else status
    span.request(request.verb, kubernetes_template(request.path), number, seconds, error)
