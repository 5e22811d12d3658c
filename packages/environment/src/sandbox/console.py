"""How commands talk to a person: one line a step, with its time, and progress inside the long ones."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

Progress = Callable[[str], None]

# In a log: a line for each part of the work, and one every so many seconds.
LOG_SECONDS = 30.0


class Steps:
    """Prints steps as they end: ``✓ what (1.2 s)``; a spinner with the latest progress while one runs."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console()
        self._clock = clock

    @contextmanager
    def step(self, what: str, done: str | None = None) -> Iterator[Progress]:
        """Run one step. Yields a callable that says what it is doing now: ``part`` or ``part: how far``."""
        started = self._clock()
        with self._console.status(Text(f"{what} …")) as status:
            part, printed = "", started

            def progress(text: str) -> None:
                nonlocal part, printed
                if self._console.is_terminal:
                    status.update(Text(f"{what}: {text}"))
                elif text.partition(": ")[0] != part or self._clock() - printed >= LOG_SECONDS:
                    self.note(f"  {what}: {text}")
                    part, printed = text.partition(": ")[0], self._clock()

            try:
                yield progress
            except BaseException:
                self._line("✗", what, started)
                raise
        self._line("✓", done or what, started)

    @property
    def width(self) -> int | None:
        """Characters in a line of the terminal; None where the output goes elsewhere."""
        return self._console.width if self._console.is_terminal else None

    def note(self, text: str) -> None:
        """Print a line without a mark."""
        # as it is: in a plain string, rich would make an emoji of the ":a:" in an address
        self._console.print(Text(text), soft_wrap=True)

    def _line(self, mark: str, text: str, started: float) -> None:
        self.note(f"{mark} {text} ({self._clock() - started:.1f} s)")


def question(text: str) -> bool:
    """Ask a person at the terminal; only yes is yes."""
    try:
        return input(f"{text} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
