"""What a run tells the person who watches it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sandbox.engine.display.operation import Op


class Listener(Protocol):
    """Receives what happens, from several threads."""

    def started(self, urn: str, op: Op, keys: Sequence[str] = (), *, instant: bool = False) -> None:
        """An operation on a resource begins.

        Args:
            urn: Of the resource.
            op: What is done.
            keys: The paths that change.
            instant: Nothing happens outside the engine.
        """

    def finished(self, urn: str, op: Op) -> None:
        """The operation is done."""

    def failed(self, urn: str, op: Op) -> None:
        """The operation failed; a diagnostic says why."""

    def diagnostic(self, severity: str, message: str, urn: str = "") -> None:
        """Tell a message of severity ``debug``, ``info``, ``warning`` or ``error``."""

    def status(self, urn: str, message: str) -> None:
        """Tell what a running operation waits for."""

    def phase(self, text: str) -> None:
        """Tell which part of the run begins."""

    def notice(self, text: str) -> None:
        """Tell the person who watches something that can't wait."""
