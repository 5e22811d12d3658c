"""What came of the changes to a module: counts, and the changes that no test noticed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

BOUND = 3.0  # per cent
_SENTENCE = re.compile(r'"([^"\\]* [^"\\]*)"')
_NOTICED = frozenset({"killed"})
_ENDLESS = frozenset({"timeout", "segfault"})  # a signal ends what takes too much time


@dataclass(frozen=True)
class Change:
    """A change to one function.

    Attributes:
        module: Path of the file.
        function: Name; of a method, after its class' and a dot.
        line: Of the file, the first that differs.
        was: The lines that differ, in one, without indentation.
        becomes: What they become; empty if they go.
    """

    module: str
    function: str
    line: int
    was: str
    becomes: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function}\n    - {self.was}\n    + {self.becomes}"

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it is, wherever the line went."""
        return self.module, self.function, self.was, self.becomes

    @property
    def is_wording(self) -> bool:
        """Whether it only spells a sentence otherwise: a text of several words, in the ways mutmut has."""
        for text in _SENTENCE.findall(self.was):
            spellings = (f"XX{text}XX", text.lower(), text.upper())
            if self.becomes in [self.was.replace(f'"{text}"', f'"{other}"') for other in spellings]:
                return True
        return False


@dataclass(frozen=True)
class Mutant:
    """A change, and what mutmut said of it."""

    status: str
    change: Change


@dataclass(frozen=True)
class Verdict:
    """What came of the changes to one module.

    Attributes:
        module: Path of the file.
        killed: Changes that a test noticed by failing.
        timeouts: Changes that made a test take many times as long, which is noticed, too.
        left_out: Changes that no test noticed, spelling a sentence or with a reason in the table.
        survivors: The others.
    """

    module: str
    killed: int
    timeouts: int
    left_out: int
    survivors: tuple[Change, ...]

    @property
    def mutants(self) -> int:
        """All changes that could be noticed."""
        return self.killed + self.timeouts + len(self.survivors)

    @property
    def share(self) -> float:
        """Survivors in per cent."""
        return 100.0 * len(self.survivors) / self.mutants if self.mutants else 0.0


@dataclass(frozen=True)
class Equivalents:
    """Changes that alter nothing that matters, each with the reason.

    Attributes:
        reasons: By key of a change.
    """

    reasons: dict[tuple[str, str, str, str], str]

    @classmethod
    def read(cls, path: Path) -> Equivalents:
        """From TOML: tables ``[[reason]]`` of ``why`` and ``changes`` (file, function, was, becomes)."""
        tables = tomllib.loads(path.read_text()).get("reason", [])
        return cls({tuple(one): table["why"] for table in tables for one in table["changes"]})

    def unknown(self, mutants: Iterable[Mutant], modules: Sequence[str]) -> list[str]:
        """Entries on these modules that no change matches, or that a test noticed after all."""
        there = {one.change.key for one in mutants if one.status not in _NOTICED | _ENDLESS}
        return [" | ".join(key) for key in self.reasons if key[0] in modules and key not in there]


def judge(module: str, mutants: Iterable[Mutant], equivalents: Equivalents) -> Verdict:
    """Count. What is neither noticed nor endless has survived, whatever mutmut calls it."""
    found = list(mutants)
    quiet = [one.change for one in found if one.status not in _NOTICED | _ENDLESS]
    survivors = tuple(one for one in quiet if not one.is_wording and one.key not in equivalents.reasons)
    return Verdict(
        module,
        killed=sum(one.status in _NOTICED for one in found),
        timeouts=sum(one.status in _ENDLESS for one in found),
        left_out=len(quiet) - len(survivors),
        survivors=survivors,
    )
