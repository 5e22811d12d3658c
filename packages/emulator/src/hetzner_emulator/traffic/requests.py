"""The log of all API requests, with counts by operation."""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

MAX_COUNTED = 1000
"""Maximum number of operations that are counted separately. All other operations have one common count."""
OTHERS = "others"
MAX_TEXT = 1000
"""The log stores at most this number of characters of each text from a client."""
_FROM_CLIENT = ("operation", "method", "path", "query", "user_agent")


class Request(msgspec.Struct, frozen=True, gc=False):
    """One answered request; no bodies and no tokens are kept."""

    at: float  # Unix time
    project: str
    operation: str
    method: str
    path: str
    query: str
    status: int  # 0 if the answer was dropped
    code: str
    seconds: float  # that the answer took
    user_agent: str
    correlation_id: str


class RequestLog:
    """The latest requests, as many as ``size``, and counts of all requests by operation."""

    def __init__(self, size: int) -> None:
        self._entries: deque[Request] = deque(maxlen=size)
        self.counts: Counter[str] = Counter()
        self.total = 0

    def add(self, request: Request) -> None:
        """Store a request, with its texts in UTF-8 and cut to :data:`MAX_TEXT` characters."""
        texts = {name: getattr(request, name) for name in _FROM_CLIENT}
        if changed := {name: kept for name, text in texts.items() if (kept := _trim(text)) != text}:
            request = msgspec.structs.replace(request, **changed)
        self._entries.append(request)
        known = request.operation in self.counts or len(self.counts) < MAX_COUNTED
        self.counts[request.operation if known else OTHERS] += 1
        self.total += 1

    def clear(self) -> None:
        """Delete all requests and counts."""
        self._entries.clear()
        self.counts.clear()
        self.total = 0

    def select(self, matches: Callable[[Request], bool]) -> Iterator[Request]:
        """The stored requests that match, oldest first."""
        return filter(matches, self._entries)

    def latest(self, number: int, matches: Callable[[Request], bool]) -> list[dict[str, Any]]:
        """The latest of the requests that match, newest first."""
        chosen = list(self.select(matches))[-number:] if number else []
        return [msgspec.structs.asdict(request) for request in reversed(chosen)]


def _trim(text: str) -> str:
    """Cut a text; bytes that aren't UTF-8 arrive as lone surrogates and become ``?``."""
    kept = text[:MAX_TEXT]
    return kept if kept.isascii() else kept.encode("utf-8", "replace").decode()
