"""What most resources share: listing, reading, renaming, and listing their actions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sandbox.cloud.actions import Action, action_wire
from sandbox.cloud.call import Call
from sandbox.cloud.cloud import Cloud
from sandbox.cloud.errors import InvalidInput, NotFound, UniquenessError
from sandbox.cloud.fields import Fields
from sandbox.cloud.labels import parse_selector
from sandbox.cloud.pagination import read_page, sort_entries
from sandbox.cloud.records import Record, Reference
from sandbox.cloud.registry import add_operation
from sandbox.cloud.reply import Reply

R = TypeVar("R", bound=Record)
Wire = Callable[[Cloud, R], dict[str, Any]]
Filter = Callable[[Cloud, R], str]

ACTION_SORTS = ("id", "command", "status", "started", "finished")


def listing(call: Call, name: str, entries: Sequence[Any], wire: Callable[[Any], Any]) -> Reply:
    """One page of entries that are filtered and sorted already."""
    page = read_page(call.query, len(entries))
    body = {name: [wire(entry) for entry in page.cut(entries)], "meta": page.meta()}
    return Reply(200, body, {"Link": page.link(call.url, call.query.items())})


def created(key: str, value: Any, **more: Any) -> Reply:
    """Status 201 with an object."""
    return Reply(201, {key: value, **more})


async def action_reply(call: Call, action: Action, status: int = 201) -> Reply:
    """The usual answer to a change: its action."""
    await call.cloud.actions.settle()
    return Reply(status, {"action": action_wire(action, call.cloud.now())})


async def actions_reply(call: Call, actions: Iterable[Action], status: int = 201) -> Reply:
    """The answer to a change with several actions."""
    await call.cloud.actions.settle()
    now = call.cloud.now()
    return Reply(status, {"actions": [action_wire(action, now) for action in actions]})


def check_unique(call: Call, kind: type[Record], name: str, own: int | None = None) -> None:
    """Refuse a name that another object of this kind has.

    Raises:
        UniquenessError: one has.
    """
    if any(other.id != own for other in call.cloud.store.named(kind, call.project, name)):
        raise UniquenessError(f"{kind.KIND.replace('_', ' ')} name is already used")


@dataclass(frozen=True)
class Resource(Generic[R]):
    """A resource's place in the API.

    Attributes:
        path: for example ``ssh_keys``; also the key of listings.
        kind: class of its records; its ``KIND`` is the key of single objects.
        wire: how the API shows one.
        sorts: fields that listings can be sorted by.
        filters: query parameters with the text that they compare with.
        name_problem: says what is wrong with a name, or "".
    """

    path: str
    kind: type[R]
    wire: Wire[R]
    sorts: Collection[str] = ("id", "name", "created")
    filters: Mapping[str, Filter[R]] = field(default_factory=dict)
    name_problem: Callable[[str], str] = lambda _name: ""

    def add_reads(self) -> None:
        """Answer the listing and GET of one."""
        add_operation("GET", f"/{self.path}", self._list)
        add_operation("GET", f"/{self.path}/{{id}}", self._get)

    def add_update(self) -> None:
        """Answer PUT of name and labels."""
        add_operation("PUT", f"/{self.path}/{{id}}", self._update)

    def add_actions(self) -> None:
        """Answer the listings of actions, of the resource and of one object."""
        add_operation("GET", f"/{self.path}/actions", self._actions)
        add_operation("GET", f"/{self.path}/actions/{{id}}", self._action)
        add_operation("GET", f"/{self.path}/{{id}}/actions", self._own_actions)
        add_operation("GET", f"/{self.path}/{{id}}/actions/{{action_id}}", self._own_action)

    def show(self, call: Call, entry: R) -> dict[str, Any]:
        """The API's view of one."""
        return self.wire(call.cloud, entry)

    async def _list(self, call: Call) -> Reply:
        store, name = call.cloud.store, call.query.get("name")
        known = store.named(self.kind, call.project, name) if name else store.of(self.kind, call.project)
        entries = self.select(call, list(known))
        entries = sort_entries(entries, call.query.getall("sort", []), self.sorts)
        return listing(call, self.path, entries, lambda entry: self.wire(call.cloud, entry))

    def select(self, call: Call, entries: list[R]) -> list[R]:
        """The entries that the label selector and the resource's own filters let through."""
        query = call.query
        if text := query.get("label_selector"):
            selector = parse_selector(text)
            entries = [entry for entry in entries if selector.matches(entry.labels)]
        for parameter, value_of in self.filters.items():
            if wanted := {value for value in query.getall(parameter, []) if value}:
                entries = [entry for entry in entries if value_of(call.cloud, entry) in wanted]
        return entries

    async def _get(self, call: Call) -> Reply:
        return Reply(200, {self.kind.KIND: self.wire(call.cloud, call.get(self.kind))})

    async def _update(self, call: Call) -> Reply:
        entry, fields = call.get(self.kind), call.fields()
        self.apply_update(call, entry, fields)
        return Reply(200, {self.kind.KIND: self.wire(call.cloud, entry)})

    def apply_update(self, call: Call, entry: R, fields: Fields) -> None:
        """Change name and labels as far as the fields have them.

        Raises:
            InvalidInput: a value is wrong.
            UniquenessError: the name is taken.
        """
        name = self.read_name(fields) if "name" in fields else entry.name
        labels = fields.labels() if "labels" in fields else entry.labels
        fields.check()
        if name != entry.name:
            check_unique(call, self.kind, name, entry.id)
        entry.name, entry.labels = name, labels
        call.cloud.store.put(entry)

    def read_name(self, fields: Fields) -> str:
        """The field ``name``, which must be there."""
        name = fields.text("name", required=True, longest=128)
        if name and (problem := self.name_problem(name)):
            fields.wrong("name", problem)
        return name

    async def _actions(self, call: Call) -> Reply:
        return self._list_actions(call, self._of_resource(call))

    async def _own_actions(self, call: Call) -> Reply:
        own = Reference(self.kind.KIND, call.get(self.kind).id)
        return self._list_actions(call, [a for a in self._of_resource(call) if own in a.resources])

    async def _action(self, call: Call) -> Reply:
        return self._one_action(call, self._of_resource(call), "id")

    async def _own_action(self, call: Call) -> Reply:
        own = Reference(self.kind.KIND, call.get(self.kind).id)
        return self._one_action(call, [a for a in self._of_resource(call) if own in a.resources], "action_id")

    def _of_resource(self, call: Call) -> list[Action]:
        kind = self.kind.KIND
        actions = call.cloud.store.of(Action, call.project)
        return [action for action in actions if any(r.type == kind for r in action.resources)]

    def _list_actions(self, call: Call, actions: list[Action]) -> Reply:
        if identities := call.query.getall("id", []):
            actions = [action for action in actions if str(action.id) in identities]
        if wanted := call.query.getall("status", []):
            if unknown := set(wanted) - {"running", "success", "error"}:
                raise InvalidInput({"status": [f"'{unknown.pop()}' is not allowed"]})
            actions = [action for action in actions if action.status in wanted]
        actions = sort_entries(actions, call.query.getall("sort", []), ACTION_SORTS)
        return listing(call, "actions", actions, lambda action: action_wire(action, call.cloud.now()))

    def _one_action(self, call: Call, actions: list[Action], parameter: str) -> Reply:
        identity = call.identity(parameter, "action")
        for action in actions:
            if action.id == identity:
                return Reply(200, {"action": action_wire(action, call.cloud.now())})
        raise NotFound("action", identity)
