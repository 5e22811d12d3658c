"""An hour in seconds: our CCM on an event loop whose clock jumps when nothing is in progress.

``ours`` runs this module in a process of its own, because ``time.monotonic`` is replaced before the CCM is
imported. The CCM is whole: flags, environment, the manager and its controllers, and its requests go over the
network to the emulated cloud; while one is in progress, the clock does not move. The API server is the one in
memory.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.lab.clock import Clock, run
from bench.lab.cloud import running_cloud
from bench.lab.processes import child
from bench.lab.report import BenchError, say

_LOG_END = 2000


async def ours(scenario: str, servers: int) -> dict[str, Any]:
    """The figures of a scenario of ``bench.lab.quiet``."""
    with tempfile.TemporaryDirectory(prefix="ccm-bench-") as folder:
        directory = Path(folder)
        with running_cloud(directory) as cloud:
            say(f"making {servers} servers in the emulated cloud")
            names = [f"node-{index:04}" for index in range(servers)]
            await asyncio.to_thread(cloud.add_servers, names, private=False)
            say("letting an hour pass for our CCM, on a clock that jumps")
            command = [sys.executable, "-m", __spec__.name, scenario, cloud.base]
            log = directory / "hour.log"
            with child(command, log=log, stdout=subprocess.PIPE) as process:
                text, _ = await asyncio.to_thread(process.communicate)
            if process.returncode != 0:
                raise BenchError(f"the hour failed:\n{log.read_text()[-_LOG_END:]}")
            return json.loads(text)


if __name__ == "__main__":
    clock = Clock()
    time.monotonic = clock.monotonic
    from bench.lab import quiet  # it imports the CCM

    print(json.dumps(run(clock, quiet.SCENARIOS[sys.argv[1]](sys.argv[2]))))
