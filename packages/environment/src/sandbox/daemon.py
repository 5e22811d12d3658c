"""The sandbox process of a site: started in the background, asked for its health, stopped."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ccmfs_common import host
from hetzner_machines import processes, records
from hetzner_machines.processes import Identity
from sandbox.errors import SandboxError
from sandbox.site import Clone, Site
from sandbox.waiting import until

START_SECONDS = 60
STOP_SECONDS = 60
LOCK_SECONDS = 1


@dataclass(frozen=True)
class Running:
    """A sandbox process: what it noted of itself, and what it was started with."""

    pid: int  # its number, where it was started; another process namespace has others
    backend: str  # ``machines``, ``hollow`` or ``records``
    actions: str = ""  # ``instant`` or ``realistic``
    k3s: str = ""  # the real k3s binary that it serves; empty: the stand-in
    port: int = 0  # on 127.0.0.1
    start_time: int = 0  # in clock ticks since the host's boot
    boot_id: str = ""  # of the host's boot
    internet: bool = False  # whether machines get out through the host

    @property
    def process(self) -> Identity:
        """Distinguishes it from later processes with the same ID."""
        return Identity(self.pid, self.start_time, self.boot_id)


def note(site: Site, running: Running) -> None:
    """Record the process that serves."""
    records.write_json(_record(site), running)


def forget(site: Clone) -> None:
    """Remove the record."""
    _record(site).unlink(missing_ok=True)


def _record(site: Clone) -> Path:
    return site.state / "serve.json"


def _lock(site: Clone) -> Path:
    return site.state / "serve.lock"


def find(site: Clone) -> Running | None:
    """The site's process, if it runs (whether it answers yet or not).

    The process runs as long as its lock is held, as seen from any process and mount namespace.
    """
    try:
        record = Running(**json.loads(_record(site).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None  # none yet, or what a power cut has left of it
    return record if _is_locked(_lock(site)) else None


def located(site: Site) -> Site:
    """The site with the port of its running process: ``serve --port`` overrides the claimed port."""
    running = find(site)
    return replace(site, port=running.port) if running and running.port else site


def _is_locked(path: Path) -> bool:
    try:
        with path.open() as lock:
            return not _try_lock(lock.fileno(), fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


def _try_lock(descriptor: int, how: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def only_one(site: Site) -> Iterator[None]:
    """Hold the clone's lock while serving: a process that is only starting has no record and no port yet."""
    with _lock(site).open("w") as lock:
        if not until(lambda: _try_lock(lock.fileno()), LOCK_SECONDS):  # find() holds the lock for a moment
            raise SandboxError("the sandbox of this clone is starting; try again")
        forget(site)  # of a process that was killed
        yield


def health(site: Clone) -> dict[str, Any] | None:
    """The response of ``/_sandbox/health``, or None if the process doesn't answer."""
    running = find(site)
    if running is None:
        return None
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{running.port}/_sandbox/health", timeout=5) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        error.close()
        return None
    except (OSError, json.JSONDecodeError):
        return None


def require(site: Site) -> Running:
    """The running process."""
    running = find(site)
    if running is None:
        raise SandboxError("the sandbox of this clone isn't running; start it with './dev up'")
    if health(site) is None:
        raise SandboxError(
            f"the sandbox (process {running.pid}) does not answer; see {site.log}. To end the process, "
            f"run 'kill -9 {running.pid}'. Then run './dev up'. The machines and the state are kept"
        )
    return running


def check_k3s(file: Path | None) -> None:
    """Check the file of ``--k3s``."""
    if file and not file.is_file():
        raise SandboxError(f"--k3s {file}: no such file")


def start(
    site: Site,
    backend: str,
    actions: str,
    progress: Callable[[str], None],
    k3s: Path | None = None,
    *,
    internet: bool = False,
) -> Running:
    """Start the process unless it runs, and wait until it answers.

    With ``internet``, a running process without Internet access is replaced; its machines stay.
    """
    running = find(site)
    if running and internet and not running.internet:
        progress(f"restarting the sandbox process {running.pid}, so that machines get Internet access")
        actions, k3s = running.actions, Path(running.k3s) if running.k3s else None
        stop(site)
    elif running:
        if backend not in ("auto", running.backend):
            raise SandboxError(
                f"the sandbox of this clone is already running (process {running.pid}) with --backend "
                f"{running.backend}, not --backend {backend}. Stop the sandbox first"
            )
        return require(site)
    if not host.port_is_free(site.port):
        raise SandboxError(
            f"port {site.port} on 127.0.0.1 is in use by another program. Stop that program, or delete "
            "this environment with './dev down --force'. A new environment uses other addresses"
        )
    command = [sys.executable, "-m", "sandbox", "serve", "--backend", backend, "--actions", actions]
    command += ["--no-exports"]  # what it prints is kept in a log
    if k3s:
        command += ["--k3s", str(k3s.resolve())]
    if internet:
        command.append("--internet")
    with site.log.open("ab") as log:
        child = subprocess.Popen(
            command, cwd=site.root, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    return _await_answer(site, child, progress)


def _await_answer(site: Site, child: subprocess.Popen[bytes], progress: Callable[[str], None]) -> Running:
    answers = until(lambda: child.poll() is not None or health(site), START_SECONDS)
    if child.poll() is not None:
        raise SandboxError(f"the sandbox ended: {last_lines(site)}")
    if not answers or (running := find(site)) is None:
        raise SandboxError(f"the sandbox does not answer after {START_SECONDS} s: {last_lines(site)}")
    progress(f"process {running.pid}")
    return running


def stop(site: Site) -> bool:
    """Ask the process to end, and wait for it, also if it is only starting. True if there was one."""
    remedy = "'./dev down --force' removes everything and doesn't need the sandbox's process"
    return _end(site, signal.SIGTERM, f"does not end; {remedy}")


def kill(site: Site) -> None:
    """End the process at once; what it has made is left for the caller to remove."""
    _end(site, signal.SIGKILL, f"was killed, but the lock {_lock(site)} is still in use; repeat the command")
    processes.kill_all(lambda: sandbox_processes(site), STOP_SECONDS)


def sandbox_processes(site: Clone) -> set[int]:
    """Sandbox processes of this clone, also if their record was deleted, for example by ``git clean``."""
    found = set[int]()
    for pid, command in processes.commands():
        with suppress(OSError):  # it has ended, or belongs to another user
            if b"\0-m\0sandbox\0serve\0" in command and Path(f"/proc/{pid}/cwd").readlink() == site.root:
                found.add(pid)
    return found


def _end(site: Site, number: int, complaint: str) -> bool:
    running = _begun(site)
    if running is None:
        return False
    _signal(running, number)
    is_free = until(lambda: not _is_locked(_lock(site)), STOP_SECONDS)
    if not is_free or not processes.wait_gone(running.process, STOP_SECONDS):  # it releases the lock first
        raise SandboxError(f"the sandbox (process {running.pid}) {complaint}")
    return True


def _begun(site: Site) -> Running | None:
    """Like :func:`find`; a process that is only starting, and has no record yet, is waited for."""
    if not until(lambda: find(site) or not _is_locked(_lock(site)), START_SECONDS):
        raise SandboxError(
            f"another process is starting a sandbox of this clone, but the sandbox did not answer within "
            f"{START_SECONDS} s; end the process that holds {_lock(site)}, and repeat the command"
        )
    return find(site)


def _signal(running: Running, number: int) -> None:
    """Signal this very process."""
    if not processes.alive(running.process):
        raise SandboxError(
            "the sandbox of this clone runs in a place that this command can't reach, for example in a "
            f"container (process {running.pid}, port {running.port}). Stop the sandbox there"
        )
    os.kill(running.pid, number)


def last_lines(site: Clone, count: int = 12) -> str:
    """The end of what the process printed."""
    try:
        lines = site.log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return "it printed nothing"
    return "\n".join(lines[-count:]) or "it printed nothing"
