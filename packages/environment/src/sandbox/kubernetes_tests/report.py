"""Parses the output of tests, and renders it as a table."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

PASSED, SKIPPED = "passed", "skipped"
_PLANNED, _RUNNING = "planned", "running"
_MOST_GROUPS = 20
_MESSAGE_LINES = 4
_MARK = re.compile(r" \[[^\]]*\]")  # all but the first, which is the SIG


@dataclass(frozen=True)
class Result:
    """How a test ended."""

    name: str  # in full, with marks in brackets
    group: str  # what upstream describes with it, such as ``[sig-network] DNS``
    state: str  # ``passed``, ``skipped``, or ginkgo's word for a failure
    seconds: float  # how long it took
    message: str  # why it failed or was skipped

    @property
    def failed(self) -> bool:
        """Whether it neither passed nor was skipped."""
        return self.state not in (PASSED, SKIPPED)


@dataclass
class Tally:
    """Progress of a run."""

    total: int = 0  # tests that will run; 0 until it is known
    running: list[str] = field(default_factory=list)  # names, the oldest first
    results: list[Result] = field(default_factory=list)  # in the order of their ends

    def take(self, line: str) -> Result | None:
        """Add one line of JSON; returns the result if a test ended."""
        event = json.loads(line)
        state, name = event["state"], event.get("name", "")
        if state == _PLANNED:
            self.total = event.get("total", 0)
            return None
        if state == _RUNNING:
            self.running.append(name)
            return None
        if name in self.running:
            self.running.remove(name)
        result = Result(
            name, event.get("group", ""), state, event.get("seconds", 0.0), event.get("message", "")
        )
        self.results.append(result)
        return result

    def now(self) -> str:
        """The progress in one line."""
        failed = sum(result.failed for result in self.results)
        parts = [f"{len(self.results)} of {self.total or '?'}", *([f"{failed} failed"] if failed else [])]
        return ", ".join(parts) + (f"; {self.running[0]}" if self.running else "")


def table(results: Sequence[Result]) -> str:
    """Counts by group, with a line for all; by SIG if there are many groups."""
    groups = {_whole(result.group) for result in results}
    of = _keepers if len(groups) > _MOST_GROUPS else _whole
    rows = [
        ("", "RUN", "PASSED", "FAILED", "SKIPPED", "SECONDS"),
        *(
            _row(group, [result for result in results if of(result.group) == group])
            for group in sorted({of(result.group) for result in results})
        ),
        _row("all", results),
    ]
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    form = "  ".join([f"{{:<{first}}}", *(f"{{:>{width}}}" for width in others)])
    return "\n".join(form.format(*row).rstrip() for row in rows)


def reasons(results: Iterable[Result]) -> Iterator[str]:
    """Why tests were skipped: each reason, and the names below it."""
    skipped = [result for result in results if result.state == SKIPPED]
    for message in sorted({result.message for result in skipped}):
        yield message
        yield from sorted(f"  {result.name}" for result in skipped if result.message == message)


def failures(results: Iterable[Result]) -> Iterator[str]:
    """What failed, with the first lines of what was said about it."""
    for result in results:
        if result.failed:
            yield f"✗ {result.name} ({result.state} after {result.seconds:.0f} s)"
            lines = [line for line in result.message.splitlines() if line.strip()]
            yield from (f"    {line.rstrip()}" for line in lines[:_MESSAGE_LINES])


def _whole(group: str) -> str:
    return _MARK.sub("", group)


def _keepers(group: str) -> str:
    return group.partition("]")[0] + "]" if group.startswith("[") else group


def _row(name: str, results: Sequence[Result]) -> tuple[str, ...]:
    counts = Counter("failed" if result.failed else result.state for result in results)
    numbers = (len(results) - counts[SKIPPED], counts[PASSED], counts["failed"], counts[SKIPPED])
    return (name, *map(str, numbers), f"{sum(result.seconds for result in results):.0f}")
