"""Small changes to the CCM's code that no test detects: ``./dev bench mutants [MODULE …]``.

mutmut changes one operator, number, string or argument at a time in a copy of the source code, and runs the
tests of the module. ``bench/mutation/judges.py`` lists the modules and their tests. Without MODULE, all of
these modules run. A MODULE is a path, or the end of a path: ``kube/lease.py``, ``lease``.

- killed: a test failed. timeouts: a test took many times as long.
- survived: no test failed. The change is listed below the table with its file and line.
- left out: the change only affects the spelling of a message, or ``bench/mutation/equivalent.toml`` lists
  it.

The result of a module is cached until a Python file changes. After an interruption, the next run continues.
``--again`` measures all modules again.

mutmut doesn't change log calls. Hypothesis uses few examples, and the same examples in each run. Two
processes run with low priority, and they use no machines and no cluster. After Ctrl-C or SIGTERM, the copy
is deleted.
"""

import os
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bench.lab.report import BenchError, Row, as_json, command_line, exit_code, say, table
from bench.mutation.engine import Mutant, mutants_of
from bench.mutation.judges import JUDGES
from sandbox.site import cache_directory

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENTS = ROOT / "bench/mutation/equivalent.toml"
PRIORITY = 10
TITLE = "Changes that no test notices"
BOUND = 3.0  # per cent
TIMEOUTS = frozenset({"timeout", "segfault"})  # a signal ends what takes too much time
NOTICED = TIMEOUTS | {"killed"}

Reasons = Mapping[tuple[str, ...], str]


def reasons_of(path: Path) -> dict[tuple[str, ...], str]:
    """Why changes alter nothing that matters, by their keys: file, function, was, becomes."""
    tables = tomllib.loads(path.read_text()).get("reason", [])
    return {tuple(one): table["why"] for table in tables for one in table["changes"]}


def chosen(words: Sequence[str]) -> list[str]:
    """The modules that were asked for; all if nothing was."""
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


def survivors_of(mutants: Iterable[Mutant], reasons: Reasons) -> list[Mutant]:
    """Relevant mutants that no test noticed, under any of mutmut's names for that."""
    quiet = [one for one in mutants if one.status not in NOTICED]
    return [one for one in quiet if not one.is_wording and one.key not in reasons]


def needless(mutants: Iterable[Mutant], reasons: Reasons) -> list[str]:
    """Reasons for these modules that no change matches, or that a test noticed after all."""
    found = list(mutants)
    modules, there = {one.module for one in found}, {one.key for one in found if one.status not in NOTICED}
    return [" | ".join(key) for key in reasons if key[0] in modules and key not in there]


def row_of(module: str, mutants: Sequence[Mutant], reasons: Reasons) -> Row:
    """The share of survivors in the changes that could be noticed."""
    survivors = len(survivors_of(mutants, reasons))
    timeouts = sum(one.status in TIMEOUTS for one in mutants)
    noticed = sum(one.status in NOTICED for one in mutants)
    counted = noticed + survivors
    note = f"{survivors} of {counted} survived, {noticed - timeouts} killed, {timeouts} timeouts, "
    share = 100.0 * survivors / counted if counted else 0.0
    return Row(module, share, BOUND, "%", note=f"{note}{len(mutants) - counted} left out")


def main(words: Sequence[str] | None = None) -> int:
    """The command; its exit code: 0 the bound holds, 1 not, 2 misused."""
    parser = command_line(__doc__)
    parser.add_argument(
        "module",
        nargs="*",
        metavar="MODULE",
        help="the path of a module, or the end of its path (default: all modules)",
    )
    parser.add_argument("--again", action="store_true", help="measure all modules again, without the cache")
    arguments = parser.parse_args(words)

    def compare() -> bool:
        cache = None if arguments.again else cache_directory(os.environ) / "mutants"
        reasons, every, rows = reasons_of(EQUIVALENTS), list[Mutant](), list[Row]()
        modules = chosen(arguments.module)
        os.nice(PRIORITY)
        for module in modules:
            mutants = mutants_of(ROOT, module, JUDGES[module], cache)
            every += mutants
            rows.append(row_of(module, mutants, reasons))
            say(f"{module}: {rows[-1].note}")
        unused = needless(every, reasons)
        rows.append(Row(f"not needed in {EQUIVALENTS.relative_to(ROOT)}", len(unused), 0, ""))
        print(as_json(TITLE, rows) if arguments.json else table(TITLE, rows))
        for one in [*survivors_of(every, reasons), *unused]:
            print(f"\n{one}", file=sys.stderr)
        return all(row.passed for row in rows)

    return exit_code(compare)


if __name__ == "__main__":
    sys.exit(main())
