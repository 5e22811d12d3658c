"""Calls to a Kubernetes API server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from ccm.kube.nesting import shallow
from sandbox.engine.errors import (
    ClusterUnreachableError,
    ProviderError,
    ResourceNotFoundError,
    UnclearError,
)
from sandbox.engine.providers.kubernetes.kinds import BUILTIN, ApiResource
from sandbox.engine.providers.kubernetes.kubeconfig import open_client

_TIMEOUT = (5.0, 60.0)  # seconds to connect and to read
_DISCOVERY_SECONDS = 15.0  # a definition that was just made takes a moment to be served
_STRANGE = "this is no answer of a Kubernetes API server"
_RETRY_SECONDS = 10.0  # a new API server refuses connections for a moment
_SILENT_SECONDS = 5.0  # so long, what was found unreachable is not asked again for the next object


class KubernetesError(ProviderError):
    """The API server refused a call."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message or f"{status} {reason}")
        self.status = status
        self.reason = reason


class KubernetesNotFoundError(KubernetesError, ResourceNotFoundError):
    """404."""


class Cluster:
    """One API server. Thread-safe; connects at the first call.

    Args:
        config: The provider's configuration.
        environment: Environment variables.
        sleep: Waits so many seconds.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        environment: Mapping[str, str],
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._environment = environment
        self._sleep = sleep
        self._clock = clock
        self._lock = threading.Lock()
        self._client: Any = None
        self._known = dict(BUILTIN)
        self._unreachable: tuple[float, ClusterUnreachableError] | None = None

    def resource(self, version: str, kind: str) -> ApiResource:
        """Where a kind is served; asks the API server for kinds that not every cluster has.

        Raises:
            ProviderError: The cluster does not know the kind.
        """
        deadline = self._clock() + _DISCOVERY_SECONDS
        while (version, kind) not in self._known:
            self._discover(version)
            if (version, kind) in self._known:
                break
            if self._clock() > deadline:
                raise ProviderError(
                    f"the cluster has no kind '{kind}' in '{version}': is its definition installed?"
                )
            self._sleep(0.5)
        return self._known[version, kind]

    def get(self, path: str) -> dict[str, Any]:
        """GET an object or a list."""
        return self._request("GET", path)

    def create(self, path: str, body: Mapping[str, Any], manager: str) -> dict[str, Any]:
        """POST an object, once: who repeats it is told of the first one that the object exists.

        Raises:
            UnclearError: Nobody knows whether it was made: the answer was lost, or the server failed.
        """
        try:
            return self._request("POST", path, body, {"fieldManager": manager})
        except KubernetesError as error:
            if error.status < 500:
                raise
            raise UnclearError(str(error)) from error

    def apply(self, path: str, body: Mapping[str, Any], manager: str, *, force: bool) -> dict[str, Any]:
        """Server-side apply."""
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        return self._request("PATCH", path, body, query, "application/apply-patch+yaml")

    def patch(self, path: str, body: Any) -> dict[str, Any]:
        """JSON patch."""
        return self._request("PATCH", path, body, {}, "application/json-patch+json")

    def delete(self, path: str, propagation: str) -> None:
        """DELETE; what is gone already is no error."""
        try:
            self._request("DELETE", path, {"propagationPolicy": propagation})
        except KubernetesNotFoundError:
            return

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.rest_client.close()

    # --- inside

    def _discover(self, version: str) -> None:
        prefix = "/apis/" if "/" in version else "/api/"
        try:
            listed = self.get(prefix + version)
        except KubernetesNotFoundError:
            return
        for item in listed.get("resources") or ():
            if "/" not in item["name"]:
                self._known[version, item["kind"]] = ApiResource(
                    version, item["name"], bool(item["namespaced"])
                )

    def _connect(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = open_client(self._config, self._environment)
            return self._client

    def _request(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        import urllib3  # noqa: PLC0415  loaded with the client

        if self._unreachable is not None and self._clock() < self._unreachable[0]:
            raise self._unreachable[1]
        client = self._connect()
        settings = client.configuration
        url = settings.host + path + (f"?{urlencode(query)}" if query else "")
        headers = {
            "Accept": "application/json",
            "Content-Type": content_type,
            "User-Agent": "ccm-from-scratch-plugin",
        }
        for item in settings.auth_settings().values():
            if item["in"] == "header" and item["value"]:
                headers[item["key"]] = item["value"]
        content = None if body is None else json.dumps(body).encode()
        timeout = urllib3.Timeout(connect=_TIMEOUT[0], read=_TIMEOUT[1])
        deadline = self._clock() + _RETRY_SECONDS
        while True:
            try:
                answer = client.rest_client.pool_manager.request(
                    method, url, body=content, headers=headers, timeout=timeout, retries=False
                )
                break
            except (urllib3.exceptions.HTTPError, OSError) as error:
                if method == "POST" and _was_sent(error):
                    raise UnclearError(f"{method} {path}: the answer was lost: {_cause(error)}") from error
                if self._clock() > deadline or isinstance(error, urllib3.exceptions.SSLError):
                    unreachable = ClusterUnreachableError(settings.host, _cause(error))
                    self._unreachable = self._clock() + _SILENT_SECONDS, unreachable
                    raise unreachable from error
                self._sleep(0.5)
        return _decoded(answer.status, answer.data, method, path)


def _was_sent(error: BaseException) -> bool:
    """Whether a request without an answer may have reached the server: not where there was no connection."""
    from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ProxyError, SSLError  # noqa: PLC0415

    return not isinstance(error, ConnectTimeoutError | NewConnectionError | ProxyError | SSLError)


def _cause(error: BaseException) -> str:
    name = type(error).__name__
    texts = {
        "ConnectTimeoutError": "it does not answer",
        "ReadTimeoutError": "it does not answer in time",
        "NewConnectionError": "connection refused or no route",
        "SSLError": "its certificate is not the one in the kubeconfig",
    }
    return texts.get(name, f"{name}: {error}")


def _decoded(status: int, data: bytes, method: str, path: str) -> dict[str, Any]:
    try:
        # whoever may write an object puts any bytes into its metadata.managedFields, nested 10,000 times
        content = json.loads(shallow(data).decode(errors="replace")) if data else {}
    except (ValueError, RecursionError):
        content = None
    is_object = isinstance(content, dict)
    if status < 400:
        if not is_object:
            kind = UnclearError if method == "POST" else ProviderError  # something may have been made
            raise kind(f"{method} {path}: {_STRANGE}: {_beginning(data)}")
        return content
    told = content if is_object else {"message": _beginning(data)}
    message = str(told.get("message") or f"{method} {path}: HTTP status {status}")
    refusal = KubernetesNotFoundError if status == 404 else KubernetesError
    raise refusal(status, str(told.get("reason") or ""), message)


def _beginning(data: bytes) -> str:
    return data[:200].decode(errors="replace")
