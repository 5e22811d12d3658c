"""One process that serves all plugins while Pulumi runs, with the modules of plugins and program loaded.

The engine starts each plugin, even that of dynamic providers, once for the state and once for the program.
Each start of a plugin or the program loads Python, gRPC and more, which takes longer than a run without
changes. So this process loads them while the engine starts, and forks one process for the program and two for
dynamic providers. The engine starts something small, ``attach.py`` or the language host, which sends a
request to a socket: for a new gRPC server, for the port of dynamic providers, or for a run of the program.
The client that starts a process of dynamic providers gets its output.

The process ends after all clients and the process that started it: an engine may outlive ``./dev``.
"""

import gc
import importlib
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

VARIABLE = "CCMFS_PLUGINS"
"""The environment variable with the path of the socket, for the plugins that the Pulumi engine starts."""
ENVIRONMENT = "CCMFS_PLUGINS_ENVIRONMENT"
"""The environment variable with the path of the virtual environment that contains the plugins."""

NEEDED = (
    *("hcloud", "pulumi.dynamic", "urllib3", "pulumi_plugins.serve"),
    *("pulumi_plugins.hcloud.provider", "pulumi_plugins.kubernetes.provider"),
)
_ENDING_SECONDS = 10


@contextmanager
def serving(
    environment: Mapping[str, str], folder: Path, program: str = "pulumi"
) -> Iterator[dict[str, str]]:
    """Serve plugins as long as the context lasts; yields more variables for the engine."""
    listener, path = listen()
    with listener:
        child = subprocess.Popen(
            # -u as Pulumi starts programs and dynamic providers, which don't flush the line with their port
            [sys.executable, "-u", "-P", "-m", __name__, str(listener.fileno()), str(path), program],
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
        yield variables(path)
    finally:
        child.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_ENDING_SECONDS)


def listen() -> tuple[socket.socket, Path]:
    """A listening socket in a new folder, and its path."""
    path = Path(tempfile.mkdtemp(prefix="ccmfs-plugins-"), "socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(64)
    return listener, path


def variables(path: Path) -> dict[str, str]:
    """What the engine's environment needs beside the user's, for plugins that are served at a socket.

    The engine usually ends within minutes, so it collects garbage less often than Go programs do by default.
    """
    return {
        VARIABLE: str(path),
        ENVIRONMENT: str(Path(sys.prefix).resolve()),
        "GOGC": os.environ.get("GOGC", "400"),
    }


class _Loaded:
    """A process that has loaded everything and waits for one request."""

    def __init__(self) -> None:
        self._asking, asked = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            self._asking.close()
            sys.exit(_become(asked))
        asked.close()
        self.is_used = False

    def become(self, asked: Mapping[str, Any], outputs: Sequence[int]) -> None:
        """Run the program or dynamic providers in it, with these files as outputs."""
        self.is_used = True
        socket.send_fds(self._asking, [json.dumps(asked).encode() + b"\n"], outputs)

    def end(self) -> None:
        """End it with its children."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def _become(asking: socket.socket) -> None:
    os.setpgid(0, 0)
    asked, outputs = _receive(asking)
    threading.Thread(
        target=lambda: asking.recv(1) or os._exit(1), daemon=True
    ).start()  # ends with the parent
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for output, stream in zip(outputs, (sys.stdout, sys.stderr), strict=True):
        os.dup2(output, stream.fileno())
        os.close(output)
    os.environ.clear()
    os.environ.update(item.split("=", 1) for item in asked["environment"])
    os.chdir(asked["folder"])
    if "program" in asked:
        sys.argv = asked["program"]
        sys.path.insert(0, str(Path(sys.argv[0]).parent))
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        sys.path.insert(0, asked["folder"])
        runpy.run_module("pulumi.dynamic", run_name="__main__", alter_sys=True)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    first, files, *_ = socket.recv_fds(connection, 1, 2)
    with connection.makefile("rb") as file:
        return json.loads(first + file.readline() or sys.exit()), files


class _Plugins:
    """Answers clients, and counts them."""

    def __init__(self) -> None:
        # before there are threads
        self._program = _Loaded()
        # One with the configuration in the state, one with the program's: each caches configured providers.
        self._dynamic = [_Loaded(), _Loaded()]
        self._port = b""  # of the last one that was started
        self.changed = threading.Condition()
        self.connections = 0
        self._lock = threading.Lock()

    def accept(self, listener: socket.socket) -> None:
        """Answer each client on a thread."""
        while True:
            connection, _ = listener.accept()
            with self.changed:
                self.connections += 1
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def end(self) -> None:
        """End the processes."""
        self._program.end()
        for process in self._dynamic:
            process.end()

    def _answer(self, connection: socket.socket) -> None:
        try:
            # the engine kills clients, which may reset the connection
            with connection, suppress(ConnectionError):
                asked, outputs = _receive(connection)
                if "plugin" in asked:
                    from pulumi_plugins.serve import start  # noqa: PLC0415  not for 'serving'

                    server, port = start(asked["plugin"], asked["engine"])
                    connection.sendall(f"{port}\n".encode())
                    connection.recv(1)
                    server.stop(0)
                elif "program" in asked:
                    self._run(asked, outputs, connection)
                else:
                    self._attach(asked, connection)
                    connection.recv(1)
        finally:
            with self.changed:
                self.connections -= 1
                self.changed.notify()

    def _run(self, asked: Mapping[str, Any], outputs: Sequence[int], connection: socket.socket) -> None:
        """Run the program, and send its exit code; nothing if it was run already."""
        with self._lock:
            if first := not self._program.is_used:
                self._program.become(asked, outputs)
        for output in outputs:  # the engine waits until all copies are closed
            os.close(output)
        if not first:
            return

        def report() -> None:
            _, status = os.waitpid(self._program.pid, 0)
            with suppress(OSError):
                connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())

        threading.Thread(target=report, daemon=True).start()
        connection.recv(1)
        self._program.end()

    def _attach(self, asked: Mapping[str, Any], connection: socket.socket) -> None:
        """Send the port of dynamic providers; the client that starts them also gets their output."""
        with self._lock:
            if first := next((process for process in self._dynamic if not process.is_used), None):
                ours, theirs = socket.socketpair()
                first.become(asked, [theirs.fileno()] * 2)
                theirs.close()
                output = ours.makefile("rb")
                self._port = output.readline()
            connection.sendall(self._port)

        def copy() -> None:
            for line in output:
                with suppress(OSError):  # read on, so that they don't block
                    connection.sendall(line)

        if first:
            threading.Thread(target=copy, daemon=True).start()


def main(descriptor: int, path: Path, program: str) -> None:
    """Load everything, then serve on a listening socket until standard input ends."""
    gc.disable()  # nothing of this is garbage
    for module in (*NEEDED, program):
        with suppress(Exception):  # in the program itself, Pulumi shows a mistake of the user's
            importlib.import_module(module)
    gc.enable()
    serve(socket.socket(fileno=descriptor), path, sys.stdin.buffer)


def serve(listener: socket.socket, path: Path, starter: BinaryIO) -> NoReturn:
    """Serve until the other end of ``starter`` is closed and all clients have ended; remove the folder."""
    gc.freeze()  # garbage collection in forks skips the loaded modules
    _omit_stack_traces()
    plugins = _Plugins()
    threading.Thread(target=plugins.accept, args=(listener,), daemon=True).start()
    starter.read()
    with plugins.changed:
        plugins.changed.wait_for(lambda: not plugins.connections)
        plugins.end()
        shutil.rmtree(path.parent, ignore_errors=True)
        os._exit(0)


def _omit_stack_traces() -> None:
    """Keep Pulumi from recording the stack trace and the source position of each resource; it has no option
    for this. Stack traces are a third of the state, which the engine writes after each step.
    """
    from pulumi.runtime import resource  # noqa: PLC0415  not for 'serving'
    from pulumi.runtime.proto import source_pb2  # noqa: PLC0415

    resource._get_stack_trace = source_pb2.StackTrace  # noqa: SLF001


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
