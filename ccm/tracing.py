"""The interface for traces: a span for each reconcile, and below it a span for each of its requests.

This module doesn't import OpenTelemetry. Without a tracer, a reconcile doesn't use this module, and a request
only checks whether a span exists.
"""

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol


class Span(Protocol):
    """The span of a running reconcile."""

    def outcome(self, text: str) -> None:
        """Record the result as one word. The tracer itself records ``failed`` and the error's class."""
        ...

    def request(self, method: str, template: str, status: int, seconds: float, error: str = "") -> None:
        """Record a request that just ended. ``status`` 0 = no response; an empty ``error`` = success."""
        ...


class Tracer(Protocol):
    """Makes spans."""

    def reconcile(self, queue: str, key: str) -> AbstractContextManager[Span]:
        """The span for a reconcile of a key from a queue; it is :data:`current` while the block runs."""
        ...


current: ContextVar[Span | None] = ContextVar("span", default=None)
"""The current reconcile, if it is traced."""


def kubernetes_template(path: str) -> str:
    """A path of Kubernetes' API, with placeholders instead of names.

    >>> kubernetes_template("/api/v1/namespaces/shop/services/web/status")
    '/api/v1/namespaces/{namespace}/services/{name}/status'
    """
    parts = path.split("/")
    # after /api/VERSION or /apis/GROUP/VERSION
    place = 3 if parts[1] == "api" else 4
    if parts[place : place + 1] == ["namespaces"] and len(parts) > place + 2:
        parts[place + 1] = "{namespace}"
        place += 2
    if len(parts) > place + 1:
        parts[place + 1] = "{name}"
    return "/".join(parts)
