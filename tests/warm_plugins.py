"""The sandbox's Pulumi plugins for tests, forked from one process that has loaded them.

Without it, each run of Pulumi starts up to five Python processes, which spend most of their time on imports.
"""

import io
import multiprocessing
import os
import site
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from pulumi_plugins import shared

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([*shared.NEEDED, "ccm_pulumi.components", "tests.warm_plugins"])


@contextmanager
def warm(environment: Mapping[str, str], folder: Path) -> Iterator[tuple[dict[str, str], int]]:
    """Plugins for one run of Pulumi: yields its further variables, and a descriptor that it inherits.

    The plugins end after all processes that have the descriptor.
    """
    listener, path = shared.listen()
    starter, inherited = _forks.Pipe(duplex=False)
    with inherited:
        with listener, starter:
            arguments = (listener, path, starter, dict(environment), folder)
            _forks.Process(target=_serve, args=arguments, daemon=True).start()
        yield shared.variables(path), inherited.fileno()


def _serve(
    listener: socket.socket, path: Path, starter: Connection, environment: dict[str, str], folder: Path
) -> None:
    os.setpgid(0, 0)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = environment.get("PYTHONPATH", "").split(os.pathsep)
    site.execsitecustomize()
    for name, descriptor in (("stdout", 1), ("stderr", 2)):  # as in a process of 'python -u'
        setattr(sys, name, io.TextIOWrapper(io.FileIO(descriptor, "w"), write_through=True))
    shared.serve(listener, path, os.fdopen(starter.fileno(), "rb", closefd=False))
