"""From bytes of the API server to pages, events and errors. Pure.

Objects are decoded one by one: one that is odd must not cost the rest of its list or its watch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, get_args

import msgspec
import structlog

from ccm.kube.errors import AnswerTooLarge, KubernetesError, class_of
from ccm.kube.objects import ObjectMeta, PartialObject, decode, wire_name
from ccm.kube.protocol import EventType, Page, WatchEvent

T = TypeVar("T")
_EVENT_TYPES: dict[str, EventType] = {name: name for name in get_args(EventType)}

log = structlog.stdlib.get_logger(__name__)


class _Wire(msgspec.Struct, frozen=True, rename=wire_name):
    """Base of what only this module sees."""


class _ListMeta(_Wire, frozen=True):
    resource_version: str = ""
    continue_: str = ""


class _RawList(_Wire, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


class _RawEvent(_Wire, frozen=True):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class _Details(_Wire, frozen=True):
    retry_after_seconds: float = 0


class _Status(_Wire, frozen=True):
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details = _Details()


def decode_page(data: bytes, kind: type[T]) -> tuple[Page[T], str]:
    """One page of a list, and the token of the next page (empty on the last one).

    Raises:
        KubernetesError: This is no list.
    """
    try:
        raw = decode(data, _RawList)
    except msgspec.DecodeError as error:
        raise KubernetesError(reason="BadAnswer", message=f"the API server sent no list: {error}") from error
    items: list[T] = []
    odd: list[ObjectMeta] = []
    for text in raw.items or ():
        try:
            items.append(decode(text, kind))
        except msgspec.DecodeError as error:
            metadata = _odd(text, error)
            if metadata is not None:
                odd.append(metadata)
    return Page(items, raw.metadata.resource_version, odd), raw.metadata.continue_


def decode_event(line: bytes, kind: type[T]) -> WatchEvent[T] | None:
    """One line of a watch; None if nothing can be made of it.

    Raises:
        KubernetesError: The server reports an error, for instance Gone.
    """
    try:
        raw = decode(line, _RawEvent)
        if raw.type == "ERROR":
            raise _error_of_status(0, decode(raw.object, _Status))
    except msgspec.DecodeError as error:
        log.warning("odd_watch_line", error=str(error), length=len(line))
        return None
    event_type = _EVENT_TYPES.get(raw.type)
    if event_type is None:
        log.warning("odd_watch_event", type=raw.type)
        return None
    try:
        if event_type == "BOOKMARK":
            return WatchEvent(event_type, decode(raw.object, PartialObject).metadata, None)
        item = decode(raw.object, kind)
    except msgspec.DecodeError as error:
        metadata = _odd(raw.object, error)
        return None if metadata is None else WatchEvent(event_type, metadata, None)
    return WatchEvent(event_type, metadata_of(item), item)


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> KubernetesError:
    """The error for an answer that is no success; its body may be a Status object or anything at all."""
    try:
        answer = decode(body, _Status)
    except msgspec.DecodeError:
        answer = _Status(message=body[:200].decode("utf-8", "replace").strip())
    header = headers.get("Retry-After", "")
    return _error_of_status(status, answer, float(header) if header.isdecimal() else None)


def _error_of_status(status: int, answer: _Status, retry_after: float | None = None) -> KubernetesError:
    seconds = retry_after if retry_after is not None else answer.details.retry_after_seconds or None
    code = answer.code or status
    return class_of(code, answer.reason)(code, answer.reason, answer.message, retry_after=seconds)


def metadata_of(item: Any) -> ObjectMeta:
    """The metadata of a struct, or of an object in JSON form."""
    if isinstance(item, dict):
        return msgspec.convert(item, PartialObject).metadata
    return item.metadata


def _odd(raw: msgspec.Raw, error: msgspec.DecodeError) -> ObjectMeta | None:
    try:
        metadata = decode(raw, PartialObject).metadata
    except msgspec.DecodeError:
        metadata = None
    log.warning("odd_object", key=metadata.key if metadata else "?", error=str(error))
    return metadata


class LineSplitter:
    """Cuts a stream of bytes into lines, wherever its chunks end.

    Args:
        longest: Bytes of a line.
    """

    def __init__(self, longest: int) -> None:
        self._parts: list[bytes] = []
        self._longest = longest
        self._length = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk completes, without their ends; empty ones are left out.

        Raises:
            AnswerTooLarge: A line is longer than it may be.
        """
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            self._parts.append(piece)
            line = b"".join(self._parts)
            self._parts.clear()
            self._length = 0
            if line.strip():
                yield line
        if rest:
            self._length += len(rest)
            if self._length > self._longest:
                raise AnswerTooLarge(message=f"a line of the watch is longer than {self._longest} bytes")
            self._parts.append(rest)
