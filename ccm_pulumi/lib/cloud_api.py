"""A client of the cloud's API for requests that Pulumi's plugin has no resource for.

A function with a ``Cloud`` or a ``Fetch`` raises CloudError if the API refuses or does not answer.
"""

import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .errors import CloudError, ConfigurationError, Problem

REAL_ENDPOINT = "https://api.hetzner.cloud/v1"
TOKEN_KEY = "hcloud:token"  # noqa: S105 (the name of a key, not a token)
TOKEN_LENGTH = 64
TIMEOUT = 10.0
PASSING = ("locked", "conflict", "rate_limit_exceeded")
"""Codes of temporary errors. The HTTP status isn't enough: 423 is the status of the temporary error
``locked`` and of the permanent error ``protected`` (https://docs.hetzner.cloud/reference/cloud#errors)."""
READ_ONLY = ("forbidden", "token_readonly")
LOST = "answer_lost"
"""Our own error code: the response is missing or incomplete, so the result of the request is unknown."""
_MAX_ERROR = 65536  # bytes
_MAX_ANSWER = 16 * 1024 * 1024  # bytes; a page of a list has some hundred thousand

Fetch = Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True)
class Cloud:
    """Where the API is, as seen from here, and the token for it."""

    endpoint: str
    token: str = field(repr=False)


@dataclass(frozen=True)
class Patience:
    """Timeout and interval of retries in seconds, and their clock."""

    seconds: float = 60.0
    pause: float = 1.0
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def cloud_of(configuration: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Cloud:
    """The API that the hcloud plugin uses, too: the stack's configuration, then the environment."""
    token = configuration.get("hcloud:token") or environment.get("HCLOUD_TOKEN")
    check_token(token)
    endpoint = configuration.get("hcloud:endpoint") or environment.get("HCLOUD_ENDPOINT") or REAL_ENDPOINT
    return Cloud(endpoint.rstrip("/"), str(token))


def check_token(token: str | None) -> None:
    """Refuses a missing or invalid token before it is sent, without showing it."""
    if not token:
        advice = "run pulumi config set --secret hcloud:token, or set HCLOUD_TOKEN in the environment"
        raise ConfigurationError([Problem(TOKEN_KEY, None, advice)])
    if len(token) != TOKEN_LENGTH or not token.isascii() or not token.isalnum():
        allowed = f"a Hetzner Cloud token consists of exactly {TOKEN_LENGTH} letters and digits"
        raise ConfigurationError([Problem(TOKEN_KEY, f"(a text of {len(token)} characters)", allowed)])


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects, which would send the token to another host: a redirect is an error."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """No further request."""


_OPENER = urllib.request.build_opener(NoRedirects)


@contextmanager
def understood(what: str) -> Iterator[None]:
    """Converts errors of reading an answer, such as a null in place of an object, into a CloudError."""
    try:
        yield
    except CloudError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CloudError("", f"answered {what} with a response that can't be parsed: {error!r}") from error


def labeled(fetch: Fetch, resource: str, labels: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """All objects of a list that have these labels."""
    selector = ",".join(f"{key}=={value}" for key, value in labels.items())
    return everything(fetch, resource, f"&label_selector={urllib.parse.quote(selector, safe='')}")


def everything(fetch: Fetch, resource: str, query: str) -> list[Mapping[str, Any]]:
    """All pages of a list. ``query`` is empty or begins with an ampersand."""
    items: list[Mapping[str, Any]] = []
    page: int | None = 1
    while page:
        path = f"/{resource}?per_page=50&page={page}{query}"
        answer = fetch(path)
        with understood(f"GET {path}"):
            items += [dict(item) for item in answer[resource.rpartition("/")[2]]]
            following = answer["meta"]["pagination"]["next_page"]
            if following not in (None, page + 1):
                raise ValueError(f"after page {page} comes {following!r}")
        page = following
    return items


def fetcher(cloud: Cloud, timeout: float = TIMEOUT, patience: Patience | None = None) -> Fetch:
    """A GET of the API, repeated while the API is too busy, fails or loses answers; raises like ``call``."""

    def fetch(path: str) -> Mapping[str, Any]:
        return _patiently(
            lambda: call(cloud, "GET", path, timeout=timeout),
            lambda error: error.code in (*PASSING, LOST) or (error.status or 0) >= 500,
            patience or Patience(seconds=20.0),
        )

    return fetch


def call(
    cloud: Cloud, method: str, path: str, body: Mapping[str, Any] | None = None, *, timeout: float = TIMEOUT
) -> Mapping[str, Any]:
    """One call of the API; an empty answer is an empty mapping. The path begins with a slash. A
    ConfigurationError means that the token is not accepted. Any other failure is a CloudError, and so is
    missing content if the caller reads the answer in ``understood``.
    """
    if not cloud.endpoint.startswith(("http://", "https://")):
        raise CloudError(cloud.endpoint, "has an invalid address: use an https:// or http:// address")
    headers = {"Authorization": f"Bearer {cloud.token}", "User-Agent": "ccm-from-scratch-infra"}
    content = None
    if body is not None:
        content, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
    request = urllib.request.Request(cloud.endpoint + path, content, headers, method=method)  # noqa: S310
    try:
        with _OPENER.open(request, timeout=timeout) as response:
            return _read(_whole(response), f"{method} {path}")
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(cloud, f"{method} {path}", error) from error
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, (ConnectionResetError, TimeoutError, http.client.HTTPException)):
            what = f"did not answer {method} {path}: {reason or type(reason).__name__}"
            raise CloudError(cloud.endpoint, what, code=LOST) from error
        raise CloudError(
            cloud.endpoint,
            f"is unreachable: {reason}. If you use the sandbox, start it with './dev up'. Check the "
            "address in hcloud:endpoint or HCLOUD_ENDPOINT",
        ) from error


def _whole(response: http.client.HTTPResponse) -> bytes:
    """The content of an answer, with a maximum size."""
    content = response.read(_MAX_ANSWER + 1)
    if len(content) > _MAX_ANSWER:
        raise ValueError(f"the response has more than {_MAX_ANSWER} bytes")
    if response.length:
        # a read with a limit does not report missing content
        raise http.client.IncompleteRead(content, response.length)
    return content


def _read(content: bytes, request: str) -> Mapping[str, Any]:
    with understood(request):
        return {**json.loads(content or b"{}")}


def fetch_or_none(fetch: Fetch, path: str) -> Mapping[str, Any] | None:
    """The answer at a path; None: there is nothing."""
    try:
        return fetch(path)
    except CloudError as error:
        if error.status == 404:
            return None
        raise


def read_server(cloud: Cloud, server_id: str) -> Mapping[str, Any] | None:
    """A server as the API returns it; None if it is deleted."""
    path = f"/servers/{server_id}"
    answer = fetch_or_none(fetcher(cloud), path)
    if answer is None:
        return None
    with understood(f"GET {path}"):
        return {**answer["server"]}


def server_runs(cloud: Cloud, server_id: str) -> bool:
    """Whether a server is running."""
    server = read_server(cloud, server_id)
    return server is not None and server["status"] == "running"


def change(
    cloud: Cloud,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    patience: Patience | None = None,
) -> Mapping[str, Any]:
    """Like ``call``, for a change of an object: repeated while another action has locked it."""
    return _patiently(
        lambda: call(cloud, method, path, body), lambda error: error.code in PASSING, patience or Patience()
    )


def may_write(cloud: Cloud) -> bool:
    """Whether a token may change anything. The request that it sends is invalid and creates nothing.

    Hetzner answers ``forbidden`` to a token that only reads, before ``token_readonly`` (hcloud-go 2.51).
    """
    try:
        call(cloud, "POST", "/ssh_keys", {})
    except CloudError as error:
        return error.code not in READ_ONLY
    return True


def power_off(cloud: Cloud, server_id: str, patience: Patience | None = None) -> None:
    """Cuts a server's power, and waits until it is off. A deleted server counts as off."""
    patience = patience or Patience()
    deadline = patience.now() + patience.seconds
    try:
        change(cloud, "POST", f"/servers/{server_id}/actions/poweroff", {}, patience=patience)
    except CloudError as error:
        if error.status != 404:
            raise
    while server_runs(cloud, server_id):
        if patience.now() >= deadline:
            what = f"sent the power-off command to server {server_id}, but the server is still running"
            raise CloudError(cloud.endpoint, what)
        patience.sleep(patience.pause)


def _patiently(
    ask: Callable[[], Mapping[str, Any]], passes: Callable[[CloudError], bool], patience: Patience
) -> Mapping[str, Any]:
    """An answer; retries temporary errors."""
    deadline = patience.now() + patience.seconds
    while True:
        try:
            return ask()
        except CloudError as error:
            if not passes(error) or patience.now() >= deadline:
                raise
        patience.sleep(patience.pause)


def _wrong_fields(error: Mapping[str, Any]) -> str:
    """The problem of each field of a request; the API's message only has the names."""
    details = error.get("details")
    fields = (details.get("fields") or []) if isinstance(details, dict) else []
    named = [f"{field['name']}: {', '.join(field['messages'])}" for field in fields if "messages" in field]
    return f" [{'; '.join(named)}]" if named else ""


def _refusal(cloud: Cloud, request: str, error: urllib.error.HTTPError) -> ConfigurationError | CloudError:
    """The error of an answer: {"error": {"code": ..., "message": ...}}."""
    with error:
        if error.code == 401:
            return ConfigurationError(
                [Problem(TOKEN_KEY, "(not shown)", f"{cloud.endpoint} does not accept this token")]
            )
        if 300 <= error.code < 400:
            return CloudError(
                cloud.endpoint,
                f"answered {request} with the redirect {error.code}. The program doesn't follow redirects, "
                "because a redirect would send the token to another address",
                error.code,
            )
        try:
            said = json.loads(error.read(_MAX_ERROR))["error"]
            code, why = str(said["code"]), f"{said['message']} ({said['code']}){_wrong_fields(said)}"
        except (OSError, ValueError, LookupError, TypeError, RecursionError, http.client.HTTPException):
            code, why = "", error.reason
    return CloudError(cloud.endpoint, f"answered {request} with {error.code}: {why}", error.code, code)
