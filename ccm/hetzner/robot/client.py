"""Robot's web service: the list of servers, one server, and its power state."""

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

import aiohttp
import msgspec

from ccm.cloud.errors import AccessDenied, CloudUnavailable, QuotaExhausted, Rejected
from ccm.hetzner.api import Listing, UndecodableItem
from ccm.hetzner.settings import Secret
from ccm.http_client import Trust, proxy_for

T = TypeVar("T")
TIMEOUT = aiohttp.ClientTimeout(total=30, connect=5)
# msgspec raises Python's errors for invalid UTF-8 and for deep nesting.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
DEFAULT_PAUSE = 60.0  # default for the seconds without requests after the rate limit


class RobotNotFound(Rejected):
    """Robot has no such server."""


class RobotServer(
    msgspec.Struct, frozen=True, gc=False, rename={"id": "server_number", "name": "server_name"}
):
    """A dedicated server. For a Node without a provider ID, the server must have the name of the Node."""

    id: int
    name: str = ""
    product: str = ""
    dc: str = ""
    server_ip: str | None = None
    server_ipv6_net: str | None = None


class _ServerAnswer(msgspec.Struct):
    server: RobotServer


class _Reset(msgspec.Struct):
    operating_status: str | None = None


class _ResetAnswer(msgspec.Struct):
    reset: _Reset


class _ErrorDetails(msgspec.Struct):
    code: str = ""
    message: str = ""


class _ErrorAnswer(msgspec.Struct):
    error: _ErrorDetails = msgspec.field(default_factory=_ErrorDetails)


class RobotClient:
    """Requests to Robot.

    Every method raises :class:`ccm.cloud.CloudError` if the result is unknown. After Robot reports that the
    rate limit is reached, the client sends no requests for ``pause`` seconds; 0 = a minute.
    """

    def __init__(
        self,
        endpoint: str,
        user: Secret,
        password: Secret,
        *,
        pause: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._user = user
        self._password = password
        self._pause = pause or DEFAULT_PAUSE
        self._clock = clock
        self._silent_until = 0.0
        self._session: aiohttp.ClientSession | None = None
        self._trust = Trust()

    @property
    def user(self) -> str:
        """The user of the web service. A user sees only the servers of one account."""
        return self._user.value

    async def servers(self) -> Listing[RobotServer]:
        """All servers, and separately the undecodable servers."""
        try:
            answer = await self._get("/server", list[dict[str, Any]])
        except RobotNotFound:
            return Listing([])  # Robot's response if there are no servers
        items: list[RobotServer] = []
        undecodable: list[UndecodableItem] = []
        for item in answer:
            try:
                items.append(msgspec.convert(item, _ServerAnswer).server)
            except msgspec.ValidationError as error:
                undecodable.append(_undecodable(item.get("server"), error))
        return Listing(items, tuple(undecodable))

    async def server(self, number: int) -> RobotServer:
        """One server. Raises RobotNotFound if it doesn't exist, CloudError if that is unknown."""
        return (await self._get(f"/server/{number}", _ServerAnswer)).server

    async def is_shut_off(self, number: int) -> bool:
        """Whether a server is powered off; False if its model doesn't report the power state."""
        return (await self._get(f"/reset/{number}", _ResetAnswer)).reset.operating_status == "shut off"

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _get(self, path: str, kind: type[T]) -> T:
        if self._clock() < self._silent_until:
            raise QuotaExhausted(f"Robot GET {path}: waiting because Robot's request limit was reached")
        try:
            credentials = aiohttp.encode_basic_auth(self._user.value, self._password.value)
        except ValueError:
            raise AccessDenied(
                f"Robot GET {path}: ROBOT_USER contains a colon, which isn't allowed"
            ) from None
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=TIMEOUT)
        url, headers = self._endpoint + path, {"Authorization": credentials}
        try:
            context = self._trust.context() if url.startswith("https:") else True
            proxy = proxy_for(url, os.environ)
            async with self._session.get(url, headers=headers, proxy=proxy, ssl=context) as answer:
                status, body = answer.status, await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise CloudUnavailable(f"Robot GET {path}: no response ({type(error).__name__})") from error
        except OSError as error:  # errors of aiohttp are handled above
            raise CloudUnavailable(
                f"Robot GET {path}: the certificate authorities can't be read: {error}"
            ) from error
        if status != 200:
            raise self._refusal(path, status, body)
        try:
            return msgspec.json.decode(body, type=kind)
        except _UNREADABLE as error:
            raise CloudUnavailable(f"Robot GET {path}: the response can't be decoded: {error}") from None

    def _refusal(
        self, path: str, status: int, body: bytes
    ) -> Rejected | AccessDenied | CloudUnavailable | QuotaExhausted:
        try:
            details = msgspec.json.decode(body, type=_ErrorAnswer).error
        except _UNREADABLE:
            details = _ErrorDetails(message="no explanation")
        text = f"Robot GET {path}: {details.message} ({details.code or status})"
        if details.code == "RATE_LIMIT_EXCEEDED":
            self._silent_until = self._clock() + self._pause
            return QuotaExhausted(text)
        if details.code == "SERVER_NOT_FOUND":
            return RobotNotFound(text)
        if status in {401, 403}:
            return AccessDenied(text)
        return CloudUnavailable(text)


def _undecodable(server: object, error: msgspec.ValidationError) -> UndecodableItem:
    details = cast("dict[str, Any]", server) if isinstance(server, dict) else {}
    number = details.get("server_number")
    return UndecodableItem(
        number if isinstance(number, int) else 0, str(details.get("server_name", "")), str(error)
    )
