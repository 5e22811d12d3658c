"""A request, independent of the HTTP library."""

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
    """An authorized request."""

    cloud: Cloud
    project: str  # of the token
    parameters: Mapping[str, str]
    query: MultiMapping[str]  # the query, with repetitions
    body: Any  # decoded JSON
    url: str  # URL without the query, for links

    def fields(self) -> Fields:
        """The fields of the body."""
        return Fields(self.body)

    def identity(self, name: str = "id", kind: str = "resource") -> int:
        """A numeric ID from the path; raises NotFound if it isn't a number."""
        text = self.parameters[name]
        if not (text.isascii() and text.isdecimal() and len(text) < 20):
            raise NotFound(kind, text)
        return int(text)

    def get(self, kind: type[R]) -> R:
        """The object in the path; raises NotFound if the project has none with this ID."""
        return self.cloud.store.get(kind, self.project, self.identity("id", kind.KIND))

    def get_free(self, kind: type[R]) -> R:
        """The object in the path; raises Locked, or Conflict for a network, while an action locks it."""
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
        """Start an action on some objects; it locks the first one by default. See :meth:`Actions.start`."""
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
        """Actions as the API shows them, after instant ones have ended."""
        await self.cloud.actions.settle()
        now = self.cloud.now()
        return [action_wire(action, now) for action in actions]

    async def answer(self, action: Action, status: int = 201) -> Reply:
        """Respond with an action."""
        (wire,) = await self.wires(action)
        return Reply(status, {"action": wire})

    async def changed(self, command: str, entry: Record, **more: Any) -> Reply:
        """Store a changed object, start an action as :meth:`start` does, and respond with it."""
        self.cloud.store.put(entry)
        return await self.act(command, entry, **more)

    def run(self, command: str, *concerned: Record, **more: Any) -> Action:
        """Start an action as :meth:`start` does; its effect has the name of the command."""
        return self.start(command, *concerned, effect=command, **more)

    async def act(self, command: str, *concerned: Record, **more: Any) -> Reply:
        """Start an action as :meth:`start` does, and respond with it."""
        return await self.answer(self.start(command, *concerned, **more))
