"""Where traces hook in: one span for each reconcile, and below it one for each request that it makes.

Nothing of OpenTelemetry is imported here. Without a tracer no reconcile passes through this module, and a
request looks once whether there is a span.
"""

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol


class Span(Protocol):
    """One reconcile that is going on."""

    def outcome(self, text: str) -> None:
        """How it ends, in a word; ``failed`` and the error's class are recorded without it."""
        ...

    def request(self, method: str, template: str, status: int, seconds: float, error: str = "") -> None:
        """A request of it has just ended; a ``status`` of 0 is no answer, an empty ``error`` is none."""
        ...


class Tracer(Protocol):
    """Makes spans."""

    def reconcile(self, queue: str, key: str) -> AbstractContextManager[Span]:
        """The span of the reconcile of a queue's key, which is :data:`current` while the block runs."""
        ...


current: ContextVar[Span | None] = ContextVar("span", default=None)
"""The current reconcile, if it is traced."""


def kubernetes_template(path: str) -> str:
    """A path of Kubernetes' API without names.

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
