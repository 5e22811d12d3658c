"""A kind of hcloud resource: its inputs, and how it is created, read, changed and deleted."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from pulumi_plugins.errors import PartialError, ProviderError, ResourceNotFoundError, UnsupportedError
from pulumi_plugins.hcloud.api import Api, ApiError, GoneError, UnclearError
from pulumi_plugins.values import Properties

PROTECTIONS = {"deleteProtection": "delete", "rebuildProtection": "rebuild"}
"""The inputs that protect a resource, and the API's name for each input."""


class Kind:
    """Base of all kinds. One instance serves all resources of its type; it keeps no state."""

    inputs: ClassVar[frozenset[str]]  # supported inputs
    required: ClassVar[tuple[str, ...]] = ()  # required inputs
    replaces: ClassVar[frozenset[str]] = frozenset()  # inputs that can't be changed in place
    sets: ClassVar[frozenset[str]] = frozenset()  # inputs whose order has no meaning
    unread: ClassVar[frozenset[str]] = frozenset()  # inputs that the API doesn't return
    fields: ClassVar[tuple[str, ...]] = ()  # inputs that are also fields of the API (`snake`)
    answered: ClassVar[tuple[str, ...]] = ()  # the same for outputs that aren't inputs
    resets: ClassVar[frozenset[str]] = frozenset()  # inputs that an update resets if nothing sets them
    named: ClassVar[bool] = False  # whether it has an automatic name
    classic: ClassVar[bool] = True  # served by the older half of the genuine plugin, which notes `__defaults`

    def body(self, inputs: Properties) -> Properties:
        """The body of the request that creates it."""
        return {snake(name): inputs[name] for name in self.fields}

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:  # noqa: ARG002
        """Outputs of the API's object, except for those that all kinds have."""
        return {name: found.get(snake(name)) for name in (*self.fields, *self.answered)}

    def change(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:  # noqa: ARG002
        """Change these inputs in place."""
        raise UnsupportedError(f"updates of the input '{keys[0]}' of a {type(self).__name__}", "hcloud")

    def repair(self, api: Api, identity: str, inputs: Properties) -> None:
        """Complete a failed creation."""

    def normal(self, key: str, value: Any) -> Any:
        """A value for comparisons: None, empty and False are the same at any depth, sets have no order.

        Nested ``__defaults`` of the official plugin are ignored.
        """
        return compact(value, ordered=key not in self.sets)


class NamedKind(Kind):
    """A kind with a collection in the API and a name that is unique in the project."""

    collection: ClassVar[str]  # path and list key, such as `ssh_keys`
    # the answer to the POST isn't the final object, or the genuine plugin reads it again
    reread: ClassVar[bool] = False
    deleted_by_action: ClassVar[bool] = False  # the DELETE only starts the deletion
    named = True

    def create(self, api: Api, inputs: Properties) -> Properties:
        """POST, wait, and read again if necessary; PartialError keeps an object after a failure."""
        body = {"name": inputs["name"], "labels": inputs.get("labels"), **self.body(inputs)}
        try:
            answer = api.send("POST", f"/{self.collection}", present(**body))
            found = answer[self.collection[:-1]]
        except UnclearError:
            # it may exist although the response was lost
            if (made := self.find(api, inputs)) is None:
                raise
            self.repair(api, str(made["id"]), inputs)
            return self.read(api, str(made["id"]), inputs)
        try:
            api.wait(answer)
            self.finish(api, str(found["id"]), inputs)
        except ProviderError as error:
            raise PartialError(str(error), str(found["id"]), self._outputs(found, inputs)) from error
        return self.read(api, str(found["id"]), inputs) if self.reread else self._outputs(found, inputs)

    def finish(self, api: Api, identity: str, inputs: Properties) -> None:
        """Set everything that the POST can't; protection comes last."""
        if protection := {what: True for key, what in PROTECTIONS.items() if inputs.get(key)}:
            api.act(f"/{self.collection}/{identity}/actions/change_protection", protection)

    def repair(self, api: Api, identity: str, inputs: Properties) -> None:
        """Wait for running actions, and finish."""
        if self.get(api, identity).get("locked"):
            api.settle(f"/{self.collection}/{identity}")
        self.finish(api, identity, inputs)

    def get(self, api: Api, identity: str) -> dict[str, Any]:
        """The API's object."""
        return api.get(f"/{self.collection}/{identity}")[self.collection[:-1]]

    def read(self, api: Api, identity: str, inputs: Properties) -> Properties:
        """GET."""
        return self._outputs(self.get(api, identity), inputs)

    def _outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        protected = {
            key: found["protection"][what] for key, what in PROTECTIONS.items() if key in self.inputs
        }
        common = {"id": str(found["id"]), "labels": found.get("labels") or {}, "name": found["name"]}
        return {**common, **protected, **self.outputs(found, inputs)}

    def change(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        """PUT for name and labels, the rest by kind."""
        rest = [key for key in keys if key not in ("name", "labels", *PROTECTIONS)]
        if rest:
            self.alter(api, identity, old, new, rest)
        path = f"/{self.collection}/{identity}"
        if {"name", "labels"} & set(keys):
            api.send("PUT", path, {"name": new["name"], "labels": new.get("labels") or {}})
        if PROTECTIONS.keys() & set(keys):
            wanted = {what: bool(new.get(key)) for key, what in PROTECTIONS.items() if key in self.inputs}
            api.act(f"{path}/actions/change_protection", wanted)

    def alter(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        """Change inputs other than name and labels."""
        super().change(api, identity, old, new, keys)

    def delete(self, api: Api, identity: str) -> None:
        """DELETE, repeated while others still use it."""
        path = f"/{self.collection}/{identity}"

        def delete() -> dict[str, Any]:
            return api.delete(path, by_action=self.deleted_by_action)

        try:
            api.wait(api.retry(delete))
        except ApiError as error:
            if error.code != "locked":
                raise
            # a server that is still shutting down for an earlier run, which lost the answer
            with suppress(GoneError):
                api.settle(path)
            api.wait(delete())

    def find(self, api: Api, inputs: Properties) -> dict[str, Any] | None:
        """The object of an interrupted creation, or None; raises ProviderError if it has other labels."""
        found = next(iter(api.get(f"/{self.collection}", name=inputs["name"])[self.collection]), None)
        if found is not None and (found.get("labels") or {}) != (inputs.get("labels") or {}):
            raise ProviderError(
                f"{self.collection[:-1]} '{inputs['name']}' (ID {found['id']}) already exists. It "
                "doesn't have the labels of this stack, so another owner created it. Rename this object, "
                "or delete it if you don't need it. Then run 'pulumi up' again"
            )
        return found


class Part(Kind):
    """A part of another object, its owner, whose actions add and remove it; the API gives it no ID."""

    owner: ClassVar[str]  # the owner's collection
    belongs: ClassVar[str]  # the input that names the owner
    listed: ClassVar[str]  # the owner's list of such parts
    keyed: ClassVar[str]  # the field that identifies it, in the list and in requests
    pattern: ClassVar[str] = "{owner}-{key}"  # of the ID, with `owner` and `key`
    actions: ClassVar[tuple[str, str]]  # the actions that add and remove it
    removed_by: ClassVar[tuple[str, ...]]  # fields of the first action that the second one takes, too

    def key(self, item: Mapping[str, Any]) -> Any:
        """The key of a part in the owner's list or in a request."""
        return item[self.keyed]

    def identity(self, inputs: Properties) -> str:
        """The ID of a part with these inputs."""
        return self.pattern.format(owner=int(inputs[self.belongs]), key=self.key(self.body(inputs)))

    def owned(self, owner: Mapping[str, Any]) -> Properties:
        """Outputs that come from the owner."""
        return {self.belongs: owner["id"]}

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Add it, unless an earlier run added it and then was killed or lost the answer."""
        identity = self.identity(inputs)
        path = self._path(identity)
        try:
            self.act(api, identity, self.actions[0], self.body(inputs))
        except ProviderError:
            with suppress(ResourceNotFoundError):
                api.settle(path)
                there = self.read(api, identity, inputs)
                known = inputs.keys() & there.keys() - self.unread - {self.belongs}
                other = [
                    key for key in known if self.normal(key, inputs[key]) != self.normal(key, there[key])
                ]
                if not self.replaces.intersection(other):
                    if other:
                        self.change(api, identity, there, inputs, other)
                    return self.read(api, identity, inputs)
            raise
        return self.read(api, identity, inputs)

    def read(self, api: Api, identity: str, inputs: Properties) -> Properties:
        """Find it in its owner."""
        path = self._path(identity)
        owner = api.get(path)[self.owner[:-1]]
        for item in owner[self.listed]:
            if self.pattern.format(owner=owner["id"], key=self.key(item)) == identity:
                return {"id": identity, **self.owned(owner), **self.outputs(item, inputs)}
        raise ResourceNotFoundError(f"{path} no longer has {identity}")

    def delete(self, api: Api, identity: str) -> None:
        """Remove it; fine if it or its owner is gone."""
        with suppress(ResourceNotFoundError):
            added = self.body(self.read(api, identity, {}))
            body = {field: added[field] for field in self.removed_by}
            try:
                self.act(api, identity, self.actions[1], body)
            except ApiError:
                self.read(api, identity, {})
                raise

    def discard(self, api: Api, identity: str) -> bool:
        """Remove a part that a killed run was adding; returns whether it exists."""
        with suppress(ResourceNotFoundError):
            api.settle(self._path(identity))
            self.read(api, identity, {})
            self.delete(api, identity)
            return True
        return False

    def act(self, api: Api, identity: str, action: str, body: Properties | None = None) -> None:
        """Run an action of the owner."""
        api.retry(lambda: api.act(f"{self._path(identity)}/actions/{action}", body))

    def _path(self, identity: str) -> str:
        """The owner's path; its ID is the first or last number of an ID."""
        owner = re.search(r"^\d+|\d+$", identity)
        if owner is None:
            raise ProviderError(f"'{identity}' is not the ID of a {type(self).__name__}")
        return f"/{self.owner}/{owner[0]}"


def compact(value: Any, *, ordered: bool = True) -> Any:
    """A value without empty parts and a provider's internal ones; None if that leaves nothing."""
    if isinstance(value, dict):
        kept = {key: compact(value[key], ordered=ordered) for key in sorted(value) if key[:2] != "__"}
        value = {key: part for key, part in kept.items() if part is not None}
    if isinstance(value, list) and not ordered:
        value = sorted((compact(part, ordered=False) for part in value), key=repr)
    return None if value in ([], {}, "") or value is False else value


def snake(name: str) -> str:
    """The API's name of a field, ``ip_range`` for the SDK's ``ipRange``."""
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def present(**values: Any) -> Properties:
    """A body without None."""
    return {key: value for key, value in values.items() if value is not None}
