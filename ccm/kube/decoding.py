"""Decodes responses of the API server; an undecodable object doesn't affect other objects of a list."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, get_args

import msgspec
import structlog

from ccm.kube.errors import AnswerTooLarge, KubernetesError, Unreadable, class_of
from ccm.kube.objects import ObjectMeta, PartialObject, decode, wire_name
from ccm.kube.protocol import EventType, Page, WatchEvent

T = TypeVar("T")
# In seconds. A proxy may request hours, but the API server isn't unavailable for that long.
MAX_RETRY_AFTER = 300.0
_EVENT_TYPES: dict[str, EventType] = {name: name for name in get_args(EventType)}

log = structlog.stdlib.get_logger(__name__)


class _Wire(msgspec.Struct, frozen=True, rename=wire_name):
    """Base of the structs that only this module uses."""


class _ListMeta(_Wire, frozen=True):
    resource_version: str = ""
    continue_: str = ""


class _RawList(_Wire, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


class _RawEvent(_Wire, frozen=True):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class _Identity(_Wire, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identified(_Wire, frozen=True):
    metadata: _Identity = _Identity()


class _Details(_Wire, frozen=True):
    retry_after_seconds: float = 0


class _Status(_Wire, frozen=True):
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details = _Details()


def decode_one(data: bytes, kind: type[T]) -> T:
    """Decode one object. Raises Unreadable if the data isn't an object of this kind."""
    try:
        return decode(data, kind)
    except msgspec.DecodeError as error:
        raise _bad_answer(str(error)) from error


def decode_page(data: bytes, kind: type[T]) -> tuple[Page[T], str]:
    """Decode a page of a list, and the token of the next page (empty for the last page).

    Raises Unreadable if the data isn't a list, or if even the name of an item can't be decoded.
    """
    try:
        raw = decode(data, _RawList)
    except msgspec.DecodeError as error:
        raise _bad_answer(f"no list: {error}") from error
    if not raw.metadata.resource_version:
        # Any other JSON object would decode as an empty list, so all cached objects would seem to be deleted.
        raise _bad_answer("the response isn't a list: it has no resourceVersion")
    items: list[T] = []
    undecodable: list[ObjectMeta] = []
    for text in raw.items or ():
        try:
            items.append(decode(text, kind))
        except msgspec.DecodeError as error:
            undecodable.append(_undecodable(text, error))
    return Page(items, raw.metadata.resource_version, undecodable), raw.metadata.continue_


def decode_event(line: bytes, kind: type[T]) -> WatchEvent[T] | None:
    """Decode a line of a watch; returns None if its type is unknown.

    Raises:
        KubernetesError: The server reports an error, for example Gone.
        Unreadable: The line can't be decoded. If the watch continued, a change would be lost.
    """
    try:
        raw = decode(line, _RawEvent)
        if raw.type == "ERROR":
            raise _error_of_status(0, decode(raw.object, _Status))
    except msgspec.DecodeError as error:
        raise _bad_answer(f"a line of the watch response can't be decoded: {error}") from error
    event_type = _EVENT_TYPES.get(raw.type)
    if event_type is None:
        log.warning("odd_watch_event", type=raw.type)
        return None
    try:
        if event_type == "BOOKMARK":
            return WatchEvent(event_type, decode(raw.object, PartialObject).metadata, None)
        item = decode(raw.object, kind)
    except msgspec.DecodeError as error:
        return WatchEvent(event_type, _undecodable(raw.object, error), None)
    return WatchEvent(event_type, metadata_of(item), item)


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> KubernetesError:
    """Create the error for an unsuccessful response. Its body may be a Status object or any other data."""
    try:
        answer = decode(body, _Status)
    except msgspec.DecodeError:
        answer = _Status(message=body[:200].decode("utf-8", "replace").strip())
    header = headers.get("Retry-After", "")
    return _error_of_status(status, answer, float(header) if header.isdecimal() else None)


def _error_of_status(status: int, answer: _Status, retry_after: float | None = None) -> KubernetesError:
    asked = retry_after or answer.details.retry_after_seconds
    seconds = min(asked, MAX_RETRY_AFTER) if asked > 0 else None
    code = answer.code or status
    return class_of(code, answer.reason)(code, answer.reason, answer.message, retry_after=seconds)


def metadata_of(item: Any) -> ObjectMeta:
    """The metadata of a struct or of a decoded JSON object."""
    if isinstance(item, dict):
        return msgspec.convert(item, PartialObject).metadata
    return item.metadata


def _undecodable(raw: msgspec.Raw, error: msgspec.DecodeError) -> ObjectMeta:
    """The identity of an undecodable object. Raises Unreadable if even the name can't be decoded."""
    try:
        found = decode(raw, _Identified).metadata
    except msgspec.DecodeError:
        raise _bad_answer(f"an object can't be decoded: {error}") from error
    metadata = ObjectMeta(found.name, found.namespace, found.uid, found.resource_version)
    if not metadata.name:
        raise _bad_answer(f"an object without a name can't be decoded: {error}")
    log.warning("odd_object", key=metadata.key, error=str(error))
    return metadata


def _bad_answer(what: str) -> Unreadable:
    text = f"unexpected response from the API server: {what}"
    return Unreadable(reason="BadAnswer", message=text)


class LineSplitter:
    """Splits a stream of chunks into lines of at most ``longest`` bytes."""

    def __init__(self, longest: int) -> None:
        self._parts: list[bytes] = []
        self._longest = longest
        self._length = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The nonempty lines that this chunk completes, without line ends. Raises AnswerTooLarge."""
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
                text = f"a line of the watch response is longer than {self._longest} bytes"
                raise AnswerTooLarge(message=text)
            self._parts.append(rest)
