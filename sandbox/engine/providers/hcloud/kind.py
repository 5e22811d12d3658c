"""A kind of hcloud resource: its inputs, and how it is created, read, changed and deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sandbox.engine.errors import PartialError, ProviderError, UnsupportedError
from sandbox.engine.providers.hcloud.api import Api
from sandbox.engine.values import Properties

_DELETE_RETRY = ("conflict", "locked", "resource_in_use", "service_error")


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
        classic: Served by the older half of the genuine plugin, which notes `__defaults`.
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
        """Create it and return its outputs, `id` among them."""
        raise NotImplementedError

    def read(self, api: Api, identity: str, inputs: Properties) -> Properties:
        """Its outputs.

        Raises:
            ResourceNotFoundError: It is gone.
        """
        raise NotImplementedError

    def change(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:  # noqa: ARG002
        """Change these inputs in place."""
        raise UnsupportedError(f"changing '{keys[0]}' of {self.type} in place")

    def repair(self, api: Api, identity: str, inputs: Properties) -> None:
        """Do what a failed creation has left undone."""

    def drift(self, key: str, given: Any, real: Any) -> Any:
        """The value of an input after a refresh: the given one where both mean the same."""
        return given if self.normal(key, given) == self.normal(key, real) else real

    def delete(self, api: Api, identity: str, inputs: Properties) -> None:
        """Delete it; what is gone is no error."""
        raise NotImplementedError

    def find(self, api: Api, inputs: Properties) -> Properties | None:  # noqa: ARG002
        """What a killed run left of a creation: its outputs, finished; None where there is nothing."""
        return None

    def normal(self, key: str, value: Any) -> Any:
        """A value for comparisons: nothing and empty are the same, sets have no order."""
        if value in ([], {}, ""):
            return None
        if key in self.sets and isinstance(value, list):
            return sorted(value, key=repr)
        return value


class NamedKind(Kind):
    """A kind with an own collection in the API and a name that is unique in the project.

    Class attributes:
        collection: Path and list key, such as `ssh_keys`.
        single: Key of one, such as `ssh_key`.
    """

    collection: ClassVar[str]
    single: ClassVar[str]
    named = True

    def body(self, inputs: Properties) -> Properties:
        """The body of the POST."""
        raise NotImplementedError

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        """Outputs from the API's object."""
        raise NotImplementedError

    def create(self, api: Api, inputs: Properties) -> Properties:
        """POST, wait, read again where there was something to wait for."""
        return self.finish(api, api.post(f"/{self.collection}", self.body(inputs)), inputs)

    def finish(self, api: Api, answer: Mapping[str, Any], inputs: Properties) -> Properties:
        """Everything after the POST; what fails now is kept in the state.

        Raises:
            PartialError: It exists, but something is missing.
        """
        found = answer[self.single]
        try:
            api.wait(answer)
            self.complete(api, found, inputs)
        except ProviderError as error:
            raise PartialError(str(error), str(found["id"]), self.outputs(found, inputs)) from error
        if self.settled(answer, inputs):
            return self.outputs(found, inputs)
        return self.read(api, str(found["id"]), inputs)

    def settled(self, answer: Mapping[str, Any], inputs: Properties) -> bool:  # noqa: ARG002
        """Tell whether the POST's answer shows the final object."""
        return True

    def complete(self, api: Api, found: Mapping[str, Any], inputs: Properties) -> None:
        """What is left to do after the POST, idempotent."""

    def repair(self, api: Api, identity: str, inputs: Properties) -> None:
        """Do what is left to do after the POST."""
        self.complete(api, self.get(api, identity), inputs)

    def get(self, api: Api, identity: str) -> dict[str, Any]:
        """The API's object."""
        return api.get(f"/{self.collection}/{identity}")[self.single]

    def read(self, api: Api, identity: str, inputs: Properties) -> Properties:
        """GET."""
        return self.outputs(self.get(api, identity), inputs)

    def change(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        """PUT for name and labels, the rest by kind."""
        self.alter(api, identity, old, new, [key for key in keys if key not in ("name", "labels")])
        if {"name", "labels"} & set(keys):
            api.put(
                f"/{self.collection}/{identity}", {"name": new["name"], "labels": new.get("labels") or {}}
            )

    def alter(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        """Change what is neither name nor labels."""
        if "deleteProtection" in keys:
            self.protect(api, identity, new)
        rest = [key for key in keys if key not in ("deleteProtection", "rebuildProtection")]
        if rest:
            super().change(api, identity, old, new, rest)

    def protect(self, api: Api, identity: str, inputs: Properties) -> None:
        """Set or clear the delete protection."""
        body = {"delete": bool(inputs.get("deleteProtection"))}
        api.act(f"/{self.collection}/{identity}/actions/change_protection", body)

    def delete(self, api: Api, identity: str, inputs: Properties) -> None:  # noqa: ARG002
        """DELETE, repeated while others still let go of it."""
        api.wait(api.retry(lambda: api.delete(f"/{self.collection}/{identity}"), _DELETE_RETRY, 10))

    def find(self, api: Api, inputs: Properties) -> Properties | None:
        """Look it up by name; the labels must be ours."""
        found = api.find_by_name(self.collection, inputs["name"])
        if found is None:
            return None
        if (found.get("labels") or {}) != (inputs.get("labels") or {}):
            raise ProviderError(
                f"{self.single} '{inputs['name']}' (id {found['id']}) exists, but "
                "its labels are not those of the "
                "interrupted creation: delete or rename it if it is not needed, then run 'pulumi up' again"
            )
        self.complete(api, found, inputs)
        return self.read(api, str(found["id"]), inputs)


def ids(values: Sequence[Any] | None) -> list[int]:
    """Ids as numbers, from whatever form the program used."""
    return [int(value) for value in values or ()]


def present(**values: Any) -> Properties:
    """A body without what is None."""
    return {key: value for key, value in values.items() if value is not None}
