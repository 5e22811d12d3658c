"""Kubernetes Events, which users read with kubectl.

Events must never block controllers: ``event`` adds a note to a short queue, and ``run`` sends the notes. If a
note can't be sent, ``run`` logs and drops it. Repeated events are aggregated as in client-go:

- a repeated message increases the count of the existing Event;
- after ten different messages with one reason about one object within ten minutes, further messages increase
  the count of one Event that begins with "(combined from similar events)";
- the number of events of one component about one object is limited (25 events, then one in five minutes).
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, Protocol, TypeVar

import structlog

from ccm.clock import loop_time
from ccm.kube.backoff import TokenBucket
from ccm.kube.errors import (
    AlreadyExists,
    ConnectionFailed,
    KubernetesError,
    NotFound,
    ServerError,
    TooManyRequests,
)
from ccm.kube.objects import Event, EventSource, ObjectMeta, ObjectReference, to_wire
from ccm.kube.protocol import Transport

_QUEUE = 1000
_TRIES = 6
_PAUSE = 10.0
_MESSAGE_LIMIT = 1024
_NAME_LIMIT = 253  # characters of a DNS subdomain

log = structlog.stdlib.get_logger(__name__)


class Recorder(Protocol):
    """Accepts Events; the only interface that controllers need."""

    def event(self, reference: ObjectReference, type: EventType, reason: str, message: str) -> None:  # noqa: A002
        """Report that something happened to an object; never waits, never raises.

        ``reason`` is one word in CamelCase; ``message`` is cut at 1024 bytes, the limit of the API server.
        """
        ...


class EventRecorder:
    """Records Events for one component.

    ``redact`` removes secrets from messages. Recorders from ``for_component`` share one ``outbox``.
    """

    def __init__(
        self,
        transport: Transport,
        component: str,
        *,
        host: str = "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        redact: Callable[[str], str] = str,
    ) -> None:
        self.component = component
        self._now = now
        self._redact = redact
        self.outbox = Outbox(transport, host)

    def for_component(self, component: str) -> EventRecorder:
        """Create a recorder for another component that shares the queue of this recorder."""
        other = copy.copy(self)
        other.component = component
        return other

    def event(self, reference: ObjectReference, type: EventType, reason: str, message: str) -> None:  # noqa: A002
        """See :meth:`Recorder.event`."""
        text = self._redact(message)[:_MESSAGE_LIMIT]
        text = text.encode(errors="replace")[:_MESSAGE_LIMIT].decode(errors="ignore")
        level = log.warning if type == "Warning" else log.info
        level("event", object=reference.name, kind=reference.kind, type=type, reason=reason, message=text)
        self.outbox.put(Note(self.component, reference, type, reason, text, self._now()))


@dataclass(slots=True)
class _Sent:
    """The path and the count of an existing Event."""

    path: str
    count: int


class Outbox:
    """The queue of notes, and a cache of existing Events."""

    def __init__(self, transport: Transport, host: str) -> None:
        self._transport = transport
        self._host = host
        self._notes: deque[Note] = deque(maxlen=_QUEUE)
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._correlator = Correlator()
        self._sent: OrderedDict[Hashable, _Sent] = OrderedDict()
        self._last_stamp = 0

    def put(self, note: Note) -> None:
        """Add a note. If the queue is full, the oldest note is dropped."""
        if len(self._notes) == _QUEUE:
            log.warning("event_dropped", why="too many events wait", reason=self._notes[0].reason)
        self._notes.append(note)
        self._idle.clear()
        self._arrived.set()

    async def run(self) -> None:
        """Send notes until cancelled."""
        while True:
            await self._arrived.wait()
            while self._notes:
                note = self._notes.popleft()
                try:
                    await self._send(note)
                except KubernetesError as error:
                    log.warning(
                        "event_dropped", why=str(error), reason=note.reason, object=note.reference.name
                    )
                except Exception:
                    # An error with this note must not affect later notes.
                    log.exception("event_dropped", reason=note.reason, object=note.reference.name)
            self._arrived.clear()
            self._idle.set()

    async def flush(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds, while ``run`` is running; returns whether all notes are sent."""
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def _send(self, note: Note) -> None:
        correlated = self._correlator.correlate(note, loop_time())
        if correlated is None:
            log.debug("event_muted", reason=note.reason, object=note.reference.name)
            return
        note, key = correlated
        sent = self._sent.get(key)
        if sent is None or not await self._count_up(sent, note):
            remember(self._sent, key, await self._create(note))

    async def _create(self, note: Note) -> _Sent:
        # Names contain the time, so two events at the same time need different timestamps.
        self._last_stamp = max(self._last_stamp + 1, int(note.at.timestamp() * 1_000_000) * 1000)
        event = new_event(note, self._host, self._last_stamp)
        path = f"/api/v1/namespaces/{event.metadata.namespace}/events"
        try:
            await _patiently(lambda: self._transport.create(path, to_wire(event), Event))
        except AlreadyExists:
            # An earlier attempt created the Event, but its response was lost.
            log.debug("event_exists", name=event.metadata.name)
        return _Sent(f"{path}/{event.metadata.name}", 1)

    async def _count_up(self, sent: _Sent, note: Note) -> bool:
        """Increase the count. Returns False if the API server has deleted the Event, after an hour."""
        body = {"count": sent.count + 1, "lastTimestamp": timestamp(note.at), "message": note.message}
        try:
            await _patiently(lambda: self._transport.patch(sent.path, body, Event))
        except NotFound:
            return False
        sent.count += 1
        return True


def new_event(note: Note, host: str, nanoseconds: int) -> Event:
    """The Event object for a note. Its name is the (cut) name of the object, and the time in hexadecimal
    nanoseconds.
    """
    stamp, suffix = timestamp(note.at), f".{nanoseconds:x}"
    # A label of a name can't end with these characters, and a Node's name may have the maximum length.
    name = note.reference.name[: _NAME_LIMIT - len(suffix)].rstrip(".-")
    return Event(
        metadata=ObjectMeta(name=name + suffix, namespace=note.reference.namespace or "default"),
        involved_object=note.reference,
        reason=note.reason,
        message=note.message,
        source=EventSource(component=note.component, host=host),
        first_timestamp=stamp,
        last_timestamp=stamp,
        count=1,
        type=note.type,
        reporting_component=note.component,
    )


def timestamp(at: datetime) -> str:
    """RFC 3339 with whole seconds, as Kubernetes writes metav1.Time."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _patiently(call: Callable[[], Awaitable[object]]) -> None:
    for attempt in range(_TRIES):
        try:
            await call()
        except (ConnectionFailed, ServerError, TooManyRequests) as error:
            if attempt == _TRIES - 1:
                raise
            await asyncio.sleep(error.retry_after or _PAUSE)
        else:
            return


EventType = Literal["Normal", "Warning"]
_SIMILAR_MESSAGES = 10
_SIMILAR_WINDOW = 600.0
_BURST = 25
_RATE = 1 / 300
_REMEMBERED = 4096

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Note:
    """One reported event, before the aggregation."""

    component: str
    reference: ObjectReference
    type: EventType
    reason: str
    message: str
    at: datetime

    @property
    def about(self) -> Hashable:
        """The component and the object."""
        return (self.component, self.reference.kind, self.reference.uid, self.reference.name)


@dataclass(slots=True)
class _Similar:
    since: float
    # Digests, because there are ten for each of 4,096 subjects, and messages can have 1 KiB.
    messages: set[bytes] = field(default_factory=set[bytes])


class Correlator:
    """Decides for each note whether to send it, and to which Event it belongs."""

    def __init__(self) -> None:
        self._similar: OrderedDict[Hashable, _Similar] = OrderedDict()
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()

    def correlate(self, note: Note, now: float) -> tuple[Note, Hashable] | None:
        """Return the Event to send and its key, or None if it's muted; equal keys increase the count."""
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
            return note, (subject, message)
        folded = replace(note, message=f"(combined from similar events): {note.message}")
        return folded, (subject, None)


def remember(memory: OrderedDict[Hashable, V], key: Hashable, value: V, *, most: int = _REMEMBERED) -> V:
    """Store and return a value; removes the oldest value if there are too many."""
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > most:
        memory.popitem(last=False)
    return value
