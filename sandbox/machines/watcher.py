"""Watches the start programs of machines, children of ours or not, and tells when one has ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from sandbox.machines import processes


class Watcher:
    """Calls back when a watched process ends.

    Args:
        ended: Given the server id and the process that ended.
    """

    def __init__(self, ended: Callable[[int, processes.Identity], Awaitable[None]]) -> None:
        self._ended = ended
        self._watched: dict[int, tuple[processes.Identity, int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def watch(self, server_id: int, process: processes.Identity) -> None:
        """Watch a process in the place of the one that was watched for this server."""
        self.forget(server_id)
        descriptor = processes.open_process(process)
        if descriptor is None:
            self._tell(server_id, process)
            return
        self._watched[server_id] = (process, descriptor)
        asyncio.get_running_loop().add_reader(descriptor, self._readable, server_id)

    def _readable(self, server_id: int) -> None:
        process, _ = self._watched[server_id]
        self.forget(server_id)
        self._tell(server_id, process)

    def _tell(self, server_id: int, process: processes.Identity) -> None:
        processes.reap(process.pid)
        task = asyncio.ensure_future(self._ended(server_id, process))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, server_id: int) -> None:
        """Stop watching; who ends a machine on purpose does this first."""
        _, descriptor = self._watched.pop(server_id, (None, None))
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    async def close(self) -> None:
        """Stop watching everything and let running callbacks end."""
        for server_id in list(self._watched):
            self.forget(server_id)
        await asyncio.gather(*self._tasks)
