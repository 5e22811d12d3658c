"""What every kept object has in common, and the tables of the kinds of objects that are kept."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Iterable
from typing import Any, ClassVar, TypeVar

import msgspec


class Record(msgspec.Struct, kw_only=True):
    """One object of the state.

    Attributes:
        id: Unique among all objects of its kind, in all projects.
        project: Whose it is.
        name: Unique in its project for most kinds.
        labels: The user's key/value pairs.
        created: Unix time in seconds.
    """

    KIND: ClassVar[str] = "record"
    FIRST_ID: ClassVar[int] = 1

    id: int
    project: str
    name: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    created: float = 0.0

    @property
    def reference(self) -> Reference:
        """Its kind and id."""
        return Reference(self.KIND, self.id)

    def common_wire(self) -> dict[str, Any]:
        """What the API shows of objects of every kind."""
        return {"id": self.id, "name": self.name, "labels": self.labels, "created": timestamp(self.created)}


class Reference(msgspec.Struct, frozen=True):
    """Names one object: its kind and id."""

    type: str
    id: int


Keys = Callable[[Any], Iterable[Hashable]]
R = TypeVar("R", bound=type[Record])
F = TypeVar("F", bound=Callable[..., Any])

RECORDS: dict[str, type[Record]] = {}
INDEXES: dict[str, list[tuple[str, Keys]]] = {}


def record(kind: R) -> R:
    """The decorated class is kept in the state."""
    RECORDS[kind.KIND] = kind
    return kind


def index(name: str, kind: str) -> Callable[[F], F]:
    """The decorated function gives the keys under which ``store.lookup`` finds an object of a kind.

    Objects are looked up by it without a walk through all of them.
    """

    def register(function: F) -> F:
        INDEXES.setdefault(kind, []).append((name, function))
        return function

    return register


def timestamp(seconds: float) -> str:
    """A Unix time as the API writes it, in whole seconds and UTC."""
    return dt.datetime.fromtimestamp(int(seconds), dt.UTC).isoformat().replace("+00:00", "Z")
