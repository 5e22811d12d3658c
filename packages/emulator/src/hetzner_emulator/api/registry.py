"""Where the modules of ``hetzner_emulator.resources`` say which operations they answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hetzner_emulator.api.call import Call
from hetzner_emulator.wire.reply import Reply

Handler = Callable[[Call], Awaitable[Reply]]


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


def operation(method: str, path: str) -> Callable[[Handler], Handler]:
    """The decorated coroutine answers this method and path."""

    def register(handler: Handler) -> Handler:
        add_operation(method, path, handler)
        return handler

    return register


def add_operation(method: str, path: str, handler: Handler) -> None:
    """Let a handler answer this method and path."""
    OPERATIONS[method, path] = Operation(method, path, handler)
