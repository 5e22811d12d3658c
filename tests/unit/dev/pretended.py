"""A sandbox that is none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.site import Site


@contextmanager
def pretended_sandbox(clone: Site, backend: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like the clone's sandbox and answers nobody."""
    command = [sys.executable, "-c", "print(flush=True); input()", "sandbox", "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()  # only now has it certainly the command line that it is looked for by
        (clone.state / "serve.json").write_text(json.dumps({"pid": child.pid, "backend": backend}))
        yield child
        child.kill()
