"""Where the modules of ``sandbox.cloud.resources`` say what they bring.

Importing a module is all it takes: adding a resource is adding a file or folder there, nothing else.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sandbox.cloud.actions import Action
    from sandbox.cloud.call import Call, Reply
    from sandbox.cloud.cloud import Cloud
    from sandbox.cloud.records import Record

Handler = Callable[["Call"], Awaitable["Reply"]]
Effect = Callable[["Cloud", "Action"], Awaitable[None]]
Keys = Callable[[Any], Iterable[Hashable]]
Reaction = Callable[["Cloud", Any], Awaitable[None]]
R = TypeVar("R", bound="type[Record]")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Operation:
    """One method on one path, for example GET ``/servers/{id}``."""

    method: str
    path: str
    handler: Handler

    @property
    def name(self) -> str:
        """Method and path template: the name in the request log."""
        return f"{self.method} {self.path}"


OPERATIONS: dict[tuple[str, str], Operation] = {}
RECORDS: dict[str, type[Record]] = {}
EFFECTS: dict[str, Effect] = {}
UNDOS: dict[str, Effect] = {}
INDEXES: dict[str, list[tuple[str, Keys]]] = {}
REACTIONS: dict[str, list[Reaction]] = {}


def operation(method: str, path: str) -> Callable[[Handler], Handler]:
    """The decorated coroutine answers this method and path."""

    def register(handler: Handler) -> Handler:
        add_operation(method, path, handler)
        return handler

    return register


def add_operation(method: str, path: str, handler: Handler) -> None:
    """Let a handler answer this method and path."""
    OPERATIONS[method, path] = Operation(method, path, handler)


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


def effect(name: str) -> Callable[[F], F]:
    """The decorated coroutine is what an action with this effect does; it must bear being run twice."""

    def register(function: F) -> F:
        EFFECTS[name] = function
        return function

    return register


def undo(name: str) -> Callable[[F], F]:
    """The decorated coroutine tidies up after an action with this effect has failed."""

    def register(function: F) -> F:
        UNDOS[name] = function
        return function

    return register


def reaction(event: str) -> Callable[[F], F]:
    """The decorated coroutine runs when another resource announces the event."""

    def register(function: F) -> F:
        REACTIONS.setdefault(event, []).append(function)
        return function

    return register


async def announce(event: str, cloud: Cloud, subject: Any) -> None:
    """Run the reactions to an event, one after the other."""
    for function in REACTIONS.get(event, []):
        await function(cloud, subject)


def discover() -> None:
    """Import every module below ``sandbox.cloud.resources``."""
    package = importlib.import_module("sandbox.cloud.resources")
    for name in _modules(package):
        importlib.import_module(name)


def _modules(package: Any) -> Iterator[str]:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield module.name
