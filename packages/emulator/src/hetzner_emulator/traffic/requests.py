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
MOST_BYTES = 64 * 1024 * 1024
"""Memory that the texts of all kept requests take: several times what the texts of ordinary ones do."""
_CHOSEN = ("operation", "method", "path", "query", "user_agent")


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
        size: How many requests are kept, unless their texts take more than ``most_bytes``; counts go on.
        most_bytes: Memory for the texts that clients chose; at least those of the latest request are kept.
    """

    def __init__(self, size: int, most_bytes: int = MOST_BYTES) -> None:
        self._entries: deque[Request] = deque()
        self._size, self._most_bytes = size, most_bytes
        self._bytes = 0
        self.counts: Counter[str] = Counter()
        self.total = 0

    def add(self, request: Request) -> None:
        """Keep a request; of texts that a client chose what is text, and no more than :data:`LONGEST`."""
        chosen = {name: getattr(request, name) for name in _CHOSEN}
        if changed := {name: kept for name, text in chosen.items() if (kept := _kept(text)) != text}:
            request = msgspec.structs.replace(request, **changed)
        self._entries.append(request)
        self._bytes += _memory(request)
        while len(self._entries) > self._size or (self._bytes > self._most_bytes and len(self._entries) > 1):
            self._bytes -= _memory(self._entries.popleft())
        known = request.operation in self.counts or len(self.counts) < MOST_COUNTED
        self.counts[request.operation if known else OTHERS] += 1
        self.total += 1

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._bytes = 0
        self.counts.clear()
        self.total = 0

    def select(self, wanted: Callable[[Request], bool]) -> Iterator[Request]:
        """The kept requests that a predicate wants, oldest first."""
        return (request for request in self._entries if wanted(request))

    def latest(self, number: int, wanted: Callable[[Request], bool]) -> list[dict[str, Any]]:
        """The latest of the wanted requests, newest first."""
        chosen = list(self.select(wanted))[-number:] if number else []
        return [msgspec.structs.asdict(request) for request in reversed(chosen)]


def _kept(text: str) -> str:
    """What is kept of a text; each byte of a header that was none is a lone surrogate, and kept as ``?``."""
    kept = text[:LONGEST]
    return kept if kept.isascii() else kept.encode("utf-8", "replace").decode()


def _memory(request: Request) -> int:
    """Bytes of what a client chose, at most; ``sys.getsizeof`` is another when a text has been encoded."""
    texts = (getattr(request, name) for name in _CHOSEN)
    return sum(len(text) * (1 if text.isascii() else 4) for text in texts)
