"""What every kept object has in common."""

from __future__ import annotations

import datetime as dt
from typing import ClassVar

import msgspec


class Record(msgspec.Struct, kw_only=True):
    """One object of the state.

    Attributes:
        id: unique among all objects of its kind, in all projects.
        project: whose it is.
        name: unique in its project for most kinds.
        labels: the user's key/value pairs.
        created: Unix time in seconds.
    """

    KIND: ClassVar[str] = "record"
    FIRST_ID: ClassVar[int] = 1

    id: int
    project: str
    name: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    created: float = 0.0


class Reference(msgspec.Struct, frozen=True):
    """Names one object: its kind and id."""

    type: str
    id: int


def timestamp(seconds: float) -> str:
    """A Unix time as the API writes it, in whole seconds and UTC."""
    moment = dt.datetime.fromtimestamp(int(seconds), dt.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
