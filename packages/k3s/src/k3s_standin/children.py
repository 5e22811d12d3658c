"""The components as child processes: started, watched, ended together, and never outliving us."""

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from k3s_standin.errors import ChildEndedError

STOP_SECONDS = 5.0
_TAIL_LINES = 10
_DEATH_SIGNAL = 1
"""The option of prctl that selects the signal for a process whose parent ends."""

_TIMER_SLACK = 29
"""The option of prctl that sets the timer slack in nanoseconds. The kernel can delay a timer by up to the
slack, so that several timers expire together."""

SLACK_NANOSECONDS = 20_000_000
"""The timer slack of the components. In an idle cluster, timers of watch caches, work queues and Go's runtime
use most of the CPU time. With the slack, processes wake up less often. The slack doesn't delay the cluster:
loops in Kubernetes have intervals of at least 100 ms, and network traffic doesn't depend on timers."""

_LOOPS = frozenset({"kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet"})
"""Components that run with GOMAXPROCS=1."""

_STATELESS = frozenset({"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"})
"""Components without local state. On shutdown, k3s kills these components with SIGKILL. Otherwise, the API
server would wait up to one minute for the end of open watches."""


class Children:
    """Child processes by component name, each with a log file."""

    def __init__(self, programs: Path, logs: Path, *, own_session: bool = True) -> None:
        """Start nothing; ``own_session`` keeps terminal signals from the children."""
        self._programs = programs
        self._logs = logs
        self._own_session = own_session
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._waiting: set[asyncio.Task[int]] = set()
        self._one_ended = asyncio.Event()

    async def start(self, command: Sequence[str]) -> None:
        """Start a component."""
        self._logs.mkdir(parents=True, exist_ok=True)
        with self.log(command[0]).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                self._programs / command[0],
                *command[1:],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=child_environment(command[0], os.environ, os.cpu_count() or 1),
                preexec_fn=_become_child,
                start_new_session=self._own_session,
            )
        self._processes[command[0]] = process
        waiting = asyncio.create_task(process.wait())
        self._waiting.add(waiting)
        waiting.add_done_callback(self._note_end)

    def log(self, component: str) -> Path:
        """The component's log file."""
        return self._logs / f"{component}.log"

    def tail(self, component: str) -> str:
        """The last lines that a component wrote."""
        return "\n".join(self.log(component).read_text(errors="replace").splitlines()[-_TAIL_LINES:])

    def ended(self) -> str | None:
        """The name of a component that has ended, or None."""
        names = (name for name, process in self._processes.items() if process.returncode is not None)
        return next(names, None)

    def check(self) -> None:
        """Raise ChildEndedError if a component has ended."""
        if name := self.ended():
            raise ChildEndedError(name, self._processes[name].returncode, self.tail(name))

    async def until_one_ends(self) -> None:
        """Return when a component has ended since the last call."""
        await self._one_ended.wait()
        self._one_ended.clear()

    async def restart(self, command: Sequence[str]) -> None:
        """Restart a running component."""
        await _end({command[0]: self._processes.pop(command[0])})
        await self.start(command)

    async def stop(self) -> None:
        """End all children; returns when none is left. A cancelled call kills them."""
        try:
            await _end(self._processes)
        finally:
            self._processes.clear()

    def _note_end(self, waiting: asyncio.Task[int]) -> None:
        self._waiting.discard(waiting)
        self._one_ended.set()


async def _end(processes: Mapping[str, asyncio.subprocess.Process]) -> None:
    for name, process in processes.items():
        _signal(process, signal.SIGKILL if name in _STATELESS else signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await _all_ended(processes)
    except TimeoutError:
        pass  # the rest is killed
    finally:
        for process in processes.values():
            _signal(process, signal.SIGKILL)
        await _all_ended(processes)


async def _all_ended(processes: Mapping[str, asyncio.subprocess.Process]) -> None:
    for process in processes.values():
        await process.wait()


def child_environment(component: str, ours: Mapping[str, str], cores: int) -> dict[str, str]:
    """The environment of a component: without the token and without systemd's socket.

    With more than one core, a program wakes up a thread for each bit of work. Half of the cores are left to
    the rest of the cluster, and components that only run loops get one. The components have small heaps
    and usually run for minutes, so they collect garbage half as often as by default.
    """
    own = {"GOMAXPROCS": "1" if component in _LOOPS else str(max(1, cores // 2)), "GOGC": "200"}
    kept = {name: text for name, text in ours.items() if not name.startswith(("K3S_", "NOTIFY_SOCKET"))}
    return {**own, **kept}


def _become_child() -> None:
    """In the child, before it becomes the program: the kernel kills it when we die.

    Its timers get slack, and so do those of its children.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(_DEATH_SIGNAL, signal.SIGKILL)
    prctl(_TIMER_SLACK, ctypes.c_ulong(SLACK_NANOSECONDS))


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
