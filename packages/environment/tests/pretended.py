"""Programs that stand for others: shell scripts, and a sandbox that never answers."""

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


@contextmanager
def pretended_sandbox(clone: Site, backend: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like the clone's sandbox and never answers."""
    command = [sys.executable, "-c", PRETENDER, str(clone.state / "serve.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        process = processes.identify(child.pid)
        assert process is not None
        daemon.note(
            clone, Running(child.pid, backend, "instant", "", clone.port, process.start_time, process.boot_id)
        )
        yield child
        child.kill()


def script(path: Path, body: str) -> Path:
    """An executable shell script; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path
