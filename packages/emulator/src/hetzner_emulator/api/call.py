"""One request as the handlers see it; no HTTP library in sight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from multidict import MultiMapping

from hetzner_emulator.actions.actions import Action, action_wire
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import NotFound
from hetzner_emulator.state.records import Record
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply

R = TypeVar("R", bound=Record)


@dataclass
class Call:
    """One authorised request.

    Attributes:
        cloud: The whole cloud.
        project: Whose token it bears.
        parameters: The parameters in the path.
        query: The query, with repetitions.
        body: Decoded JSON.
        url: Address of the path, for links.
    """

    cloud: Cloud
    project: str
    parameters: Mapping[str, str]
    query: MultiMapping[str]
    body: Any
    url: str

    def fields(self) -> Fields:
        """The body, to be read field by field."""
        return Fields(self.body)

    def identity(self, name: str = "id", kind: str = "resource") -> int:
        """A numeric id from the path.

        Raises:
            NotFound: It is not a number, so there is no such object.
        """
        text = self.parameters[name]
        if not (text.isascii() and text.isdecimal() and len(text) < 20):
            raise NotFound(kind, text)
        return int(text)

    def get(self, kind: type[R]) -> R:
        """The object that the path names.

        Raises:
            NotFound: This project has none with this id.
        """
        return self.cloud.store.get(kind, self.project, self.identity("id", kind.KIND))

    def get_free(self, kind: type[R]) -> R:
        """The object that the path names, if no action changes it.

        Raises:
            NotFound: This project has none with this id.
            Locked: One does; networks answer with Conflict.
        """
        entry = self.get(kind)
        self.cloud.actions.check_free(kind.KIND, entry.id)
        return entry

    def start(
        self,
        command: str,
        *concerned: Record,
        effect: str = "",
        after: Action | None = None,
        locks: Iterable[Record] | None = None,
        **arguments: Any,
    ) -> Action:
        """Start an action.

        Args:
            command: Its name in the API.
            concerned: What it concerns.
            effect: The registered coroutine that makes the change.
            after: An action that must succeed first.
            locks: What no other request may change meanwhile; None: the first that it concerns.
            arguments: For the effect; JSON values.
        """
        references = [record.reference for record in concerned]
        return self.cloud.actions.start(
            command,
            self.project,
            references,
            effect=effect,
            arguments=arguments,
            locks=None if locks is None else [record.reference for record in locks],
            after=after,
        )

    async def wires(self, *actions: Action) -> list[dict[str, Any]]:
        """Actions as the API shows them, once those that need no time have ended."""
        await self.cloud.actions.settle()
        now = self.cloud.now()
        return [action_wire(action, now) for action in actions]

    async def answer(self, action: Action, status: int = 201) -> Reply:
        """The usual answer to a change: its action."""
        (wire,) = await self.wires(action)
        return Reply(status, {"action": wire})

    async def changed(self, command: str, entry: Record, **more: Any) -> Reply:
        """Keep what was changed of an object, and answer with an action of it, which :meth:`start` starts."""
        self.cloud.store.put(entry)
        return await self.act(command, entry, **more)

    async def act(self, command: str, *concerned: Record, **more: Any) -> Reply:
        """Start an action, as :meth:`start` does, and answer with it."""
        return await self.answer(self.start(command, *concerned, **more))
