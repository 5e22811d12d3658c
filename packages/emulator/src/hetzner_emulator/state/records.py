"""The base class of records, and the tables of kinds and indexes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

import msgspec

Indexes = Mapping[str, Callable[[Any], Iterable[Hashable]]]


class Record(msgspec.Struct, kw_only=True):
    """An object of the state."""

    KIND: ClassVar[str] = "record"
    FIRST_ID: ClassVar[int] = 1
    INDEXES: ClassVar[Indexes] = {}
    """The indexes that ``store.lookup`` uses. Each name maps to a function that returns a record's keys."""

    id: int  # unique among all objects of its kind, in all projects
    project: str  # owns it
    name: str = ""  # unique in its project for most kinds
    labels: dict[str, str] = msgspec.field(default_factory=dict)  # the user's key/value pairs
    created: float = 0.0  # Unix time in seconds

    @property
    def reference(self) -> Reference:
        """Its kind and id."""
        return Reference(self.KIND, self.id)

    def common_wire(self, *own: str) -> dict[str, Any]:
        """The fields in the API that objects of every kind have, and those of this kind with these names."""
        common = {"id": self.id, "name": self.name, "labels": self.labels, "created": timestamp(self.created)}
        return common | {name: getattr(self, name) for name in own}


class Reference(msgspec.Struct, frozen=True):
    """Identifies an object by kind and ID."""

    type: str
    id: int


R = TypeVar("R", bound=type[Record])
RECORDS: dict[str, type[Record]] = {}


def record(kind: R) -> R:
    """Register a class of records."""
    RECORDS[kind.KIND] = kind
    return kind


def timestamp(seconds: float) -> str:
    """A Unix time as the API writes it, in whole seconds and UTC."""
    return dt.datetime.fromtimestamp(int(seconds), dt.UTC).isoformat().replace("+00:00", "Z")
