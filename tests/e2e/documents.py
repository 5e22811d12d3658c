"""The command lines of a page, one after the other, as a person types them into one shell."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

_BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"\s+#\s+(.*)$")
_MARK = "-- the command above ended with"


@dataclass(frozen=True)
class Typed:
    """One command line.

    Attributes:
        text: Without its comment, continuation lines joined.
        comment: What the page says about it.
    """

    text: str
    comment: str = ""


def typed_in(page: str) -> list[Typed]:
    """All command lines of a page's ``sh`` blocks.

    Args:
        page: Its text.
    """
    lines = "\n".join(_BLOCK.findall(page)).replace("\\\n", " ").splitlines()
    found: list[Typed] = []
    for line in filter(None, map(str.strip, lines)):
        comment = _COMMENT.search(line)
        found.append(Typed(_COMMENT.sub("", line), comment[1] if comment else ""))
    return found


class Shell:
    """A bash that keeps what commands set, and tells how each ended."""

    def __init__(self, folder: Path) -> None:
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

    def run(self, command: str) -> tuple[int, str]:
        """Run one command line in the shell itself; returns its exit code and what it printed.

        Args:
            command: Nothing is there for it to read.
        """
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

    def start(self, command: str) -> str:
        """Start a command line that a person ends with Ctrl-C; returns its process id."""
        code, said = self.run(f"{command} >/dev/null 2>&1 & echo $!")
        assert code == 0
        return said.split()[-1]
