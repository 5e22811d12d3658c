"""The command lines of a page, as a person types them into one shell, and what it shows of their output."""

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

_BLOCK = re.compile(r"^ *```(\S*)(?: (\w+)(?:=(\S+))?)?[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"\s+#\s+(.*)$")
_MARK = "-- the command above ended with"


@dataclass(frozen=True)
class Typed:
    text: str  # without its comment, continuation lines joined
    comment: str = ""  # what the page says about it


@dataclass(frozen=True)
class Edit:
    name: str
    # ``file``: the block is its content; ``more``: it is appended after two blank lines; ``diff``: each
    # of its hunks, which ``@@`` divides, replaces lines that are in the file once.
    how: str
    text: str

    def apply(self, before: str) -> str:
        if self.how != "diff":
            return self.text if self.how == "file" else f"{before}\n\n{self.text}"
        for hunk in re.split(r"^@@.*\n", self.text, flags=re.MULTILINE):
            lines = [(line[:1], line[1:]) for line in hunk.splitlines(keepends=True)]
            old = "".join(rest or "\n" for sign, rest in lines if sign != "+")
            new = "".join(rest or "\n" for sign, rest in lines if sign != "-")
            assert before.count(old) == 1, f"{self.name} has this {before.count(old)} times:\n{old}\n{before}"
            before = before.replace(old, new)
        return before


@dataclass(frozen=True)
class Block:
    """Command lines that stand together, and what the page shows of their output."""

    lines: tuple[Typed, ...]  # what is typed
    # Lines of the ``text`` block that follows, if one does before the next commands.
    shown: tuple[str, ...] = ()
    # Lines of the ``text running`` block that follows: what a command prints next; or of a ``text ended``
    # block: what it prints after Ctrl-C.
    running: tuple[str, ...] = ()
    ends: bool = False  # whether the reader presses Ctrl-C
    # What the page has said before about files: blocks such as ``python file=NAME``.
    edits: tuple[Edit, ...] = ()


def blocks_in(page: str) -> list[Block]:
    """All ``sh`` blocks of a page, each with the ``text`` block that follows and the edits that precede it.

    Edits without commands before the next output or the page's end are a block without lines.
    """
    found: list[Block] = []
    edits: list[Edit] = []
    for language, word, name, body in _BLOCK.findall(page):
        if name:
            edits.append(Edit(name, "diff" if language == "diff" else word, body))
            continue
        if language == "sh" or word == "ended" or (edits and word == "running"):
            found.append(Block(tuple(_lines(body)) if language == "sh" else (), edits=tuple(edits)))
            edits = []
        if word in {"running", "ended"}:
            found[-1] = replace(found[-1], running=tuple(body.splitlines()), ends=word == "ended")
        elif language == "text" and found and not found[-1].shown:
            found[-1] = replace(found[-1], shown=tuple(body.splitlines()))
    return [*found, Block((), edits=tuple(edits))] if edits else found


def edits_in(page: str) -> list[Edit]:
    return [edit for block in blocks_in(page) for edit in block.edits]


def typed_in(page: str) -> list[Typed]:
    return [line for block in blocks_in(page) for line in block.lines]


def _lines(body: str) -> list[Typed]:
    found: list[Typed] = []
    for line in filter(None, map(str.strip, body.replace("\\\n", " ").splitlines())):
        comment = _COMMENT.search(line)
        found.append(Typed(_COMMENT.sub("", line), comment[1] if comment else ""))
    return found


_VARIES: Sequence[tuple[str, str]] = (
    (r"^[IWEF]\d{4} [\d:.]+ ", "LOG "),
    (r"\b\d{4}-\d\d-\d\d[T ][\d:.]+(Z|[+-]\d\d:\d\d)?", "TIME"),
    (r"\b[0-9a-f]*:[0-9a-f:]*:[0-9a-f:]*(/\d+)?", "IPV6"),
    (r"\b(\d{1,3}\.){3}\d{1,3}\b(:\d+)?", "IPV4"),
    (r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,64}\b", "NUMBER"),
    (r"\b(\d+d)?(\d+h)?(\d+m)?\d+(\.\d+)?\s?(ms|s|m|h|d)\b(\sago)?", "SPAN"),
    (r"-[a-z0-9]{5}\b", "-RANDOM"),
    (r"(?<=\bprocess )\d+\b", "NUMBER"),
    (r"\b\d{4,}\b", "NUMBER"),
    (r"\d+(\.\d+)? MiB", "SIZE"),
    (r"[-=]{3,}", "---"),
    (r"\s+", " "),
)
"""What is another one each time: patterns, and what stands for all that match."""


def kind(line: str) -> str:
    """A line with everything that varies from run to run replaced by a word for it."""
    for pattern, word in _VARIES:
        line = re.sub(pattern, word, line)
    return line.strip()


def not_printed(shown: Sequence[str], printed: str) -> str:
    """The first line that a page shows and that was not printed, in this order; empty = all were.

    Lines may be left out on the page. What varies, such as times and addresses, need not be equal. A line
    that ends with … shows the beginning of one; … alone shows that something was left out.
    """
    rest = iter([kind(line) for line in printed.splitlines()])
    for line in shown:
        wanted = kind(line.removesuffix("…"))
        begins = line.endswith("…")
        if wanted and not any(said.startswith(wanted) if begins else said == wanted for said in rest):
            return line
    return ""


@dataclass(frozen=True)
class Started:
    process: str
    output: Path  # file with what it prints


class Shell:
    """A bash that keeps what commands set, and tells how each ended."""

    def __init__(self, folder: Path) -> None:
        self._outputs = tempfile.TemporaryDirectory()
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.run("kill $(jobs -p) 2>/dev/null; wait")
        self._bash.kill()
        self._bash.communicate()
        self._outputs.cleanup()

    def run(self, command: str) -> tuple[int, str]:
        """Run one command line in the shell itself; returns its exit code and what it printed."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f'{{ {command}\n}} </dev/null\nprintf "\\n{_MARK} %s\\n" $?\n')
        self._bash.stdin.flush()
        said: list[str] = []
        for line in self._bash.stdout:
            if line.startswith(_MARK):
                return int(line.removeprefix(_MARK)), "".join(said)
            said.append(line)
        raise AssertionError(f"the shell ended at {command!r}:\n{''.join(said)}")

    def start(self, command: str) -> Started:
        """Start a command line that a person ends with Ctrl-C."""
        handle, name = tempfile.mkstemp(dir=self._outputs.name)
        os.close(handle)
        output = Path(name)
        code, said = self.run(f"{command} >{output} 2>&1 & echo $!")
        assert code == 0
        return Started(said.split()[-1], output)
