"""One run of the engine: its limits, its end, and the bookkeeping around every operation."""

from __future__ import annotations

import contextlib
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sandbox.engine.display.listener import Listener
from sandbox.engine.display.operation import Op
from sandbox.engine.errors import EngineError, InternalError, StoppedError
from sandbox.engine.state.resource import Resource
from sandbox.engine.state.snapshot import Snapshot

_PENDING = {
    Op.CREATE: "creating",
    Op.REPLACE: "creating",
    Op.UPDATE: "updating",
    Op.DELETE: "deleting",
    Op.DELETE_REPLACED: "deleting",
    Op.IMPORT: "importing",
}


@dataclass
class Run:
    """What all parts of a run share.

    Attributes:
        stack: Name of the stack.
        project: Name of the project.
        snapshot: The state.
        listener: Hears what happens.
        preview: Nothing is changed.
        parallel: At most so many operations at once.
        replace: URNs of resources that are made anew in any case.
        failed: The first failure; no new operation starts after it.
    """

    stack: str
    project: str
    snapshot: Snapshot
    listener: Listener
    preview: bool = False
    parallel: int = 16
    replace: frozenset[str] = frozenset()
    failed: str | None = None

    def __post_init__(self) -> None:
        self._slots = threading.Semaphore(self.parallel)
        self._idle = threading.Condition()
        self._busy = 0
        self._told: set[str] = set()

    def fail(self, message: str, urn: str = "") -> None:
        """Report a failure and start nothing new; the same message is told once."""
        with self._idle:
            first = message not in self._told
            self._told.add(message)
            self.failed = self.failed or message
        if first:
            self.listener.diagnostic("error", message, urn)

    def guarded(self, work: Callable[[], object], urn: str = "") -> None:
        """Do something; how it fails is the run's failure, and a mistake of the engine itself is one, too.

        Args:
            work: What to do.
            urn: Of the resource that it is about, for errors that don't name one.
        """
        try:
            work()
        except StoppedError:
            pass
        except EngineError as error:
            self.fail(str(error), urn or getattr(error, "urn", ""))
        except Exception as error:  # noqa: BLE001  a bug must neither hang the others nor lose the state
            self._fail_internally(error, urn)

    def _fail_internally(self, error: Exception, urn: str) -> None:
        if os.environ.get("CCMFS_ENGINE_TRACEBACK"):
            self.listener.diagnostic("info", "".join(traceback.format_exception(error)), urn)
        self.fail(str(InternalError(error)), urn)

    def check(self) -> None:
        """Refuse to go on in a run that is ending.

        Raises:
            StoppedError: It is.
        """
        if self.failed is not None:
            raise StoppedError("the run is ending")

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Count a piece of work that the end of the run waits for."""
        with self._idle:
            self._busy += 1
        try:
            yield
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def wait_idle(self) -> None:
        """Wait until no piece of work is going on."""
        with self._idle:
            self._idle.wait_for(lambda: self._busy == 0)

    @contextlib.contextmanager
    def operation(self, op: Op, resource: Resource, keys: Sequence[str] = ()) -> Iterator[None]:
        """Surround an operation: a parallel slot, the pending operation in the state, the display."""
        with self._slots, self.busy():
            self.check()
            self.listener.started(resource.urn, op, keys)
            pending = (
                contextlib.nullcontext() if self.preview else self.snapshot.pending(_PENDING[op], resource)
            )
            try:
                with pending:
                    yield
            except BaseException:
                self.listener.failed(resource.urn, op)
                raise
            self.listener.finished(resource.urn, op)

    def unchanged(self, urn: str, op: Op = Op.SAME, keys: Sequence[str] = ()) -> None:
        """Show an operation that needs no provider, or no more of it."""
        self.listener.started(urn, op, keys, instant=True)
        self.listener.finished(urn, op)
