"""Actions: asynchronous changes that survive a restart and lock their resources."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from hetzner_emulator.actions.effects import EFFECTS, UNDOS
from hetzner_emulator.backend import BackendError
from hetzner_emulator.errors import ApiError, Conflict, Locked
from hetzner_emulator.state.records import Record, Reference, record, timestamp
from hetzner_emulator.state.store import Store
from hetzner_emulator.traffic.faults import Faults

log = logging.getLogger(__name__)

# Iterations of the event loop that a response waits for instant actions.
SETTLE_TURNS = 30
# Kinds whose lock is reported as `conflict`, as Hetzner documents.
CONFLICTING = frozenset({"network"})


@record
class Action(Record):
    """One asynchronous change."""

    KIND: ClassVar[str] = "action"
    FIRST_ID: ClassVar[int] = 9_000_001

    command: str  # its name in the API
    resources: list[Reference]
    status: str = "running"  # one of `running`, `success` and `error`
    started: float = 0.0
    finished: float | None = None  # Unix time, None while it runs
    due: float = 0.0  # earliest end in Unix time
    # the resources that other requests can't change until the action ends
    locks: list[Reference] = msgspec.field(default_factory=list)
    effect: str = ""  # name of the registered coroutine that makes the change, or ""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)  # for the effect
    after: int | None = None  # ID of the action that must succeed first, or None
    error: tuple[str, str] | None = None  # code and message, None unless the status is error


def action_wire(action: Action, now: float) -> dict[str, Any]:
    """The action as the API shows it."""
    finished, error = action.finished, action.error
    return {
        "id": action.id,
        "command": action.command,
        "status": action.status,
        "started": timestamp(action.started),
        "finished": None if finished is None else timestamp(finished),
        "progress": 100 if finished is not None else _progress(action, now),
        "resources": [{"id": resource.id, "type": resource.type} for resource in action.resources],
        "error": None if error is None else {"code": error[0], "message": error[1]},
    }


def _progress(action: Action, now: float) -> int:
    span = action.due - action.started
    return 0 if span <= 0 else max(0, min(95, int(100 * (now - action.started) / span)))


class ActionsCloud(Protocol):
    """The part of the cloud that actions use; effects get all of it."""

    store: Store
    faults: Faults

    def now(self) -> float:
        """Unix time in seconds."""
        ...

    def action_seconds(self, command: str) -> float:
        """Minimum duration of an action in seconds."""
        ...


class Actions:
    """Starts and runs actions, and holds their locks."""

    def __init__(self, cloud: ActionsCloud) -> None:
        self._cloud = cloud
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._locks: dict[Reference, set[int]] = {}

    def check_free(self, kind: str, identity: int) -> None:
        """Raise Locked, or Conflict for a network, while an action runs on the object."""
        if self.locked(kind, identity):
            raise Conflict(kind) if kind in CONFLICTING else Locked(kind)

    def locked(self, kind: str, identity: int) -> bool:
        """Whether an action holds a lock on the object."""
        return bool(self._locks) and Reference(kind, identity) in self._locks

    def start(
        self,
        command: str,
        project: str,
        resources: Sequence[Reference],
        *,
        effect: str = "",
        arguments: Mapping[str, Any] | None = None,
        locks: Iterable[Reference] | None = None,
        after: Action | None = None,
        seconds: float | None = None,
    ) -> Action:
        """Start an action of a project on some resources, and run its effect with JSON values as arguments.

        The action locks the first resource by default, and waits for the success of `after`. It takes at
        least `seconds`; the default depends on the mode.
        """
        action = self._new(command, project, resources)
        action.due += self._cloud.action_seconds(command) if seconds is None else seconds
        action.locks = list(resources[:1]) if locks is None else list(locks)
        action.effect, action.arguments = effect, dict(arguments or {})
        action.after = after.id if after else None
        self._cloud.store.put(action)
        self._launch(action)
        return action

    def _new(self, command: str, project: str, resources: Sequence[Reference]) -> Action:
        identity, now = self._cloud.store.new_id(Action), self._cloud.now()
        return Action(
            id=identity,
            project=project,
            command=command,
            resources=list(resources),
            created=now,
            started=now,
            due=now,
        )

    def note_failure(self, command: str, project: str, resources: Sequence[Reference], message: str) -> None:
        """Record a failed action that no request started."""
        action = self._new(command, project, resources)
        action.status, action.finished = "error", action.started
        action.error = ("action_failed", message)
        self._cloud.store.put(action)

    def resume(self) -> None:
        """Resume the actions that were running when the process ended."""
        for action in list(self._cloud.store.all(Action)):
            if action.status == "running":
                self._launch(action)

    async def settle(self) -> None:
        """Wait for the end of instant actions."""
        for _ in range(SETTLE_TURNS):
            if all(task.done() for task in self._tasks.values()):
                return
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """Cancel all tasks; the actions stay running in the state, and the next start resumes them."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def forget(self) -> None:
        """Remove all locks; for a reset."""
        self._tasks.clear()
        self._locks.clear()

    def _launch(self, action: Action) -> None:
        for lock in action.locks:
            self._locks.setdefault(lock, set()).add(action.id)
        task = asyncio.get_running_loop().create_task(self._run(action), name=f"action {action.id}")
        self._tasks[action.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(action.id, None))

    async def _run(self, action: Action) -> None:
        action.error = error = await self._attempt(action)
        if error is not None and action.effect in UNDOS:
            await UNDOS[action.effect](self._cloud, action)
        action.status = "success" if error is None else "error"
        action.finished = self._cloud.now()
        for lock in action.locks:
            holders = self._locks.get(lock, set())
            holders.discard(action.id)
            if not holders:
                self._locks.pop(lock, None)
        self._cloud.store.put(action)
        self._cloud.store.commit()

    async def _attempt(self, action: Action) -> tuple[str, str] | None:
        """Run the effect; returns code and message of an error."""
        try:
            if action.after is not None:
                if not await self._succeeded(action.after):
                    return "action_failed", "a previous action failed"
                # Its duration starts now.
                action.due = self._cloud.now() + (action.due - action.started)
            if (wait := action.due - self._cloud.now()) > 0:
                await asyncio.sleep(wait)
            if fault := self._cloud.faults.for_command(action.command):
                return fault
            if action.effect:
                await EFFECTS[action.effect](self._cloud, action)
        except BackendError as failure:
            log.warning("action %d %s failed: %s", action.id, action.command, failure)
            return "action_failed", str(failure)
        except ApiError as failure:
            return failure.code, failure.message
        except Exception:
            log.exception("action %d (%s) failed because of a bug in the sandbox", action.id, action.command)
            return "server_error", "internal error of the sandbox. See the sandbox's log"
        return None

    async def _succeeded(self, identity: int) -> bool:
        if task := self._tasks.get(identity):
            await asyncio.wait({task})
        before = self._cloud.store.find(Action, identity)
        return before is not None and before.status == "success"
