"""A sandbox that never answers, and the processes of a folder."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hetzner_machines import processes
from sandbox import daemon
from sandbox.daemon import Running
from sandbox.site import Site

# It holds the clone's lock, as a sandbox does, and never answers.
PRETENDER = """
import fcntl, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print(flush=True)
input()
"""


def commands_below(folder: Path) -> list[str]:
    """Command lines of processes that name a folder."""
    found = [command.decode(errors="replace") for _, command in processes.commands()]
    return [line for line in found if str(folder) in line]


@contextmanager
def pretended_sandbox(clone: Site, backend: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like the clone's sandbox and never answers."""
    command = [sys.executable, "-c", PRETENDER, str(clone.state / "serve.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        process = processes.identify(child.pid)
        assert process is not None
        known = {"start_time": process.start_time, "boot_id": process.boot_id}
        daemon.note(clone, Running(child.pid, backend, "instant", "", clone.port, **known))
        yield child
        child.kill()
