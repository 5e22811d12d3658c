"""Which small changes to the CCM's pure parts no test notices: ``./dev bench mutants [MODULE …]``.

mutmut changes one thing at a time (an operator, a number, a text, an argument) in a copy of the tree in a
temporary folder and runs the tests that judge the module, which ``bench/mutation/judges.py`` names. Without
MODULE it goes over all of that table. A MODULE is a path, or the end of one: ``kube/lease.py``, ``lease``.

- killed: a test failed; timeouts: a test took many times as long, which is noticed, too;
- survived: no test noticed. Each is shown below the table, as file:line and the change;
- left out, because no test should notice: a sentence for people is spelled otherwise (texts of several words;
  mutmut leaves those with values in them alone anyhow), or ``bench/mutation/equivalent.toml`` says why.

What came of a module is kept in the cache, by the content of all that it follows from
(``bench/mutation/kept.py``), and taken from there next time, as a line says. ``--anew`` measures again.

Calls of the logger are not changed. Hypothesis makes few examples, always the same. Two processes, with low
priority; nothing but Python runs: no machine, no cluster. Ended by Ctrl-C or SIGTERM it removes its folder.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.lab.report import BenchError, command_line, exit_code, say
from bench.mutation import kept
from bench.mutation.engine import copy, mutants_of
from bench.mutation.judges import JUDGES
from bench.mutation.verdict import BOUND, Equivalents, Mutant, Verdict, judge, total
from sandbox.site import cache_directory

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENTS = ROOT / "bench/mutation/equivalent.toml"
PRIORITY = 10


def chosen(words: Sequence[str]) -> list[str]:
    """The modules that were asked for; all if nothing was.

    Raises:
        BenchError: A word fits none, or several.
    """
    found: list[str] = []
    for word in words:
        end = "/" + word.removeprefix("./").removesuffix(".py") + ".py"
        fitting = [module for module in JUDGES if f"/{module}".endswith(end)]
        if len(fitting) != 1:
            raise BenchError(
                f"{word!r} is the end of {len(fitting)} modules' paths; there are: {', '.join(JUDGES)}"
            )
        found += fitting
    return found or list(JUDGES)


def measure(
    modules: Sequence[str], equivalents: Equivalents, *, anew: bool
) -> tuple[list[Verdict], list[str]]:
    """The verdict on each module, and the entries of the table of reasons that are not needed.

    Args:
        modules: Their paths.
        equivalents: The table of reasons.
        anew: Whether what was kept of earlier runs doesn't count.
    """
    verdicts: list[Verdict] = []
    every: list[Mutant] = []
    for module in modules:
        mutants = _mutants_of(module, anew=anew)
        every += mutants
        verdict = judge(module, mutants, equivalents)
        say(f"{len(verdict.survivors)} of {verdict.mutants} survived")
        verdicts.append(verdict)
    return verdicts, equivalents.unknown(every, modules)


def _mutants_of(module: str, *, anew: bool) -> list[Mutant]:
    cache = cache_directory(os.environ) / "mutants" / module.replace("/", ".")
    tests = JUDGES[module]
    with tempfile.TemporaryDirectory(prefix="ccm-mutants-") as name:
        folder = Path(name)
        copy(ROOT, folder)
        key = kept.key(folder, module, tests)
        mutants = None if anew else kept.read(cache, key)
        if mutants is not None:
            say(f"{module} is what it was, and so is all that it follows from")
            return mutants
        say(f"changing {module}")
        mutants = mutants_of(folder, module, tests)
    kept.write(cache, key, mutants)
    return mutants


def table(verdicts: Sequence[Verdict]) -> Table:
    """A row for each module, and one for all."""
    found = Table(box=None)
    found.add_column("module", no_wrap=True)
    for name in ("mutants", "killed", "survived", "timeouts", "%", "at most", "left out", "verdict"):
        found.add_column(name, justify="right")
    rows = [*verdicts, total(verdicts)] if len(verdicts) > 1 else verdicts
    for one in rows:
        found.add_row(
            one.module,
            str(one.mutants),
            str(one.killed),
            str(len(one.survivors)),
            str(one.timeouts),
            f"{one.share:.1f}",
            f"{BOUND:.1f}",
            str(one.left_out),
            "PASS" if one.passed else "FAIL",
        )
    return found


def report(verdicts: Sequence[Verdict], unknown: Sequence[str]) -> None:
    """Print for people."""
    Console(width=max(140, Console().width), emoji=False, highlight=False).print(table(verdicts))
    for change in total(verdicts).survivors:
        print(f"\n{change}")
    for entry in unknown:
        print(f"\nnot needed in {EQUIVALENTS.relative_to(ROOT)}: {entry}")


def as_json(verdicts: Sequence[Verdict], unknown: Sequence[str]) -> str:
    """The same for programs."""
    rows = [
        {**asdict(one), "mutants": one.mutants, "share": one.share, "passed": one.passed} for one in verdicts
    ]
    return json.dumps({"rows": rows, "not_needed": unknown, "passed": passed(verdicts, unknown)}, indent=1)


def passed(verdicts: Sequence[Verdict], unknown: Sequence[str]) -> bool:
    """Whether the bound holds for each module, and nothing stands in the table of reasons without need."""
    return all(one.passed for one in verdicts) and not unknown


def main(words: Sequence[str] | None = None) -> int:
    """The command; its exit code: 0 the bound holds, 1 not, 2 misused."""
    parser = command_line(__doc__)
    parser.add_argument("module", nargs="*", metavar="MODULE", help="a path, or its end (default: all)")
    parser.add_argument("--anew", action="store_true", help="measure again what was kept of earlier runs")
    arguments = parser.parse_args(words)

    def compare() -> bool:
        modules = chosen(arguments.module)
        os.nice(PRIORITY)
        verdicts, unknown = measure(modules, Equivalents.read(EQUIVALENTS), anew=arguments.anew)
        if arguments.json:
            print(as_json(verdicts, unknown))
        else:
            report(verdicts, unknown)
        return passed(verdicts, unknown)

    return exit_code(compare)


if __name__ == "__main__":
    sys.exit(main())
