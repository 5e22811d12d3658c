"""Watches start programs of machines and haproxies, children of ours or not, and reports their end."""

import asyncio
import os
from collections.abc import Awaitable, Callable

from hetzner_machines import processes


class Watcher:
    """Calls back when a watched process ends."""

    def __init__(self, ended: Callable[[int, processes.Identity], Awaitable[None]]) -> None:
        self._ended = ended
        self._watched: dict[int, tuple[processes.Identity, int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def watch(self, owner: int, process: processes.Identity) -> None:
        """Watch a process instead of this owner's previous one."""
        self.forget(owner)
        descriptor = processes.open_process(process)
        if descriptor is None:
            self._tell(owner, process)
            return
        self._watched[owner] = (process, descriptor)
        asyncio.get_running_loop().add_reader(descriptor, self._readable, owner)

    def _readable(self, owner: int) -> None:
        process, _ = self._watched[owner]
        self.forget(owner)
        self._tell(owner, process)

    def _tell(self, owner: int, process: processes.Identity) -> None:
        processes.reap(process.pid)
        task = asyncio.ensure_future(self._ended(owner, process))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, owner: int) -> None:
        """Stop watching; callers do this before they end a process."""
        _, descriptor = self._watched.pop(owner, (None, None))
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    async def close(self) -> None:
        """Stop watching everything, and wait for running callbacks."""
        while self._watched or self._tasks:  # a callback may watch a process that it started
            for owner in list(self._watched):
                self.forget(owner)
            await asyncio.gather(*self._tasks)
