"""Actions: changes that go on after the answer, survive a restart and lock what they change."""

from __future__ import annotations

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

# Turns of the event loop that an answer waits for actions which need no real time.
SETTLE_TURNS = 30
# Kinds whose lock is reported as `conflict`, as Hetzner documents for them.
CONFLICTING = frozenset({"network"})


@record
class Action(Record):
    """One asynchronous change.

    Attributes:
        command: Its name in the API.
        status: One of ``running``, ``success`` and ``error``.
        finished: Unix time, None while it runs.
        due: Unix time before which it doesn't end.
        resources: What it concerns, as the API shows it.
        locks: What nobody else may change meanwhile.
        effect: Name of the registered coroutine that makes the change, or "".
        arguments: For the effect; it may keep its progress here.
        after: Id of the action that must succeed first, or None.
        error: Code and message, None unless the status is error.
    """

    KIND: ClassVar[str] = "action"
    FIRST_ID: ClassVar[int] = 9_000_001

    command: str
    resources: list[Reference]
    status: str = "running"
    started: float = 0.0
    finished: float | None = None
    due: float = 0.0
    locks: list[Reference] = msgspec.field(default_factory=list)
    effect: str = ""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    after: int | None = None
    error: tuple[str, str] | None = None


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


class Surroundings(Protocol):
    """What actions need of the cloud that they run in; their effects are given the whole of it."""

    store: Store
    faults: Faults

    def now(self) -> float:
        """Unix time in seconds."""
        ...

    def action_seconds(self, command: str) -> float:
        """Seconds that an action takes at least."""
        ...


class Actions:
    """Starts actions, runs them and knows what is locked."""

    def __init__(self, cloud: Surroundings) -> None:
        self._cloud = cloud
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._locks: dict[Reference, set[int]] = {}

    def check_free(self, kind: str, identity: int) -> None:
        """Refuse a change while an action runs on the object.

        Raises:
            Locked: One does; networks answer with :class:`Conflict`.
        """
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
        """Start an action.

        Args:
            command: Its name in the API.
            project: Whose it is.
            resources: What it concerns; the first of them is locked unless ``locks`` says otherwise.
            effect: The registered coroutine that makes the change.
            arguments: For the effect; JSON values.
            locks: What nobody else may change meanwhile.
            after: An action that must succeed first.
            seconds: The least time that it takes, instead of the mode's.
        """
        cloud, now = self._cloud, self._cloud.now()
        action = Action(
            id=cloud.store.new_id(Action),
            project=project,
            command=command,
            resources=list(resources),
            created=now,
            started=now,
            due=now + (cloud.action_seconds(command) if seconds is None else seconds),
            locks=list(resources[:1]) if locks is None else list(locks),
            effect=effect,
            arguments=dict(arguments or {}),
            after=after.id if after else None,
        )
        cloud.store.put(action)
        self._launch(action)
        return action

    def note_failure(self, command: str, project: str, resources: Sequence[Reference], message: str) -> None:
        """Put on record what was tried without a request, and failed.

        Args:
            command: Its name in the API.
            project: Whose it is.
            resources: What it concerns.
            message: Why it failed.
        """
        now = self._cloud.now()
        self._cloud.store.put(
            Action(
                id=self._cloud.store.new_id(Action),
                project=project,
                command=command,
                resources=list(resources),
                created=now,
                status="error",
                started=now,
                finished=now,
                due=now,
                error=("action_failed", message),
            )
        )

    def resume(self) -> None:
        """Go on with the actions that were running when the process ended."""
        for action in list(self._cloud.store.all(Action)):
            if action.status == "running":
                self._launch(action)

    async def settle(self) -> None:
        """Let actions that need no real time end before the answer is written."""
        for _ in range(SETTLE_TURNS):
            if all(task.done() for task in self._tasks.values()):
                return
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """Stop all work; the actions stay running in the state and are resumed by the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def forget(self) -> None:
        """Lift all locks; for a reset."""
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
        """Do the work; answers code and message of what went wrong."""
        try:
            if action.after is not None:
                if not await self._succeeded(action.after):
                    return "action_failed", "a previous action failed"
                # Its own time begins now.
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
            log.exception("action %d %s ended with a bug", action.id, action.command)
            return "server_error", "internal error of the sandbox; see its log"
        return None

    async def _succeeded(self, identity: int) -> bool:
        if task := self._tasks.get(identity):
            await asyncio.wait({task})
        before = self._cloud.store.find(Action, identity)
        return before is not None and before.status == "success"
