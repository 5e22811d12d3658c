"""An image on three machines: ``./dev bench load [--mebibytes 30] [--times 5]``.

Works in a clone of its own in a temporary folder, beside whatever runs here. Each round loads another image
of random bytes, so that nothing is there already. The first row is ``./dev load`` as a person types it, the
median of all rounds. Below it stands what the import alone takes, typed on all machines at once, and the
first as a multiple of that: what the command adds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.lab.clones import temporary_clone
from bench.lab.report import BenchError, Row, main
from bench.lab.stopwatch import timed
from hetzner_machines.airgap import FOLDER
from sandbox.kubernetes.archive import ContainerImage, write_archive
from sandbox.remote import ssh, ways
from tests.e2e.conftest import Clone

WORKERS = 2
BOUND_SECONDS = 2
MARK = "ccmfs-took"
IMPORT = f"""
cd /{FOLDER}
k3s ctr images rm --sync {{name}} > /dev/null
started=$(date +%s%N)
k3s ctr images import {{archive}} > /dev/null
echo {MARK} $(( ($(date +%s%N) - started) / 1000 ))
"""


async def measure(arguments: argparse.Namespace) -> list[Row]:
    """All rows."""
    with temporary_clone() as clone:
        clone.dev("up", "--workers", str(WORKERS))
        return await rows(clone, arguments.mebibytes, arguments.times)


async def rows(clone: Clone, mebibytes: int, times: int) -> list[Row]:
    """Load images, and import each once more."""
    loads, imports = [], []
    for number in range(times):
        name = f"docker.io/library/bench-{number}:1"
        archive = image_of(clone.root, name, mebibytes)
        loads.append(timed(lambda archive=archive: clone.dev("load", str(archive))))
        kept = max((clone.site.state / "images").glob("loaded-*.tar")).name
        imports.append(await imported(clone, IMPORT.format(name=name, archive=kept)))
    load, own = statistics.median(loads), statistics.median(imports)
    what = f"{mebibytes} MiB on {1 + WORKERS} machines"
    return [
        Row(f"./dev load, {what}", load, BOUND_SECONDS, "s", note=f"of {times}: {listed(loads)}"),
        Row("the import alone, the slowest machine", own, None, "s", note=listed(imports)),
        Row("./dev load as a multiple of it", load / own, None, "times"),
    ]


def image_of(folder: Path, name: str, mebibytes: int) -> Path:
    """An archive with an image of random bytes."""
    content, archive = folder / "content", folder / "image.tar"
    content.write_bytes(os.urandom(mebibytes * 2**20))
    write_archive(ContainerImage(name, {"/content": content}, ["/content"]), archive)
    return archive


async def imported(clone: Clone, script: str) -> float:
    """Seconds of the slowest machine, all of them at the same time."""
    reached = ways(clone.site, clone.api("/servers")["servers"])
    logins = [ssh(clone.site, way) for way in reached.values() if way]
    return max(await asyncio.gather(*(asyncio.to_thread(_took, login, script) for login in logins)))


def _took(login: Sequence[str], script: str) -> float:
    said = subprocess.run([*login, script], capture_output=True, text=True, check=False, timeout=600)
    if MARK not in said.stdout:
        raise BenchError(f"the import failed: {said.stderr}")
    return int(said.stdout.split(MARK)[1]) / 1e6


def listed(seconds: Sequence[float]) -> str:
    """All of them."""
    return ", ".join(f"{each:.2f}" for each in seconds)


def options(parser: argparse.ArgumentParser) -> None:
    """How much and how often."""
    parser.add_argument("--mebibytes", type=int, default=30, help="of the image")
    parser.add_argument("--times", type=int, default=5, help="rounds, each with another image")


if __name__ == "__main__":
    sys.exit(main("An image on three machines", __doc__, measure, options, peer=False))
