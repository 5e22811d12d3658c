"""The operations that most resources have: listing, reading, renaming, deletion, and their actions."""

import functools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from hetzner_emulator.actions.actions import Action, action_wire
from hetzner_emulator.actions.events import announce
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.metrics import metrics
from hetzner_emulator.api.registry import add_operation
from hetzner_emulator.backend import BackendError
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, Conflict, InvalidInput, NotFound, Protected, UniquenessError
from hetzner_emulator.state.records import Record
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.pagination import (
    MAX_PER_PAGE,
    filter_entries,
    read_page,
    select_labels,
    sort_entries,
    wanted_values,
)
from hetzner_emulator.wire.reply import Reply

R = TypeVar("R", bound=Record)
Wire = Callable[[Cloud, R], dict[str, Any]]
Filter = Callable[[Cloud, R], str | frozenset[str] | None]
ActionHandler = Callable[[Call, R, Fields], Awaitable[Reply]]

ACTION_SORTS = ("id", "command", "status", "started", "finished")


def listing(
    call: Call, name: str, entries: Sequence[Any], wire: Callable[[Any], Any], most: int = MAX_PER_PAGE
) -> Reply:
    """One page of filtered and sorted entries, with ``most`` of them at most."""
    page = read_page(call.query, len(entries), most)
    body = {name: [wire(entry) for entry in page.cut(entries)], "meta": page.meta()}
    return Reply(200, body, {"Link": page.link(call.url, call.query.items())})


def created(key: str, value: Any, **more: Any) -> Reply:
    """A response with status 201 and an object."""
    return Reply(201, {key: value, **more})


@dataclass(frozen=True)
class Resource(Generic[R]):
    """A resource of the API, with the operations that most resources have.

    These are the listing, GET and PUT of one object and, if the resource has them, DELETE, metrics, and the
    listings of actions.
    """

    path: str  # for example `ssh_keys`; also the key of listings, and the name of the quota
    kind: type[R]  # class of its records; its `KIND` is the key of single objects
    wire: Wire[R]  # how the API shows one
    sorts: Collection[str] = ("id", "name", "created")  # fields that listings can be sorted by
    # query parameters with the text that they compare with
    filters: Mapping[str, Filter[R]] = field(default_factory=dict)
    longest_name: int = 128  # maximum length of a name in characters
    # describes what is invalid in a name; "" if it is valid
    name_problem: Callable[[str], str] = lambda _name: ""
    by_name: bool = False  # whether paths can have a name in place of the ID
    renames: bool = True  # whether PUT changes the name
    flags: Collection[str] = ()  # further booleans that PUT changes
    texts: Collection[str] = ()  # further texts that PUT changes
    put_conflicts: bool = False  # whether PUT is refused while an action changes the object
    deletes: bool = True  # whether DELETE is registered here
    # the field that protects an object against DELETE, which a running action then prevents, too; or ""
    protection: str = ""
    # whether `delete` is `optional` or `required` in the action `change_protection`; "" if the resource
    # registers the action itself, or has none
    changes_protection: Literal["", "optional", "required"] = ""
    # raises other reasons against deletion
    check_delete: Callable[[Cloud, R], None] = lambda _cloud, _entry: None
    delete_status: int = 0  # of the response if an action `delete_…` deletes the object; 0 if DELETE does
    # deletes what the backend has of an object; if it fails, the object stays
    delete_from_backend: Callable[[Cloud, R], Awaitable[None]] | None = None
    backend_error: str = "service_error"  # code of the response to such a failure
    # names of the series in its metrics by their type; empty if it has none
    series: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    actions: bool = True  # whether the resource has actions
    of_state: bool = False  # whether `wire` depends on the state alone, so that its result can be cached

    def register(self) -> None:
        """Register the operations that most resources have."""
        one = f"/{self.path}/{{{'id_or_name' if self.by_name else 'id'}}}"
        add_operation("GET", f"/{self.path}", self._list)
        add_operation("GET", one, self._get)
        add_operation("PUT", one, self._update)
        if self.deletes:
            add_operation("DELETE", one, self._delete)
        if self.series:
            add_operation("GET", f"{one}/metrics", self._metrics)
        if self.actions:
            add_operation("GET", f"/{self.path}/actions", self._actions)
            add_operation("GET", f"/{self.path}/actions/{{id}}", self._action)
            add_operation("GET", f"{one}/actions", self.own_actions)
            add_operation("GET", f"{one}/actions/{{action_id}}", self._own_action)
        if self.changes_protection:
            self.action("change_protection")(self._change_protection)

    def action(self, name: str) -> Callable[[ActionHandler[R]], ActionHandler[R]]:
        """Register the decorated coroutine for the POST of an action on one object.

        Its arguments are the request, the object, which no action locks, and the fields of the body.
        """

        def register(handler: ActionHandler[R]) -> ActionHandler[R]:
            async def answer(call: Call) -> Reply:
                return await handler(call, call.get_free(self.kind), call.fields())

            add_operation("POST", f"/{self.path}/{{id}}/actions/{name}", answer)
            return handler

        return register

    def find(self, call: Call) -> R:
        """The object that the path names; raises NotFound if the project has none."""
        if not self.by_name:
            return call.get(self.kind)
        text = call.parameters["id_or_name"]
        for entry in call.cloud.store.named(self.kind, call.project, text):
            return entry
        return call.cloud.store.get(self.kind, call.project, call.identity("id_or_name", self.kind.KIND))

    def check_new(self, call: Call, name: str) -> None:
        """Refuse one more object (UniquenessError, LimitExceeded)."""
        self._check_unique(call, name)
        call.cloud.check_limit(self.path, call.cloud.store.count(self.kind, call.project))

    def new(self, call: Call, name: str, labels: dict[str, str], **values: Any) -> R:
        """A new object with a name that :meth:`check_new` accepted; the caller stores it."""
        cloud = call.cloud
        return self.kind(
            id=cloud.store.new_id(self.kind),
            project=call.project,
            name=name,
            labels=labels,
            created=cloud.now(),
            **values,
        )

    def show(self, call: Call, entry: R) -> dict[str, Any]:
        """The object as the API shows it."""
        return self.wire(call.cloud, entry)

    def encoded(self, cloud: Cloud, entry: R) -> Any:
        """The object as the API shows it, cached as JSON if that depends on the state alone."""
        if not self.of_state:
            return self.wire(cloud, entry)
        return cloud.encoded.of((entry.KIND, entry.id), lambda: self.wire(cloud, entry))

    async def _list(self, call: Call) -> Reply:
        store, name = call.cloud.store, call.query.get("name")
        known = store.named(self.kind, call.project, name) if name else store.of(self.kind, call.project)
        entries = self.select(call, list(known))
        entries = sort_entries(entries, call.query.getall("sort", []), self.sorts)
        return listing(call, self.path, entries, lambda entry: self.encoded(call.cloud, entry))

    def select(self, call: Call, entries: list[R]) -> list[R]:
        """The entries that match the label selector and the resource's filters."""
        fields = {name: functools.partial(value_of, call.cloud) for name, value_of in self.filters.items()}
        entries = filter_entries(entries, call.query, fields)
        return select_labels(entries, call.query, lambda entry: entry.labels)

    async def _get(self, call: Call) -> Reply:
        return Reply(200, {self.kind.KIND: self.encoded(call.cloud, self.find(call))})

    async def _update(self, call: Call) -> Reply:
        entry, fields = self.find(call), call.fields()
        if self.put_conflicts and call.cloud.actions.locked(self.kind.KIND, entry.id):
            raise Conflict(self.kind.KIND)
        values: dict[str, Any] = {name: fields.flag(name, getattr(entry, name)) for name in self.flags}
        values |= {name: fields.text(name, getattr(entry, name)) for name in self.texts}
        values["name"] = self.read_name(fields) if self.renames and "name" in fields else entry.name
        values["labels"] = fields.labels() if "labels" in fields else entry.labels
        fields.check()
        if values["name"] != entry.name:
            self._check_unique(call, values["name"], entry.id)
        for name, value in values.items():
            setattr(entry, name, value)
        call.cloud.store.put(entry)
        await announce(f"{self.kind.KIND}_changed", call.cloud, entry)
        return Reply(200, {self.kind.KIND: self.wire(call.cloud, entry)})

    async def _delete(self, call: Call) -> Reply:
        entry = self.find(call)
        if self.protection:
            call.cloud.actions.check_free(self.kind.KIND, entry.id)
            if getattr(entry, self.protection):
                raise Protected(self.kind.KIND)
        self.check_delete(call.cloud, entry)
        if self.delete_status:
            return await call.answer(call.run(f"delete_{self.kind.KIND}", entry), self.delete_status)
        call.cloud.store.remove(entry)  # first, so that no request uses the object any more
        if self.delete_from_backend:
            try:
                await self.delete_from_backend(call.cloud, entry)
            except BackendError as error:
                call.cloud.store.put(entry)
                raise ApiError(self.backend_error, str(error)) from error
        return Reply(204, None)

    async def _change_protection(self, call: Call, entry: R, fields: Fields) -> Reply:
        required = self.changes_protection == "required"
        wanted = fields.flag("delete", getattr(entry, self.protection), required=required)
        fields.check()
        setattr(entry, self.protection, wanted)
        return await call.changed("change_protection", entry)

    async def _metrics(self, call: Call) -> Reply:
        return Reply(200, {"metrics": await metrics(call, self.find(call), self.series)})

    def read_name(self, fields: Fields) -> str:
        """The field ``name``, which must be there."""
        return fields.name(self.longest_name, self.name_problem)

    def _check_unique(self, call: Call, name: str, own: int | None = None) -> None:
        if any(other.id != own for other in call.cloud.store.named(self.kind, call.project, name)):
            what = "" if self.path == "networks" else f"{self.kind.KIND.replace('_', ' ')} "
            raise UniquenessError(f"{what}name is already used")

    async def _actions(self, call: Call) -> Reply:
        return self._list_actions(call, self._actions_of(call))

    async def own_actions(self, call: Call) -> Reply:
        """List the actions of one object."""
        return self._list_actions(call, self._actions_of(call, self.find(call)))

    async def _action(self, call: Call) -> Reply:
        return self._one_action(call, self._actions_of(call), "id")

    async def _own_action(self, call: Call) -> Reply:
        return self._one_action(call, self._actions_of(call, self.find(call)), "action_id")

    def _actions_of(self, call: Call, entry: R | None = None) -> list[Action]:
        """The actions of one object, or of all."""
        kind, identity = self.kind.KIND, entry and entry.id
        return [
            action
            for action in call.cloud.store.of(Action, call.project)
            if any(r.type == kind and identity in {None, r.id} for r in action.resources)
        ]

    def _list_actions(self, call: Call, actions: list[Action]) -> Reply:
        if unknown := wanted_values(call.query, "status") - {"running", "success", "error"}:
            raise InvalidInput({"status": [f"'{min(unknown)}' is not allowed"]})
        fields = {"id": lambda action: str(action.id), "status": lambda action: action.status}
        actions = filter_entries(actions, call.query, fields)
        actions = sort_entries(actions, call.query.getall("sort", []), ACTION_SORTS)
        return listing(call, "actions", actions, lambda action: action_wire(action, call.cloud.now()))

    def _one_action(self, call: Call, actions: list[Action], parameter: str) -> Reply:
        identity = call.identity(parameter, "action")
        for action in actions:
            if action.id == identity:
                return Reply(200, {"action": action_wire(action, call.cloud.now())})
        raise NotFound("action", identity)
