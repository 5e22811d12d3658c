"""One process that serves all plugins while Pulumi runs.

The engine starts each plugin once for the state and once for the program, that of dynamic providers as well.
Each start loads Python, gRPC and more, which takes longer than the work of a run without changes. So the
engine starts something small (``attach.py``, or the plugin beside the language host), which asks this process
by a socket: for a new gRPC server with settings of its own, or for the one process of dynamic providers. What
that process prints goes to the first one that asked.

The process ends once all that asked have ended, and so has what started it: an engine may outlive ``./dev``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

VARIABLE = "CCMFS_PLUGINS"
"""Names the socket to what the engine starts."""

_ENDING_SECONDS = 10


@contextmanager
def serving(environment: Mapping[str, str], folder: Path) -> Iterator[dict[str, str]]:
    """Serve plugins as long as the context lasts.

    Args:
        environment: For the providers.
        folder: That they run in.

    Yields:
        More variables for the engine.
    """
    path = Path(tempfile.mkdtemp(prefix="ccmfs-plugins-"), "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(64)
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(listener.fileno()), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=dict(environment),
            cwd=folder,
            pass_fds=[listener.fileno()],
            process_group=0,  # Ctrl-C is for the engine
        )
    assert child.stdin
    os.set_inheritable(child.stdin.fileno(), True)  # for a process that becomes the engine: it ends with that
    try:
        yield {VARIABLE: str(path)}
    finally:
        child.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_ENDING_SECONDS)


class _Plugins:
    """Answers what asks, and knows how many there are."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.connections = 0
        self._programs: dict[str, _Program] = {}
        self._lock = threading.Lock()

    def accept(self, listener: socket.socket) -> None:
        """Answer each on a thread of its own."""
        while True:
            connection, _ = listener.accept()
            with self.changed:
                self.connections += 1
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            # what the engine kills may leave the connection as a reset one
            with connection, connection.makefile("rb") as file, suppress(ConnectionError):
                asked = json.loads(file.readline())
                if "command" in asked:
                    self._program(asked).tell(connection)
                    file.read()
                else:
                    from pulumi_plugins.serve import start  # noqa: PLC0415  not for 'serving'

                    server, port = start(asked["plugin"], asked["engine"])
                    connection.sendall(f"{port}\n".encode())
                    file.read()
                    server.stop(0)
        finally:
            with self.changed:
                self.connections -= 1
                self.changed.notify()

    def _program(self, asked: Mapping[str, Any]) -> _Program:
        with self._lock:
            key = json.dumps([asked["command"], asked["folder"]])
            if key not in self._programs:
                self._programs[key] = _Program(asked)
            return self._programs[key]

    def end(self) -> None:
        """End the programs."""
        for program in self._programs.values():
            with suppress(ProcessLookupError):
                os.killpg(program.child.pid, signal.SIGKILL)


class _Program:
    """A process that prints its port, and then what is for a person.

    Args:
        asked: Its command, folder and environment.
    """

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self.child = subprocess.Popen(
            asked["command"],
            cwd=asked["folder"],
            env=dict(item.split("=", 1) for item in asked["environment"]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        assert self.child.stdout
        self._output = self.child.stdout
        self._lock = threading.Lock()
        self._port = b""

    def tell(self, connection: socket.socket) -> None:
        """Send the port; to the first one also what follows it."""
        with self._lock:
            first = not self._port
            self._port = self._port or self._output.readline()
            connection.sendall(self._port)
        if first:
            threading.Thread(target=self._copy, args=(connection,), daemon=True).start()

    def _copy(self, connection: socket.socket) -> None:
        for line in self._output:
            with suppress(OSError):  # it is read all the same, so that the program goes on
                connection.sendall(line)


def main(descriptor: int, path: Path) -> None:
    """Serve until ``./dev`` and all that asked have ended.

    Args:
        descriptor: The listening socket.
        path: Its file, in a folder of its own.
    """
    plugins = _Plugins()
    threading.Thread(target=plugins.accept, args=(socket.socket(fileno=descriptor),), daemon=True).start()
    sys.stdin.buffer.read()
    with plugins.changed:
        plugins.changed.wait_for(lambda: not plugins.connections)
        plugins.end()
        shutil.rmtree(path.parent, ignore_errors=True)
        os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
