"""The log of all API requests, with counts by operation."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

MOST_COUNTED = 1000
"""Operations counted by themselves: what is none goes by its path, and clients can ask for any."""
OTHERS = "others"
LONGEST = 1000
"""Characters that are kept of each text that a client chooses: all of what means something."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """One answered request; no bodies and no tokens are kept.

    ``at`` is Unix time, ``seconds`` the time that the answer took, ``status`` 0 when it was dropped.
    """

    at: float
    project: str
    operation: str
    method: str
    path: str
    query: str
    status: int
    code: str
    seconds: float
    user_agent: str
    correlation_id: str


class RequestLog:
    """The latest requests, and counts of all of them by operation; beyond :data:`MOST_COUNTED` as others.

    Args:
        size: How many requests are kept; counts go on.
    """

    def __init__(self, size: int) -> None:
        self._entries: deque[Request] = deque(maxlen=size)
        self.counts: Counter[str] = Counter()
        self.total = 0

    def add(self, request: Request) -> None:
        """Keep a request, without the rest of texts that are longer than :data:`LONGEST`."""
        if longer := {
            name: text[:LONGEST]
            for name in ("operation", "method", "path", "query", "user_agent")
            if len(text := getattr(request, name)) > LONGEST
        }:
            request = msgspec.structs.replace(request, **longer)
        self._entries.append(request)
        known = request.operation in self.counts or len(self.counts) < MOST_COUNTED
        self.counts[request.operation if known else OTHERS] += 1
        self.total += 1

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self.counts.clear()
        self.total = 0

    def select(self, wanted: Callable[[Request], bool]) -> Iterator[Request]:
        """The kept requests that a predicate wants, oldest first."""
        return (request for request in self._entries if wanted(request))

    def latest(self, number: int, wanted: Callable[[Request], bool]) -> list[dict[str, Any]]:
        """The latest of the wanted requests, newest first."""
        chosen = list(self.select(wanted))[-number:] if number else []
        return [msgspec.structs.asdict(request) for request in reversed(chosen)]
