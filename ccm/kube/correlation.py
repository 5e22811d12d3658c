"""Folding repeated events, as in client-go. Pure: no network, time is an argument.

- the same message again counts up the Event that exists;
- beyond ten different messages of one reason about one object within ten minutes, they all count up one Event
  that begins with "(combined from similar events)";
- an object about which one component talks too much (25 events, then one in five minutes) is muted.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeVar

from ccm.kube.objects import ObjectReference
from ccm.kube.ratelimit import TokenBucket

EventType = Literal["Normal", "Warning"]
_SIMILAR_MESSAGES = 10
_SIMILAR_WINDOW = 600.0
_BURST = 25
_RATE = 1 / 300
_REMEMBERED = 4096

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Note:
    """One event as it was reported."""

    component: str
    reference: ObjectReference
    type: EventType
    reason: str
    message: str
    at: datetime

    @property
    def about(self) -> Hashable:
        """Who talks about what."""
        return (self.component, self.reference.kind, self.reference.uid, self.reference.name)


@dataclass(frozen=True, slots=True)
class Judged:
    """A note to send.

    Attributes:
        note: Maybe with another message than was reported.
        key: Notes with equal keys are one Event with a count.
    """

    note: Note
    key: Hashable


@dataclass(slots=True)
class _Similar:
    since: float
    # Digests: of each of 4,096 subjects there are ten, and tenants choose what a message of 1 KiB has in it.
    messages: set[bytes] = field(default_factory=set[bytes])


class Correlator:
    """Decides for each note whether it is sent and to which Event it belongs."""

    def __init__(self) -> None:
        self._similar: OrderedDict[Hashable, _Similar] = OrderedDict()
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()

    def judge(self, note: Note, now: float) -> Judged | None:
        """The note as it should be sent; None if its object is muted.

        Args:
            note: What was reported.
            now: Monotonic seconds.
        """
        bucket = self._buckets.get(note.about) or remember(
            self._buckets, note.about, TokenBucket(_RATE, _BURST)
        )
        if not bucket.take(now):
            return None
        subject = (note.about, note.type, note.reason)
        similar = self._similar.get(subject)
        if similar is None or now - similar.since > _SIMILAR_WINDOW:
            similar = remember(self._similar, subject, _Similar(now))
        message = hashlib.blake2b(note.message.encode(), digest_size=16).digest()
        if message in similar.messages or len(similar.messages) < _SIMILAR_MESSAGES:
            similar.messages.add(message)
            return Judged(note, (subject, message))
        folded = replace(note, message=f"(combined from similar events): {note.message}")
        return Judged(folded, (subject, None))


def remember(memory: OrderedDict[Hashable, V], key: Hashable, value: V, *, most: int = _REMEMBERED) -> V:
    """Store a value and forget the oldest when there are too many; return the value."""
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > most:
        memory.popitem(last=False)
    return value
