"""Calls of the Hetzner Cloud API, and waiting for its actions as hcloud-go does."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ccm.go import parse_duration
from sandbox.engine.errors import ProviderError, ResourceNotFoundError
from sandbox.engine.providers.base import refuse_others

Result = TypeVar("Result")
_DEFAULT_TIMEOUT = 1200.0  # what terraform gives an operation
_REQUEST_TIMEOUT = 60.0
_LONGEST_WAIT = 60.0
_STRANGE = "this is no answer of the Hetzner Cloud API. Is HCLOUD_ENDPOINT right?"
_UNCLEAR = frozenset({"server_error", "service_error", "unavailable", "timeout", "bad_gateway"})


class ApiError(ProviderError):
    """The API refused a call, or failed at it."""

    def __init__(self, code: str, message: str, what: str) -> None:
        super().__init__(f"{what}: {message} ({code})")
        self.code = code
        self.message = message

    @property
    def is_refusal(self) -> bool:
        """Whether nothing was done for sure; where the API itself failed, or a proxy, nobody knows."""
        return self.code not in _UNCLEAR and not re.fullmatch("5[0-9]{2}", self.code)


class GoneError(ApiError, ResourceNotFoundError):
    """The API says not_found. A bare 404 does not: a wrong address or a proxy answers that, too."""


class Answer(dict[str, Any]):
    """An object of an answer: asking for a field that it lacks is a clear error."""

    def __init__(self, what: str, fields: Mapping[str, Any]) -> None:
        super().__init__({key: _checked(what, value) for key, value in fields.items()})
        self._what = what

    def __missing__(self, key: str) -> Any:
        raise ProviderError(f"{self._what}: there is no '{key}' in the answer: {_STRANGE}")


@dataclass(frozen=True)
class Settings:
    """The provider's configuration.

    Attributes:
        token: API token of a project, 64 characters.
        endpoint: Base URL with version.
        poll_interval: Seconds before an action is asked for again the first time.
        exponential: The interval doubles each time.
    """

    token: str
    endpoint: str = "https://api.hetzner.cloud/v1"
    poll_interval: float = 0.5
    exponential: bool = True


def settings_from(config: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Configuration with defaults from the environment.

    Raises:
        ProviderError: There is no usable token, or the endpoint is not the sandbox's.
    """
    token = config.get("token") or environment.get("HCLOUD_TOKEN", "")
    if not token:
        raise ProviderError(
            "no Hetzner Cloud token: set HCLOUD_TOKEN or the configuration value 'hcloud:token'"
        )
    if len(token) != 64:
        raise ProviderError(
            f"the Hetzner Cloud token is invalid: it has {len(token)} characters and must have exactly 64"
        )
    interval = config.get("pollInterval") or environment.get("HCLOUD_POLL_INTERVAL") or "500ms"
    function = config.get("pollFunction") or environment.get("HCLOUD_POLL_FUNCTION") or "exponential"
    endpoint = config.get("endpoint") or environment.get("HCLOUD_ENDPOINT") or Settings.endpoint
    try:
        pause = parse_duration(str(interval))
    except ValueError:
        raise ProviderError(
            f"hcloud:pollInterval: '{interval}' is not a duration (like 500ms or 5s)"
        ) from None
    refuse_others("hcloud", str(endpoint))
    return Settings(token, str(endpoint).rstrip("/"), pause, function != "constant")


@dataclass
class Writing:
    """What calls of one thread have done.

    Attributes:
        done: Whether one of them has changed something, as far as anybody knows.
    """

    done: bool = False


class Api:
    """The Hetzner Cloud API of one project. Thread-safe; loads its client at the first call.

    Args:
        settings: Where and how.
        sleep: Waits so many seconds.
    """

    def __init__(self, settings: Settings, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._sleep = sleep
        self._clients = threading.local()

    def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        """GET; parameters may be lists."""
        return self._request("GET", path, params=parameters or None)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """POST."""
        return self._request("POST", path, json=dict(body or {}))

    def put(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """PUT."""
        return self._request("PUT", path, json=dict(body))

    def delete(self, path: str, *, by_action: bool = False) -> dict[str, Any]:
        """DELETE; what is gone already is no error.

        Args:
            path: Of the resource.
            by_action: It is gone only at the end of an action, which the answer names.

        Raises:
            ProviderError: It was refused, or no such action is named.
        """
        try:
            answer = self._request("DELETE", path)
        except GoneError:
            return {}
        return {"action": answer["action"]} if by_action else answer

    def act(self, path: str, body: Mapping[str, Any] | None = None) -> None:
        """POST an action and wait for it."""
        answer = self.post(path, body)
        self.wait(answer if "actions" in answer else {"action": answer["action"]})

    def wait(self, *answers: Mapping[str, Any], timeout: float = _DEFAULT_TIMEOUT) -> None:
        """Wait for all actions in answers (``action``, ``actions``, ``next_actions``).

        Raises:
            ProviderError: One failed, or they take too long.
        """
        actions = [action for answer in answers for action in _actions(answer)]
        deadline = time.monotonic() + timeout
        attempt = 0
        while True:
            for action in actions:
                if action["status"] == "error":
                    error = action.get("error") or {}
                    raise ApiError(
                        error.get("code", "error"),
                        error.get("message", "failed"),
                        f"action {action['command']}",
                    )
            running = [action["id"] for action in actions if action["status"] == "running"]
            if not running:
                return
            if time.monotonic() > deadline:
                raise ProviderError(f"the actions {running} have not finished within {timeout:g} s")
            self._sleep(self._interval(attempt))
            attempt += 1
            actions = self._poll(running)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Writing]:
        """Watches what this thread's calls do within the block."""
        self._clients.writing = writing = Writing()
        try:
            yield writing
        finally:
            self._clients.writing = Writing()

    def settle(self, path: str, timeout: float = _DEFAULT_TIMEOUT) -> None:
        """Wait until no action of a resource runs, whoever began it: what comes of one shows only at its end.

        Args:
            path: Of the resource.
            timeout: Seconds.

        Raises:
            ProviderError: They take too long.
        """
        deadline = time.monotonic() + timeout
        attempt = 0
        while running := self.get(f"{path}/actions", status="running")["actions"]:
            if time.monotonic() > deadline:
                names = ", ".join(action["command"] for action in running)
                raise ProviderError(f"{path}: {names} not finished within {timeout:g} s")
            self._sleep(self._interval(attempt))
            attempt += 1

    def retry(self, work: Callable[[], Result], codes: Iterable[str], attempts: int) -> Result:
        """Repeat a call while it fails with one of these codes, once a second."""
        allowed = set(codes)
        for _ in range(attempts - 1):
            try:
                return work()
            except ApiError as error:
                if error.code not in allowed:
                    raise
                self._sleep(1.0)
        return work()

    def find_by_name(self, collection: str, name: str) -> dict[str, Any] | None:
        """The resource of a collection with this unique name."""
        return next(iter(self.get(f"/{collection}", name=name)[collection]), None)

    def _interval(self, attempt: int) -> float:
        factor = 2**attempt if self._settings.exponential else 1
        return min(self._settings.poll_interval * factor, _LONGEST_WAIT)

    def _poll(self, ids: list[int]) -> list[dict[str, Any]]:
        found = self.get("/actions", id=ids, page=1, sort=["status", "id"])["actions"]
        missing = set(ids) - {action["id"] for action in found}
        if missing:
            raise ProviderError(f"actions not found: {sorted(missing)}")
        return found

    def _request(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        import requests  # noqa: PLC0415  slow to load; a run without changes never calls
        from hcloud import APIException, Client  # noqa: PLC0415

        client = getattr(self._clients, "client", None)
        if client is None:
            client = self._clients.client = Client(
                token=self._settings.token,
                api_endpoint=self._settings.endpoint,
                application_name="ccm-from-scratch-plugin",
                timeout=_REQUEST_TIMEOUT,
            )
        what = f"{method} {path}"
        try:
            found = client.request(method, path, **arguments)
            answer = Answer(what, found) if isinstance(found, dict) else None
        except APIException as error:
            kind = GoneError if error.code == "not_found" else ApiError
            told = kind(str(error.code), _message(error), what)
            if not told.is_refusal:
                self._note(method)
            raise told from error
        except requests.RequestException as error:
            if _was_sent(error):
                self._note(method)
            raise ProviderError(
                f"the Hetzner Cloud API at {self._settings.endpoint} can't be reached "
                f"({type(error).__name__}). "
                "Is the sandbox running, is HCLOUD_ENDPOINT right?"
            ) from error
        except (KeyError, TypeError, RecursionError) as error:
            # an answer with a status of failure and no error of the API's, or one that is nested without end
            self._note(method)
            raise ProviderError(f"{what}: {_STRANGE}") from error
        self._note(method)
        if answer is None:
            raise ProviderError(f"{what}: {_STRANGE}")
        return answer

    def _note(self, method: str) -> None:
        """A call that was not refused."""
        writing = getattr(self._clients, "writing", None)
        if writing is not None and method != "GET":
            writing.done = True


def _was_sent(error: Exception) -> bool:
    """Whether a request without an answer may have reached anybody: not where there was no connection."""
    from urllib3.exceptions import ConnectTimeoutError, NewConnectionError  # noqa: PLC0415  with requests

    reason = getattr(error.args[0], "reason", None) if error.args else None
    return not isinstance(reason, ConnectTimeoutError | NewConnectionError)


def _checked(what: str, value: Any) -> Any:
    if isinstance(value, dict):
        return Answer(what, value)
    return [_checked(what, part) for part in value] if isinstance(value, list) else value


def _actions(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    single = [answer["action"]] if answer.get("action") else []
    return [*single, *(answer.get("actions") or ()), *(answer.get("next_actions") or ())]


def _message(error: Any) -> str:
    fields = (error.details or {}).get("fields") if isinstance(error.details, dict) else None
    if not fields:
        return str(error.message)
    told = [f"{item['name']}: {', '.join(item.get('messages', []))}" for item in fields]
    return f"{error.message} [{'; '.join(told)}]"
