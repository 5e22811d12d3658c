"""The client of the Hetzner Cloud API, and the only module that imports ``hcloud``.

``hcloud`` provides authentication, a connection pool and error decoding. Its calls block, so they run in a
few threads. This module adds timeouts, a request budget, metrics, partial structs, complete lists, waits for
many actions, and retries (but not of changes whose result is unknown). The bound models of ``hcloud`` aren't
used, because access to attributes may send requests.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

import msgspec
import requests
import structlog
from hcloud import APIException, Client

from ccm.hetzner.api.actions import ActionWaiter
from ccm.hetzner.api.api_errors import ApiError, RateLimited, Unavailable, api_error, unavailable
from ccm.hetzner.api.api_metrics import ApiMetrics, code_label, endpoint_label, operation_label
from ccm.hetzner.api.budget import Budget, Priority
from ccm.hetzner.api.listing import Listing, Pages
from ccm.hetzner.api.models import Action, Meta
from ccm.hetzner.api.project_token import ProjectToken
from ccm.http_client import EnvironmentAdapter
from ccm.tracing import current
from ccm.version import VERSION

T = TypeVar("T")
Json = dict[str, Any]

APPLICATION = "ccm-from-scratch"
THREADS = 8
TIMEOUT = (3.05, 15.0)  # seconds to connect, and between two bytes of the response
GET_TRIES = 4
PAUSE = 0.5  # seconds before the first retry, doubled for each further retry, plus up to 100 % jitter
PAGE = 50  # the API's maximum
MAX_PAGES = 1000  # of a list; no project has more
# hcloud doesn't validate responses, so malformed or deeply nested responses raise other errors.
_FAILURES = APIException, requests.RequestException, TypeError, KeyError, ValueError, RecursionError

log = structlog.stdlib.get_logger(__name__)


class HetznerApi:
    """Requests to the Hetzner Cloud API.

    Args:
        token: Returns the current API token; called before every request.
        endpoint: Base URL, for example ``https://api.hetzner.cloud/v1``.
        debug: Log every request and response without the token.
        timeout: Seconds to connect, and between two bytes of the response.
        jitter: Returns a random number in [0, 1) for the pauses between retries.
    """

    def __init__(
        self,
        *,
        token: Callable[[], str],
        endpoint: str,
        metrics: ApiMetrics,
        budget: Budget,
        debug: bool = False,
        timeout: tuple[float, float] = TIMEOUT,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.token = ProjectToken(token)  # work that must use one project holds the token
        self._endpoint = endpoint.rstrip("/")
        self._metrics = metrics
        self.budget = budget
        metrics.watch(budget)
        self._debug = debug
        self._timeout = timeout
        self._jitter = jitter
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="hetzner")
        self._client: tuple[str, Client] | None = None
        # By the token's number, because a poller keeps the token of its first caller. By priority, so that
        # polls for load balancers don't delay routes.
        self._actions: dict[tuple[int, Priority], ActionWaiter] = {}
        self.last_error: ApiError | None = None

    async def get(self, path: str, key: str, kind: type[T], *, priority: Priority) -> T:
        """Read ``key`` from the response of ``path``; raises NotFound or another ApiError."""
        answer = await self.request("GET", path, priority=priority)
        return convert(answer.get(key), kind, f"GET {path}")

    async def list(
        self,
        path: str,
        key: str,
        kind: type[T],
        *,
        priority: Priority,
        params: Mapping[str, object] | None = None,
    ) -> Listing[T]:
        """Read all pages of a collection; raises ApiError instead of returning a part of the list."""
        operation = f"GET {path}"
        came = ""
        for _ in range(GET_TRIES):
            pages = await self._pages(path, key, kind, dict(params or {}), priority)
            # Objects created or deleted between two pages shift the others, which may cause gaps.
            if pages.complete:
                return pages.listing()
            came = f"{pages.count} of {pages.total}"
        raise unavailable(operation, f"the list is incomplete, because the API returned only {came} items")

    async def act(self, path: str, body: Mapping[str, object] | None = None, *, priority: Priority) -> Action:
        """Start an action; wait for it with :meth:`wait`."""
        answer = await self.request("POST", path, body=body, priority=priority)
        return convert(answer.get("action"), Action, f"POST {path}")

    async def wait(self, *actions: Action, priority: Priority) -> None:
        """Wait until actions have succeeded; see :class:`~ccm.hetzner.api.actions.ActionWaiter`.

        Use the ``priority`` of the changes that started the actions, so that a permitted change doesn't fail
        because its action can't be read. Raises TokenChanged if the token has changed since then, because the
        new project may not have the actions.
        """
        with self.token.hold():
            key = self.token.number, priority
            if key not in self._actions:
                self._actions[key] = ActionWaiter(partial(self._fetch_actions, priority))
            await self._actions[key].wait_all(actions)

    async def close(self) -> None:
        """Stop the threads. Running requests end by themselves."""
        for waiter in self._actions.values():
            await waiter.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def request(
        self,
        method: str,
        path: str,
        *,
        priority: Priority,
        params: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> Json:
        """Send a request, and retry it if that is safe.

        A GET is retried after any failure, and if the token changed before the response arrived. All requests
        are retried after status 429, which means that nothing changed; the budget delays the retry. If the
        caller is cancelled during a change, it waits for the response, because the change takes effect.

        Raises:
            TokenChanged: The caller's work began with a token that is no longer current.
            Unavailable: A change may have taken effect. Read the state before you retry.
            ApiError: The request failed, and nothing changed.
        """
        options: Json = {"params": dict(params)} if params else {}
        if body is not None:
            options["json"] = dict(body)
        for attempt in range(GET_TRIES):
            try:
                return await self._once(method, path, options, priority)
            except RateLimited:
                self.budget.exhausted()
                if attempt == GET_TRIES - 1:
                    raise
            except Unavailable as error:
                if method != "GET" or attempt == GET_TRIES - 1:
                    raise
                pause = PAUSE * 2**attempt * (1 + self._jitter())
                log.info("request_repeated", why=str(error), pause=round(pause, 1))
                await asyncio.sleep(pause)
        raise AssertionError  # the last attempt returns or raises

    async def _once(self, method: str, path: str, options: Json, priority: Priority) -> Json:
        await self.budget.acquire(priority)
        try:
            work = partial(self._blocking, self._current_client(), method, path, options)
            number = self.token.number
            running = asyncio.get_running_loop().run_in_executor(self._pool, work)
            outcome = await (running if method == "GET" else _to_its_end(running))
        finally:
            self.budget.release()
        if method == "GET" and number != self.token.number:
            error = unavailable(f"{method} {path}", "the token changed during the request")
            outcome = replace(outcome, error=error)
        return self._account(method, path, outcome)

    def _account(self, method: str, path: str, outcome: _Outcome) -> Json:
        """Count a request, update the budget from its headers, and return the response or raise the error."""
        headers = outcome.headers
        self.budget.observe(
            _number(headers.get("RateLimit-Limit")), _number(headers.get("RateLimit-Remaining"))
        )
        code = outcome.error.code if outcome.error else "ok"
        metrics = self._metrics
        metrics.requests.labels(str(outcome.status), method.lower(), endpoint_label(path)).inc()
        metrics.operations.labels(operation_label(method, path), code_label(code)).inc()
        metrics.duration.labels(method.lower()).observe(outcome.seconds)
        span = current.get()
        if span is not None:
            template = operation_label("", path).strip()
            span.request(method, template, outcome.status, outcome.seconds, code if outcome.error else "")
        if self._debug:
            log.info(
                "request", method=method, path=path, status=outcome.status, code=code, answer=outcome.body
            )
        if outcome.error is not None:
            self.last_error = outcome.error
            raise outcome.error
        self.last_error = None
        return outcome.body

    def _blocking(self, client: Client, method: str, path: str, options: Json) -> _Outcome:
        """Send one request in a thread. A hook stores the headers, which hcloud drops."""
        seen: list[requests.Response] = []

        def keep(response: requests.Response, **_: object) -> None:
            seen.append(response)

        hooks = {"response": keep}
        started = time.monotonic()
        answer: Json = {}
        error: ApiError | None = None
        with self._metrics.in_flight.track_inprogress():
            try:
                request = cast("Any", client).request
                answer = _object(request(method, path, hooks=hooks, allow_redirects=False, **options))
            except _FAILURES as failure:
                error = _failure(f"{method} {path}", seen[-1].status_code if seen else 0, failure)
        status = seen[-1].status_code if seen else 0
        if 300 <= status < 400:
            # Don't follow redirects: a DELETE would become a GET, and a success would be meaningless.
            why = (
                f"the server redirects to another address (HTTP status {status}). Set HCLOUD_ENDPOINT to the "
                "address of the API"
            )
            error = unavailable(f"{method} {path}", why)
        headers: Mapping[str, str] = seen[-1].headers if seen else {}
        return _Outcome(status, headers, answer, error, time.monotonic() - started)

    def _current_client(self) -> Client:
        """The client for the current token. A new token applies from the next request."""
        token = self.token.look()
        if self._client is None or self._client[0] != token:
            self._client = token, _new_client(token, self._endpoint, self._timeout)
        return self._client[1]

    async def _pages(self, path: str, key: str, kind: type[T], params: Json, priority: Priority) -> Pages[T]:
        pages = Pages(kind)
        page: int | None = 1
        while page is not None:
            query = {**params, "page": page, "per_page": PAGE}
            answer = await self.request("GET", path, params=query, priority=priority)
            pages.add(convert(answer.get(key), list[Json], f"GET {path}"))
            pagination = convert(answer.get("meta", {}), Meta, f"GET {path}").pagination
            if pagination.next_page is not None and not page < pagination.next_page <= MAX_PAGES:
                raise unavailable(
                    f"GET {path}",
                    f"the response is invalid: page {pagination.next_page} can't be the next page after "
                    f"page {page}",
                )
            pages.total, page = pagination.total_entries, pagination.next_page
        return pages

    async def _fetch_actions(self, priority: Priority, ids: Sequence[int]) -> Sequence[Action]:
        params = {"id": list(ids), "per_page": PAGE}
        answer = await self.request("GET", "/actions", params=params, priority=priority)
        return convert(answer.get("actions"), list[Action], "GET /actions")


@dataclass(frozen=True)
class _Outcome:
    status: int
    headers: Mapping[str, str]  # names are case-insensitive
    body: Json
    error: ApiError | None
    seconds: float


async def _to_its_end(running: asyncio.Future[_Outcome]) -> _Outcome:
    """Wait for a sent change even if cancelled, because the caller may release the lease next."""
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


def _new_client(token: str, endpoint: str, timeout: tuple[float, float]) -> Client:
    client = Client(
        token,
        api_endpoint=endpoint,
        application_name=APPLICATION,
        application_version=VERSION,
        timeout=timeout,
    )
    # hcloud retries requests, even changes, and sleeps in our thread. No public option disables this.
    inner = cast("Any", client)._client  # noqa: SLF001
    inner._retry_max_retries = 0  # noqa: SLF001
    adapter = EnvironmentAdapter()
    for scheme in ("http://", "https://"):
        inner._session.mount(scheme, adapter)  # noqa: SLF001
    return client


def _failure(operation: str, status: int, failure: Exception) -> ApiError:
    """The error of a request without a usable response."""
    if isinstance(failure, requests.RequestException):
        return unavailable(operation, _network_failure(failure))
    if status == 0:
        # The error's text may contain the token.
        return unavailable(operation, f"the request can't be sent ({type(failure).__name__})")
    if status < 400:
        return unavailable(operation, "the response can't be decoded: it isn't a JSON object")
    if isinstance(failure, APIException):
        return api_error(operation, status, str(failure.code), failure.message, failure.details)
    return api_error(operation, status, str(status), "the response isn't a response of the Hetzner Cloud API")


def _object(answer: object) -> Json:
    if not isinstance(answer, dict):
        raise TypeError
    return cast("Json", answer)


def _network_failure(failure: requests.RequestException) -> str:
    """Why the API did not respond, without the addresses and object representations in requests' messages."""
    if isinstance(failure, requests.ConnectTimeout):
        return "could not connect in time"
    if isinstance(failure, requests.Timeout):
        return "no answer in time"
    if isinstance(failure, requests.exceptions.SSLError):
        return "the TLS connection failed"
    if isinstance(failure, requests.ConnectionError):
        return "could not connect, or the connection broke"
    return f"the request failed ({type(failure).__name__})"


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch("[0-9]{1,18}", text) else None


def convert(value: object, kind: type[T], operation: str) -> T:
    """Decode a part of the response to an operation such as ``POST /servers``. Raises Unavailable."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise unavailable(operation, f"the response can't be decoded: {error}") from None
