"""The operations, which the modules of ``hetzner_emulator.resources`` register."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hetzner_emulator.api.call import Call
from hetzner_emulator.wire.reply import Reply

Handler = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True)
class Operation:
    """A method on a path, for example GET ``/servers/{id}``."""

    method: str
    path: str
    handler: Handler

    @property
    def name(self) -> str:
        """Method and path template, as in the request log."""
        return f"{self.method} {self.path}"


OPERATIONS: dict[tuple[str, str], Operation] = {}


def operation(method: str, path: str) -> Callable[[Handler], Handler]:
    """Register the decorated coroutine for a method and path."""

    def register(handler: Handler) -> Handler:
        add_operation(method, path, handler)
        return handler

    return register


def add_operation(method: str, path: str, handler: Handler) -> None:
    """Register a handler for a method and path."""
    OPERATIONS[method, path] = Operation(method, path, handler)
