"""Runs an hour: ours at once (see ``bench.lab.hour``), the official CCM's in real time, and scaled."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.lab.cloud import running_cloud
from bench.lab.processes import child
from bench.lab.report import BenchError, say

_LOG_END = 2000
REFRESH_MINUTES = (
    5  # how often upstream looks at all nodes: --node-status-update-frequency, which nobody sets
)


async def ours(
    scenario: str, servers: int, *, private: bool = False, more: Sequence[str] = ()
) -> dict[str, Any]:
    """The figures of a scenario of ``bench.lab.quiet`` or ``bench.lab.attacks``.

    Args:
        scenario: Its name.
        servers: How many there are.
        private: Whether they are in the private network.
        more: Names of further servers.

    Raises:
        BenchError: It failed.
    """
    with tempfile.TemporaryDirectory(prefix="ccm-bench-") as folder:
        directory = Path(folder)
        with running_cloud(directory) as cloud:
            say(f"making {servers} servers in the emulated cloud")
            names = [f"node-{index:04}" for index in range(servers)]
            await asyncio.to_thread(cloud.add_servers, [*names, *more], private=private)
            say("letting an hour pass for our CCM, on a clock that jumps")
            command = [sys.executable, "-m", "bench.lab.hour", scenario, cloud.base]
            log = directory / "hour.log"
            with child(command, log=log, stdout=subprocess.PIPE) as process:
                text, _ = await asyncio.to_thread(process.communicate)
            if process.returncode != 0:
                raise BenchError(f"the hour failed:\n{log.read_text()[-_LOG_END:]}")
            return json.loads(text)


def options(parser: argparse.ArgumentParser) -> None:
    """The argument of comparisons that take an hour."""
    parser.add_argument(
        "--peer-minutes",
        type=_minutes,
        default=2 * REFRESH_MINUTES,
        help="how long the official binary is watched, in real time, a multiple of "
        f"{REFRESH_MINUTES}; its counts are scaled to an hour",
    )


def _minutes(text: str) -> int:
    """Whole rounds of what comes every five minutes; a part of one counts as none or as many when scaled."""
    minutes = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    if not minutes or minutes % REFRESH_MINUTES:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a multiple of {REFRESH_MINUTES}: the official CCM looks at all nodes every "
            f"{REFRESH_MINUTES} minutes, and what it does in a part of that can't be scaled to an hour"
        )
    return minutes


async def real_time(
    counts: Callable[[], Awaitable[Mapping[str, int]]], forget: Callable[[], object], minutes: float
) -> float:
    """How many calls an hour there are, by watching for some minutes."""
    forget()
    say(f"watching for {minutes:g} minutes")
    await asyncio.sleep(minutes * 60)
    return sum((await counts()).values()) * 60 / minutes
