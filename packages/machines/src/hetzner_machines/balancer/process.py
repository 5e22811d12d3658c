"""One haproxy process: start, graceful reload, commands over its sockets, end."""

import os
import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hetzner_emulator.backend import BackendError
from hetzner_machines import processes
from hetzner_machines.errors import CommandFailed
from hetzner_machines.names import NAMESPACES
from hetzner_machines.runner import run_blocking

DEADLINE = 10.0
ANSWER = 1.0  # seconds for one response on a socket

T = TypeVar("T")


def check(configuration: Path) -> None:
    """Let haproxy check a configuration. Blocks. Raises BackendError with the reason if it refuses."""
    try:
        run_blocking(["haproxy", "-c", "-f", str(configuration)])
    except CommandFailed as error:
        raise BackendError(
            f"haproxy rejected the configuration of the load balancer: {error.output.strip()[-500:]}"
        ) from error


def start(namespace: str, configuration: Path, master: Path, log: Path) -> processes.Identity:
    """Start haproxy in a namespace and a new session, and wait until it serves. Blocks."""
    master.unlink(missing_ok=True)
    program = shutil.which("nsenter") or "/usr/bin/nsenter"
    command = [program, f"--net={NAMESPACES / namespace}", "haproxy", "-W", "-S", f"{master},mode,600"]
    pid = os.posix_spawn(
        program,
        [*command, "-f", str(configuration)],
        dict(os.environ),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    identity = processes.identify(pid)
    if identity is None:
        processes.reap(pid)
        raise BackendError(f"haproxy did not start. See the log {log}")
    try:
        _wait(lambda: _workers(master) or None, identity, log)
    except BaseException:
        end(identity)
        raise
    return identity


def reload(process: processes.Identity, master: Path, log: Path) -> None:
    """Reload the configuration; the old worker keeps its connections. Blocks. Raises as :func:`start`."""
    before = _wait(lambda: _reloads(master), process, log)
    processes.send(process, signal.SIGUSR2)
    _wait(lambda: _workers_after(before, master), process, log)


def end(process: processes.Identity) -> None:
    """End haproxy with all its connections. Blocks."""
    if processes.send(process, signal.SIGTERM) and not processes.wait_gone(process, 2):
        processes.send(process, signal.SIGKILL)
        processes.wait_gone(process, DEADLINE)
    processes.reap(process.pid)


def ask(path: Path, order: str) -> str:
    """Send one command over a socket of haproxy; blocks for a second at most. OSError without a response."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER)
        connection.connect(str(path))
        connection.sendall(order.encode() + b"\n")
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
            if (parts[-2:][0] + part).endswith(b"\n\n"):
                break  # the master keeps the connection open; an empty line ends its response
    return b"".join(parts).decode(errors="replace")


def _processes(master: Path) -> list[list[str]]:
    """The rows of ``show proc``; empty while haproxy starts or reloads."""
    try:
        return [line.split() for line in ask(master, "@master show proc").splitlines() if line]
    except OSError:
        return []


def _workers(master: Path) -> int:
    """The number of workers with the current configuration."""
    return sum(row[1:3] == ["worker", "0"] for row in _processes(master) if len(row) > 2)


def _reloads(master: Path) -> int | None:
    """The number of reloads; None while haproxy does not answer."""
    return next((int(row[2]) for row in _processes(master) if len(row) > 2 and row[1] == "master"), None)


def _workers_after(reloads: int, master: Path) -> int | None:
    """The number of workers after one more reload; None before."""
    now = _reloads(master)
    return None if now is None or now <= reloads else _workers(master) or None


def _wait(question: Callable[[], T | None], process: processes.Identity, log: Path) -> T:
    """Poll until there is a value."""
    deadline = time.monotonic() + DEADLINE
    while (answer := question()) is None:
        if not processes.alive(process) or time.monotonic() > deadline:
            tail = log.read_text(errors="replace")[-500:]
            raise BackendError(
                f"haproxy started, but doesn't respond. See the log {log}. Last lines of the log: "
                f"{tail.strip()}"
            )
        time.sleep(0.01)
    return answer
