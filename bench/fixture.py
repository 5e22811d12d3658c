"""Time until a test has its first server in the emulated cloud: ``./dev bench fixture [--runs 5]``.

The benchmark builds the emulator's wheel, and installs it with the extra ``client`` into an empty
environment. Then a test uses the fixture ``hetzner_cloud`` and creates a server with Hetzner's client.

- Time: from the start of the fixture's setup until the response with the server. The fastest run counts.
- CPU: the difference between a pytest run with the fixture and a pytest run without it. It contains the
  emulator, the client, and the imports of both.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from uv import find_uv_bin

from bench.lab.processes import children_cpu_seconds
from bench.lab.report import BenchError, Row, main

EMULATOR = Path(__file__).resolve().parents[1] / "packages/emulator"
MOST_SECONDS = 2.0
LIMIT_SECONDS = 600
WITH = """
import time

from hcloud.images import Image
from hcloud.server_types import ServerType

IMPORTED = time.perf_counter()


def test_it(hetzner_cloud):
    client = hetzner_cloud.client()
    client.servers.create("first", ServerType(name="cpx22"), Image(name="debian-12"))
    print(f"\\nseconds={time.perf_counter() - IMPORTED}")
"""
WITHOUT = "def test_it():\n    pass\n"


def run(*command: str, cwd: Path) -> str:
    """Run a command outside of the tree; returns what it printed."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        command, cwd=cwd, env=kept, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS
    )
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def cpu_of(*command: str, cwd: Path) -> tuple[float, str]:
    """CPU of a command and its children in seconds, and what it printed."""
    before = children_cpu_seconds()
    said = run(*command, cwd=cwd)
    return children_cpu_seconds() - before, said


def install(folder: Path) -> tuple[str, float]:
    """The Python of an environment with the wheel and pytest, and the seconds that pip took for the wheel."""
    run(find_uv_bin(), "build", "--quiet", "--wheel", "--out-dir", str(folder), str(EMULATOR), cwd=folder)
    (wheel,) = folder.glob("*.whl")
    run(sys.executable, "-m", "venv", str(folder / "venv"), cwd=folder)
    python = str(folder / "venv/bin/python")
    begin = time.perf_counter()
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[client]", cwd=folder)
    seconds = time.perf_counter() - begin
    run(python, "-m", "pip", "install", "--quiet", "pytest", cwd=folder)
    return python, seconds


async def measure(arguments: argparse.Namespace) -> list[Row]:
    return await asyncio.to_thread(rows, arguments.runs)


def rows(runs: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python, installed = install(folder)
        (folder / "test_with.py").write_text(WITH)
        (folder / "test_without.py").write_text(WITHOUT)
        pytest = (python, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider")
        walls, extra = [], []
        for _ in range(runs):
            without, _ = cpu_of(*pytest, "test_without.py", cwd=folder)
            with_it, said = cpu_of(*pytest, "test_with.py", cwd=folder)
            extra.append(with_it - without)
            walls.append(float(said.partition("seconds=")[2].split()[0]))
    note = f"of {runs} runs; the slowest took {max(walls):.2f} s"
    return [
        Row("pip install of the emulator's wheel", installed, None, "s", note="with pip's cache"),
        Row("fixture to first server", min(walls), MOST_SECONDS, "s", note=note),
        Row("CPU of that, with all imports", min(extra), MOST_SECONDS, "s"),
    ]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=5, help="the number of runs (default: 5)")


if __name__ == "__main__":
    sys.exit(main("The fixture hetzner_cloud", __doc__, measure, options, peer=False))
