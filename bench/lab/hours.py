"""Runs an hour of our CCM in a process of its own: see ``bench.lab.hour``."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.lab.cloud import running_cloud
from bench.lab.processes import child
from bench.lab.report import BenchError, say

_LOG_END = 2000


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
