"""How the emulated cloud answers a fuzzer that has read Hetzner's document: ``./dev bench fuzz [REQUESTS]``.

It runs the judge of ``tests/judges/test_hetzner_schema.py`` with many requests: as many as are asked
for, made of the document as it allows and as it forbids them; besides, every field of every example with
every odd value, some 7,000. A run with more requests makes those of a smaller one, too. Judged is that
no answer is a server's error or of another status, type or shape than the document says.
``CCMFS_OPENAPI`` names Hetzner's document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from bench.lab.report import BenchError, Row, main

ROOT = Path(__file__).resolve().parents[1]
JUDGE = "tests/judges/test_hetzner_schema.py"
_FAILED = re.compile(r"^FAILED \S+?\[(.+?)\]", re.MULTILINE)


def _added_up(folder: Path) -> Counter[str]:
    """Answers by status, of all processes."""
    statuses: Counter[str] = Counter()
    for path in folder.glob("*.json"):
        statuses.update(json.loads(path.read_text()))
    return statuses


async def measure(arguments: argparse.Namespace) -> list[Row]:
    """All rows."""
    with tempfile.TemporaryDirectory() as folder:
        pytest = [sys.executable, "-m", "pytest", JUDGE, "-q", "-n", str(arguments.processes), "--tb=short"]
        options = ["--fuzzed", str(arguments.requests), "--statuses", folder]
        process = await asyncio.create_subprocess_exec(
            *pytest, *options, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            said = (await process.communicate())[0].decode()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
        statuses = await asyncio.to_thread(_added_up, Path(folder))
    if process.returncode not in {0, 1} or not statuses:
        raise BenchError(f"the judge did not run: {said[-2000:]}")
    failed = sorted(set(_FAILED.findall(said)))
    if failed:
        print(said, file=sys.stderr)
    errors = sum(number for status, number in statuses.items() if status.startswith("5"))
    kinds = ", ".join(f"{number} of {status}" for status, number in sorted(statuses.items()))
    return [
        Row("requests", statuses.total(), unit="", note=f"answers: {kinds}"),
        Row("answers with a server's error", errors, 0, ""),
        Row("operations that answer what is not described", len(failed), 0, "", note=", ".join(failed)),
    ]


def options(parser: argparse.ArgumentParser) -> None:
    """Arguments of this comparison."""
    parser.add_argument("requests", nargs="?", type=int, default=13_000, help="made of the document")
    parser.add_argument("--processes", type=int, default=2, help="at the same time (default: 2)")


if __name__ == "__main__":
    sys.exit(main("The emulated cloud and a fuzzer", __doc__, measure, options, peer=False))
