"""A kind of hcloud resource: its inputs, and how it is created, read, changed and deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from sandbox.engine.errors import PartialError, ProviderError, ResourceNotFoundError, UnsupportedError
from sandbox.engine.providers.hcloud.api import Api, ApiError, GoneError
from sandbox.engine.values import Properties

BUSY = ("conflict", "locked", "service_error")
_DELETE_RETRY = (*BUSY, "resource_in_use")
PROTECTIONS = {"deleteProtection": "delete", "rebuildProtection": "rebuild"}
"""Inputs, and what the API calls what they protect against."""


class Kind:
    """Base of all kinds. One instance serves all resources of its type; it keeps no state.

    Class attributes:
        type: The type in URNs.
        inputs: Inputs that are supported.
        required: Inputs without which nothing can be created.
        replaces: Inputs that can't be changed in place.
        sets: Inputs whose order has no meaning.
        unread: Inputs that the API does not give back.
        named: It has an automatic name.
        classic: Served by the older half of the genuine plugin, which notes ``__defaults``.
    """

    type: ClassVar[str]
    inputs: ClassVar[frozenset[str]]
    required: ClassVar[tuple[str, ...]] = ()
    replaces: ClassVar[frozenset[str]] = frozenset()
    sets: ClassVar[frozenset[str]] = frozenset()
    unread: ClassVar[frozenset[str]] = frozenset()
    named: ClassVar[bool] = False
    classic: ClassVar[bool] = True

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Create it and return its outputs, ``id`` among them."""
        raise NotImplementedError

    def read(self, api: Api, identity: str, inputs: Properties) -> Properties:
        """Its outputs.

        Raises:
            ResourceNotFoundError: It is gone.
        """
        raise NotImplementedError

    def change(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:  # noqa: ARG002
        """Change these inputs in place."""
        raise UnsupportedError(f"changing '{keys[0]}' of {self.type} in place", "hcloud")

    def repair(self, api: Api, identity: str, inputs: Properties) -> None:
        """Do what a failed creation has left undone."""

    def delete(self, api: Api, identity: str) -> None:
        """Delete it; what is gone is no error."""
        raise NotImplementedError

    def find(self, api: Api, inputs: Properties) -> Properties | None:
        """What a killed run left of a creation: its outputs, finished; None where there is nothing."""
        raise NotImplementedError

    def normal(self, key: str, value: Any) -> Any:
        """A value for comparisons: nothing, empty and no are the same at any depth, sets have no order.

        What the official plugin notes in nested ``__defaults`` is no difference either.
        """
        value = compact(value)
        if key in self.sets and isinstance(value, list):
            return sorted(value, key=repr)
        return value


class NamedKind(Kind):
    """A kind with an own collection in the API and a name that is unique in the project.

    Class attributes:
        collection: Path and list key, such as ``ssh_keys``.
        single: Key of one, such as ``ssh_key``.
        reread: The answer to the POST does not show the final object, or the genuine plugin reads it again.
        deleted_by_action: The DELETE only begins its end.
    """

    collection: ClassVar[str]
    single: ClassVar[str]
    reread: ClassVar[bool] = False
    deleted_by_action: ClassVar[bool] = False
    named = True

    def body(self, api: Api, inputs: Properties) -> Properties:
        """The body of the POST but for name and labels."""
        raise NotImplementedError

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        """Outputs from the API's object."""
        raise NotImplementedError

    def create(self, api: Api, inputs: Properties) -> Properties:
        """POST, wait, read again where there was something to wait for; what fails after the POST is kept.

        Raises:
            PartialError: It exists, but something is missing.
        """
        body = present(name=inputs["name"], labels=inputs.get("labels"), **self.body(api, inputs))
        answer = api.post(f"/{self.collection}", body)
        found = answer[self.single]
        try:
            api.wait(answer)
            self.finish(api, str(found["id"]), inputs)
        except ProviderError as error:
            raise PartialError(str(error), str(found["id"]), self.outputs(found, inputs)) from error
        return self.read(api, str(found["id"]), inputs) if self.reread else self.outputs(found, inputs)

    def finish(self, api: Api, identity: str, inputs: Properties) -> None:
        """Set what can't be said in the POST; whether it is protected is set last."""
        if protection := self._protection(inputs):
            api.act(f"/{self.collection}/{identity}/actions/change_protection", protection)

    def _protection(self, inputs: Properties) -> Properties:
        """What it is protected against; empty where no input says so."""
        return {what: True for key, what in PROTECTIONS.items() if inputs.get(key)}

    def repair(self, api: Api, identity: str, inputs: Properties) -> None:
        """Wait for what still runs."""
        found = self.get(api, identity)
        if found.get("locked"):
            api.wait(api.get(f"/{self.collection}/{identity}/actions", status="running"))
        if any(not found["protection"][what] for what in self._protection(inputs)):
            self.finish(api, identity, inputs)

    def get(self, api: Api, identity: str) -> dict[str, Any]:
        """The API's object."""
        return api.get(f"/{self.collection}/{identity}")[self.single]

    def read(self, api: Api, identity: str, inputs: Properties) -> Properties:
        """GET."""
        return self.outputs(self.get(api, identity), inputs)

    def change(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        """PUT for name and labels, the rest by kind."""
        rest = [key for key in keys if key not in ("name", "labels", *PROTECTIONS)]
        if rest:
            self.alter(api, identity, old, new, rest)
        path = f"/{self.collection}/{identity}"
        if {"name", "labels"} & set(keys):
            api.put(path, {"name": new["name"], "labels": new.get("labels") or {}})
        if PROTECTIONS.keys() & set(keys):
            wanted = {what: bool(new.get(key)) for key, what in PROTECTIONS.items() if key in self.inputs}
            api.act(f"{path}/actions/change_protection", wanted)

    def alter(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        """Change what is neither name nor labels."""
        super().change(api, identity, old, new, keys)

    def delete(self, api: Api, identity: str) -> None:
        """DELETE, repeated while others still let go of it."""
        path = f"/{self.collection}/{identity}"

        def delete() -> dict[str, Any]:
            return api.delete(path, by_action=self.deleted_by_action)

        try:
            api.wait(api.retry(delete, _DELETE_RETRY, 10))
        except ApiError as error:
            if error.code != "locked":
                raise
            # a server that still shuts down, because an earlier run that lost the answer deletes it
            with suppress(GoneError):
                api.settle(path)
            api.wait(delete())

    def find(self, api: Api, inputs: Properties) -> Properties | None:
        """Look it up by name; the labels must be ours."""
        found = api.find_by_name(self.collection, inputs["name"])
        if found is None:
            return None
        if (found.get("labels") or {}) != (inputs.get("labels") or {}):
            raise ProviderError(
                f"{self.single} '{inputs['name']}' (id {found['id']}) exists, but its labels are not those "
                "of the interrupted creation: delete or rename it if it is not needed, then run "
                "'pulumi up' again"
            )
        self.repair(api, str(found["id"]), inputs)
        return self.read(api, str(found["id"]), inputs)


class Part(Kind):
    """Something that has no id of its own: another object's actions make and remove it."""

    def owner(self, inputs: Properties) -> str:
        """Path of that object."""
        raise NotImplementedError

    def identity(self, inputs: Properties) -> str:
        """The id that the inputs lead to."""
        raise NotImplementedError

    def find(self, api: Api, inputs: Properties) -> Properties | None:
        """The part, if it came to be."""
        try:
            api.settle(self.owner(inputs))
            return self.read(api, self.identity(inputs), inputs)
        except ResourceNotFoundError:
            return None


def compact(value: Any) -> Any:
    """A value without what is empty, or kept by a provider for itself; None where nothing is left."""
    if isinstance(value, dict):
        parts = {key: compact(part) for key, part in value.items() if not key.startswith("__")}
        value = {key: part for key, part in parts.items() if part is not None}
    if value in ([], {}, "") or value is False:
        return None
    return value


def present(**values: Any) -> Properties:
    """A body without what is None."""
    return {key: value for key, value in values.items() if value is not None}
