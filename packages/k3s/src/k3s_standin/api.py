"""A small client of the Kubernetes API on the standard library: 3 ms per request, where kubectl takes 150."""

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ccm.kube.nesting import shallow

TIMEOUT_SECONDS = 10.0
PROBE_SECONDS = 5.0
STREAM_SECONDS = 60.0
WATCH_SECONDS = 300
"""The time in seconds after which the API server ends a watch."""

_UNREADABLE = (ValueError, RecursionError)
"""Errors for a response that isn't JSON, or whose JSON is nested too deeply."""


class ApiError(Exception):
    """The API server returned an error, or could not be reached.

    Attributes:
        status: HTTP status; 0 without a response.
    """

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


def decoded(text: bytes) -> Any:
    """Decode JSON. Values that are nested more deeply than Python can decode are cut off.

    Bytes that aren't UTF-8 are replaced: the API server accepts any bytes in metadata.managedFields.
    ValueError is for other text than JSON, RecursionError for what the API server doesn't accept either.
    """
    # One tenant's object must not hide all others of its list.
    try:
        return json.loads(text.decode(errors="replace"))
    except RecursionError:
        return json.loads(shallow(text).decode(errors="replace"))


class ApiClient:
    """Requests with a client certificate; a new connection for each, so it may be used from any thread."""

    def __init__(
        self, url: str, authority: Path, certificate: Path, key: Path, seconds: float = TIMEOUT_SECONDS
    ) -> None:
        """Stores the settings; ``seconds`` is the timeout of a request."""
        self.headers: dict[str, str] = {}
        self._seconds = seconds
        self._address = urlsplit(url)
        self._context = ssl.create_default_context(cafile=str(authority))
        self._context.load_cert_chain(certificate, key)

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Any:
        """Send a request and decode the response."""
        status, content = self._send(method, path, body, content_type, self._seconds)
        if status >= 400:
            raise ApiError(status, f"{method} {path}: {status} {content[:300].decode(errors='replace')}")
        try:
            return decoded(content)
        except _UNREADABLE as error:
            raise ApiError(0, f"{method} {path}: {error}") from error

    def is_up(self, path: str = "/readyz") -> bool:
        """Whether a health endpoint returns 200."""
        try:
            return self._send("GET", path, None, "", PROBE_SECONDS)[0] == 200
        except ApiError:
            return False

    def get(self, path: str) -> Any:
        """An object, or None if it doesn't exist."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def delete(self, path: str) -> None:
        """Delete an object; a missing one is fine."""
        try:
            self.request("DELETE", path)
        except ApiError as error:
            if error.status != 404:
                raise

    def apply(self, path: str, body: Any) -> Any:
        """Create or change an object by server-side apply, as the field manager ``k3s``."""
        return self.request(
            "PATCH", f"{path}?fieldManager=k3s&force=true", body, "application/apply-patch+yaml"
        )

    def merge(self, path: str, body: Any) -> Any:
        """Change fields of an object."""
        return self.request("PATCH", path, body, "application/merge-patch+json")

    def watch(self, path: str, version: str) -> Iterator[Any]:
        """The events of a collection after a resource version; the server ends the watch after 5 minutes.

        Errors after the beginning of the response are events of type ``ERROR``.
        """
        query = f"watch=1&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
        return self._lines("GET", f"{path}?{query}", None, WATCH_SECONDS + TIMEOUT_SECONDS)

    def stream(self, method: str, path: str, body: Any) -> Iterator[Any]:
        """The objects of a response that has one per line."""
        return self._lines(method, path, body, STREAM_SECONDS)

    def _lines(self, method: str, path: str, body: Any, timeout: float) -> Iterator[Any]:
        """The objects of a response that has one per line; sends the request when the first is read."""
        with self._response(method, path, body, "application/json", timeout) as answer:
            if answer.status >= 400:
                raise ApiError(answer.status, f"{method} {path}: {answer.status}")
            while line := answer.readline():
                yield decoded(line)

    def _send(
        self, method: str, path: str, body: Any, content_type: str, timeout: float
    ) -> tuple[int, bytes]:
        with self._response(method, path, body, content_type, timeout) as answer:
            return answer.status, answer.read()

    @contextmanager
    def _response(
        self, method: str, path: str, body: Any, content_type: str, timeout: float
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request; errors while its response is read become ApiErrors."""
        content = None if body is None else json.dumps(body).encode()
        headers = {**self.headers, **({"Content-Type": content_type} if content else {})}
        connection = http.client.HTTPSConnection(
            self._address.hostname or "", self._address.port, timeout=timeout, context=self._context
        )
        try:
            connection.request(method, path, content, headers)
            yield connection.getresponse()
        except (OSError, *_UNREADABLE, http.client.HTTPException) as error:
            raise ApiError(0, f"{method} {path}: {error}") from error
        finally:
            connection.close()
