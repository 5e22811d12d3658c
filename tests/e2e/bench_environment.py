"""Times of the development environment, each measured once: ``./dev bench environment``.

Creates the environment in its own clone in a temporary folder. ``./dev load`` copies an image of random
bytes to all machines, so that no part of the image exists there. Its figure is the median of three runs.
"""

import argparse
import os
import re
import statistics
import sys
from functools import partial
from pathlib import Path

from bench.lab.report import Row, main, timed
from sandbox import leftovers
from sandbox.kubernetes.archive import ContainerImage, write_archive
from tests.e2e.conftest import Clone
from tests.e2e.temporary_clone import temporary_clone

WORKERS, LOADS, MEBIBYTES = 2, 3, 30
CCM_MEMORY = "awk '/^Rss:/{print $2}' /proc/$(pgrep -f \"[-]m ccm\" | head -1)/smaps_rollup"


async def measure(_arguments: argparse.Namespace) -> list[Row]:
    with temporary_clone() as clone:
        return rows(clone)


def rows(clone: Clone) -> list[Row]:
    site = clone.site
    up = timed(lambda: clone.dev("up", "--workers", str(WORKERS)))
    memory = int(re.findall(r"\d+", clone.dev("ssh", "control", CCM_MEMORY).stdout)[-1]) / 1024
    images = [image_of(clone.root, number) for number in range(LOADS)]
    loads = [timed(partial(clone.dev, "load", image)) for image in images]
    again = timed(lambda: clone.pulumi("up", "--stack", "local", "--yes", "--skip-preview"))
    down = timed(lambda: clone.dev("down"))
    return [
        Row(f"./dev up, control + {WORKERS} workers, all initialized", up, 60, "s"),
        Row("pulumi up again", again, 5, "s"),
        Row(f"./dev load, {MEBIBYTES} MiB on {1 + WORKERS} machines", statistics.median(loads), 2, "s"),
        Row("./dev down", down, 20, "s"),
        Row("left behind", len(leftovers.find(site)), 0, ""),
        Row("idle CCM Pod, RSS", memory, 75, "MiB"),
    ]


def image_of(folder: Path, number: int) -> str:
    """The path of an archive with an image of random bytes."""
    content, archive = folder / "content", folder / f"image-{number}.tar"
    content.write_bytes(os.urandom(MEBIBYTES * 2**20))
    image = ContainerImage(f"docker.io/library/bench-{number}:1", {"/content": content}, ["/content"])
    write_archive(image, archive)
    return str(archive)


if __name__ == "__main__":
    sys.exit(main("The whole environment", __doc__, measure, peer=False))
