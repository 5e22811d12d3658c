"""Calls to a Kubernetes API server."""

import json
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from ccm.kube.nesting import shallow
from pulumi_plugins.base import was_sent
from pulumi_plugins.errors import ClusterUnreachableError, ProviderError, ResourceNotFoundError
from pulumi_plugins.kubernetes.kubeconfig import connect

_TIMEOUT = (5.0, 60.0)  # seconds to connect and to read
_STRANGE = "the response isn't a response of a Kubernetes API server"
_RETRY_SECONDS = 10.0  # a new API server refuses connections for a moment
_SILENT_SECONDS = 5.0  # for so long, an unreachable server isn't tried again for the next object


class KubernetesError(ProviderError):
    """The API server refused a call."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message or f"{status} {reason}")
        self.status = status
        self.reason = reason


class KubernetesNotFoundError(KubernetesError, ResourceNotFoundError):
    """404."""


class Cluster:
    """One API server. Thread-safe; connects at the first call."""

    def __init__(self, config: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._config = config
        self._environment = environment
        self._lock = threading.Lock()
        self._connection: tuple[str, dict[str, str], Any] | None = None
        self._unreachable: tuple[float, ClusterUnreachableError] | None = None

    def get(self, path: str) -> dict[str, Any]:
        """GET an object or a list."""
        return self._request("GET", path)

    def create(self, path: str, body: Mapping[str, Any], manager: str) -> dict[str, Any]:
        """POST an object, once: a second POST would be refused because of the first one's object."""
        return self._request("POST", path, body, {"fieldManager": manager})

    def apply(self, path: str, body: Mapping[str, Any], manager: str, *, force: bool) -> dict[str, Any]:
        """Server-side apply."""
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        return self._request("PATCH", path, body, query, "application/apply-patch+yaml")

    def patch(self, path: str, body: Any) -> dict[str, Any]:
        """JSON patch."""
        return self._request("PATCH", path, body, {}, "application/json-patch+json")

    def delete(self, path: str, propagation: str) -> None:
        """DELETE; a missing object is fine."""
        try:
            self._request("DELETE", path, {"propagationPolicy": propagation})
        except KubernetesNotFoundError:
            return

    def _request(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        import urllib3  # noqa: PLC0415  slow to load, and ./dev needs none of it

        if self._unreachable is not None and time.monotonic() < self._unreachable[0]:
            raise self._unreachable[1]
        with self._lock:
            self._connection = self._connection or connect(self._config, self._environment)
        server, more, pool = self._connection
        url = server.rstrip("/") + path + (f"?{urlencode(query)}" if query else "")
        headers = {
            "Accept": "application/json",
            "Content-Type": content_type,
            "User-Agent": "ccm-from-scratch-plugin",
            **more,
        }
        content = None if body is None else json.dumps(body).encode()
        timeout = urllib3.Timeout(connect=_TIMEOUT[0], read=_TIMEOUT[1])
        deadline = time.monotonic() + _RETRY_SECONDS
        while True:
            try:
                answer = pool.request(
                    method, url, body=content, headers=headers, timeout=timeout, retries=False
                )
                break
            except (urllib3.exceptions.HTTPError, OSError) as error:
                if method == "POST" and was_sent(error):
                    raise ProviderError(f"{method} {path}: the response was lost: {_cause(error)}") from error
                if time.monotonic() > deadline or isinstance(error, urllib3.exceptions.SSLError):
                    unreachable = ClusterUnreachableError(server, _cause(error))
                    self._unreachable = time.monotonic() + _SILENT_SECONDS, unreachable
                    raise unreachable from error
                time.sleep(0.5)
        return _decoded(answer.status, answer.data, method, path)


def _cause(error: BaseException) -> str:
    name = type(error).__name__
    texts = {
        "ConnectTimeoutError": "it does not answer",
        "ReadTimeoutError": "the server does not answer in time",
        "NewConnectionError": "connection refused or no route",
        "SSLError": "the certificate authority in the kubeconfig didn't issue the server's certificate",
    }
    return texts.get(name, f"{name}: {error}")


def _decoded(status: int, data: bytes, method: str, path: str) -> dict[str, Any]:
    try:
        # metadata.managedFields may have any bytes, nested 10,000 times
        content = json.loads(shallow(data).decode(errors="replace")) if data else {}
    except (ValueError, RecursionError):
        content = None
    if status < 400 and isinstance(content, dict):
        return content
    beginning = data[:200].decode(errors="replace")
    if status < 400:
        raise ProviderError(f"{method} {path}: {_STRANGE}: {beginning}")
    refused = content if isinstance(content, dict) else {"message": beginning}
    message = str(refused.get("message") or f"{method} {path}: HTTP status {status}")
    refusal = KubernetesNotFoundError if status == 404 else KubernetesError
    raise refusal(status, str(refused.get("reason") or ""), message)
