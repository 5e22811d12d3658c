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

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.lab.report import BenchError, Row, as_json, command_line, exit_code, say, table
from bench.mutation import kept
from bench.mutation.engine import copy, mutants_of
from bench.mutation.judges import JUDGES
from bench.mutation.verdict import BOUND, Equivalents, Mutant, Verdict, judge
from sandbox.site import cache_directory

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENTS = ROOT / "bench/mutation/equivalent.toml"
PRIORITY = 10
TITLE = "Changes that no test notices"


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


def rows(verdicts: Sequence[Verdict], unknown: Sequence[str]) -> list[Row]:
    """A row for each module, and one for the table of reasons."""
    found = [
        Row(
            one.module,
            one.share,
            BOUND,
            "%",
            note=f"{len(one.survivors)} of {one.mutants} survived, {one.killed} killed, "
            f"{one.timeouts} timeouts, {one.left_out} left out",
        )
        for one in verdicts
    ]
    return [*found, Row(f"not needed in {EQUIVALENTS.relative_to(ROOT)}", len(unknown), 0, "")]


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
        found = rows(verdicts, unknown)
        print(as_json(TITLE, found) if arguments.json else table(TITLE, found))
        for survivor in [*(one for verdict in verdicts for one in verdict.survivors), *unknown]:
            print(f"\n{survivor}", file=sys.stderr)
        return all(row.passed for row in found)

    return exit_code(compare)


if __name__ == "__main__":
    sys.exit(main())
