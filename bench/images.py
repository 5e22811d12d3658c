"""Build time and size of the CCM's image for both architectures: ``./dev bench images``.

Builds the image in this process, from a copy of the source code and with its own cache:

- from nothing: the build downloads Debian packages and Python wheels. The time includes the downloads.
- after a change of one file of ``ccm``, and without a change: the build is like the one in ``./dev
  deploy``.

CPU is user and system time of this process and its children. Times depend on the load of the machine.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.lab.processes import children_cpu_seconds
from bench.lab.report import BenchError, Row, main, say
from image.build import build
from image.errors import ImageError
from image.oci import Image
from image.platforms import PLATFORMS
from image.source import ROOT, read_source

COLD_SECONDS, CHANGED_SECONDS, LARGEST = 180.0, 5.0, 35.0
CHANGED = "ccm/errors.py"
MIB = 1 << 20


async def measure(_arguments: argparse.Namespace) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tree, cache = _copy(place / "tree"), place / "cache"
        os.environ["UV_CACHE_DIR"] = str(place / "uv")
        try:
            return _rows(tree, cache)
        except ImageError as error:
            raise BenchError(str(error)) from error


def _rows(tree: Path, cache: Path) -> list[Row]:
    say("building both from nothing; this downloads some 40 MB")
    images, cold = _built("both, nothing in the cache", COLD_SECONDS, tree, cache)
    with (tree / CHANGED).open("a") as file:
        file.write("\n# changed\n")
    _, changed = _built("after a change of one file of ccm", CHANGED_SECONDS, tree, cache)
    _, unchanged = _built("nothing changed", None, tree, cache)
    sizes = [
        Row(f"{platform.name}, compressed", image.size / MIB, LARGEST, "MiB")
        for platform, image in zip(PLATFORMS, images, strict=True)
    ]
    return [*cold, *changed, *unchanged, *sizes]


def _built(what: str, bound: float | None, tree: Path, cache: Path) -> tuple[Sequence[Image], list[Row]]:
    started, used = time.monotonic(), (children_cpu_seconds() + time.process_time())
    images = build(read_source(tree), cache, PLATFORMS)
    taken, used = time.monotonic() - started, (children_cpu_seconds() + time.process_time()) - used
    return images, [Row(what, taken, bound, "s"), Row("— its CPU", used, None, "s")]


def _copy(target: Path) -> Path:
    """What an image is made of."""
    for folder in ("ccm", "packages/image"):
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", target)
    return target


if __name__ == "__main__":
    sys.exit(main("The CCM's image", __doc__, measure, peer=False))
