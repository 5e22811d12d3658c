"""Calls of the Hetzner Cloud API, and waiting for its actions as hcloud-go does."""

import itertools
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ccm.go import parse_duration
from pulumi_plugins.base import refuse_others, was_sent
from pulumi_plugins.errors import ProviderError, ResourceNotFoundError

Result = TypeVar("Result")
_ACTION_TIMEOUT = 1200.0  # as terraform's default
_REQUEST_TIMEOUT = 60.0
_LONGEST_WAIT = 60.0
_STRANGE = "the response isn't a response of the Hetzner Cloud API. Check HCLOUD_ENDPOINT"
_FAILURE = re.compile("server_error|service_error|unavailable|timeout|bad_gateway|5[0-9]{2}")
"""Error codes for failures of the API or of a proxy. All other codes mean that the API rejected the
request."""
_PASSING = ("conflict", "locked", "service_error", "no_subnet_available", "resource_in_use")
"""Error codes of temporary errors."""
_ATTEMPTS = 10  # a second apart


class ApiError(ProviderError):
    """The API refused a call or failed."""

    def __init__(self, code: str, message: str, what: str) -> None:
        super().__init__(f"{what}: {message} ({code})")
        self.code = code


class GoneError(ApiError, ResourceNotFoundError):
    """The API answers not_found. A bare 404 isn't one: it may also be a wrong address or a proxy."""


class UnclearError(ProviderError):
    """A call failed after it may have changed something."""


class FailedError(ApiError, UnclearError):
    """The API failed."""


class Answer(dict[str, Any]):
    """An object of an answer; a missing field is a clear error."""

    def __init__(self, what: str, fields: Mapping[str, Any]) -> None:
        super().__init__({key: _checked(what, value) for key, value in fields.items()})
        self._what = what

    def __missing__(self, key: str) -> Any:
        raise UnclearError(f"{self._what}: the response has no field '{key}': {_STRANGE}")


class Api:
    """The Hetzner Cloud API of one project. Thread-safe; loads its client at the first call.

    ``pause`` is the seconds before an action is read again the first time; with ``exponential`` it doubles
    each time.
    """

    def __init__(
        self,
        token: str,
        endpoint: str,
        pause: float = 0.5,
        *,
        exponential: bool = True,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._token, self._endpoint = token, endpoint.rstrip("/")
        self._pause, self._exponential, self._sleep = pause, exponential, sleep
        self._clients = threading.local()

    def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        """GET; parameters can be lists."""
        return self._request("GET", path, params=parameters or None)

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """POST or PUT."""
        return self._request(method, path, json=dict(body))

    def delete(self, path: str, *, by_action: bool = False) -> dict[str, Any]:
        """DELETE; a missing object is fine. ``by_action``: it is gone only at the end of an action."""
        try:
            answer = self._request("DELETE", path)
        except GoneError:
            return {}
        return {"action": answer["action"]} if by_action else answer

    def act(self, path: str, body: Mapping[str, Any] | None = None) -> None:
        """POST an action and wait for it."""
        answer = self.send("POST", path, body or {})
        self.wait(answer if "actions" in answer else {"action": answer["action"]})

    def wait(self, answer: Mapping[str, Any]) -> None:
        """Wait for all actions of an answer; a ProviderError if one fails or takes too long."""
        single = [answer["action"]] if answer.get("action") else []
        actions = [*single, *(answer.get("actions") or ()), *(answer.get("next_actions") or ())]
        self._wait(actions, self._listed)

    def settle(self, path: str) -> None:
        """Wait until no action of a resource runs, because effects show only at the end."""

        def running(_ids: list[int]) -> list[dict[str, Any]]:
            return self.get(f"{path}/actions", status="running")["actions"]

        self._wait(running([]), running)

    def retry(self, work: Callable[[], Result]) -> Result:
        """Repeat a call while it fails with the code of a temporary error."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return work()
            except ApiError as error:
                if error.code not in _PASSING:
                    raise
                self._sleep(1.0)
        return work()

    def _wait(self, actions: list[dict[str, Any]], look: Callable[[list[int]], list[dict[str, Any]]]) -> None:
        deadline = time.monotonic() + _ACTION_TIMEOUT
        for attempt in itertools.count():
            for action in actions:
                if action["status"] == "error":
                    error = action.get("error") or {}
                    code, message = error.get("code", "error"), error.get("message", "failed")
                    raise ApiError(code, message, f"action {action['command']}")
            running = {action["id"]: action["command"] for action in actions if action["status"] == "running"}
            if not running:
                return
            if time.monotonic() > deadline:
                names = ", ".join(running.values())
                raise ProviderError(f"these actions did not finish within {_ACTION_TIMEOUT:g} s: {names}")
            factor = 2**attempt if self._exponential else 1
            self._sleep(min(self._pause * factor, _LONGEST_WAIT))
            actions = look(list(running))

    def _listed(self, ids: list[int]) -> list[dict[str, Any]]:
        found = self.get("/actions", id=ids, page=1, sort=["status", "id"])["actions"]
        if missing := set(ids) - {action["id"] for action in found}:
            raise ProviderError(f"actions not found: {sorted(missing)}")
        return found

    def _request(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        import requests  # noqa: PLC0415  slow to load, and ./dev needs none of it
        from hcloud import APIException, Client  # noqa: PLC0415

        client = getattr(self._clients, "client", None)
        if client is None:
            client = self._clients.client = Client(
                token=self._token,
                api_endpoint=self._endpoint,
                application_name="ccm-from-scratch-plugin",
                timeout=_REQUEST_TIMEOUT,
            )
        what = f"{method} {path}"
        try:
            found = client.request(method, path, **arguments)
            answer = Answer(what, found) if isinstance(found, dict) else None
        except APIException as error:
            code = str(error.code)
            failed = FailedError if _FAILURE.fullmatch(code) else ApiError
            kind = GoneError if code == "not_found" else failed
            raise kind(code, _message(error), what) from error
        except requests.RequestException as error:
            reason = getattr(error.args[0], "reason", None) if error.args else None
            lost = UnclearError if was_sent(reason) else ProviderError
            raise lost(
                f"the Hetzner Cloud API at {self._endpoint} can't be reached "
                f"({type(error).__name__}). "
                "Check that the sandbox runs, and check HCLOUD_ENDPOINT"
            ) from error
        except (KeyError, TypeError, RecursionError) as error:
            # a failure without an error of the API, or an endlessly nested answer
            raise UnclearError(f"{what}: {_STRANGE}") from error
        if answer is None:
            raise UnclearError(f"{what}: {_STRANGE}")
        return answer


def api_from(config: Mapping[str, Any], environment: Mapping[str, str]) -> Api:
    """The API that a configuration names, with defaults from the environment; raises ProviderError."""

    def setting(key: str, variable: str, default: str = "") -> str:
        return str(config.get(key) or environment.get(variable) or default)

    token = setting("token", "HCLOUD_TOKEN")
    if not token:
        raise ProviderError(
            "no Hetzner Cloud token: set HCLOUD_TOKEN or the configuration value 'hcloud:token'"
        )
    if len(token) != 64:
        raise ProviderError(
            f"the Hetzner Cloud token has {len(token)} characters, but a token must have exactly 64 "
            "characters"
        )
    function = setting("pollFunction", "HCLOUD_POLL_FUNCTION", "exponential")
    if function not in ("constant", "exponential"):
        raise ProviderError(
            f"hcloud:pollFunction: '{function}' is not allowed. Allowed values: constant, exponential"
        )
    interval = setting("pollInterval", "HCLOUD_POLL_INTERVAL", "500ms")
    try:
        pause = parse_duration(interval)
    except ValueError:
        raise ProviderError(
            f"hcloud:pollInterval: '{interval}' is not a duration (like 500ms or 5s)"
        ) from None
    endpoint = setting("endpoint", "HCLOUD_ENDPOINT", "https://api.hetzner.cloud/v1")
    refuse_others("hcloud", endpoint)
    return Api(token, endpoint, pause, exponential=function == "exponential")


def _checked(what: str, value: Any) -> Any:
    if isinstance(value, dict):
        return Answer(what, value)
    return [_checked(what, part) for part in value] if isinstance(value, list) else value


def _message(error: Any) -> str:
    fields = (error.details or {}).get("fields") if isinstance(error.details, dict) else None
    if not fields:
        return str(error.message)
    parts = [f"{item['name']}: {', '.join(item.get('messages', []))}" for item in fields]
    return f"{error.message} [{'; '.join(parts)}]"
