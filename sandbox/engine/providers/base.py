"""The interface between the engine and whatever manages resources."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.engine.errors import UnsupportedError
from sandbox.engine.properties.values import Properties, changed_keys, mark_keys, mark_like, plain
from sandbox.engine.providers.surroundings import Surroundings
from sandbox.engine.state.resource import Resource

LOADING = threading.Lock()
"""Held while a client library or gRPC is loaded. Where two threads load packages that import each other, as
requests and what the Kubernetes client takes of it, Python lets one go on with a package that is not complete
yet, or tells one of them of a deadlock."""


@dataclass(frozen=True)
class Diff:
    """What a provider says about a change.

    Attributes:
        changes: Something changes.
        replaces: Paths that can't be changed in place.
        delete_before_replace: Old and new can't exist at once.
        keys: Paths that change, for the display.
    """

    changes: bool
    replaces: Sequence[str] = ()
    delete_before_replace: bool = False
    keys: Sequence[str] = ()


@dataclass(frozen=True)
class Created:
    """A resource that now exists."""

    id: str
    outputs: Properties


@dataclass(frozen=True)
class Read:
    """A resource as it is in reality."""

    id: str
    inputs: Properties
    outputs: Properties


@dataclass(frozen=True)
class Request:
    """What the engine asks a provider to create."""

    urn: str
    type: str
    inputs: Properties
    timeout: float | None = None


class Provider:
    """A provider of resources; the methods that a subclass lacks are clear errors.

    Methods are called from several threads at once. Every failure is an EngineError.
    """

    accept_secrets = False
    """Inputs and outputs may contain secret marks; otherwise the engine strips and restores them."""

    def sent(self, values: Properties) -> Properties:
        """Values as this provider takes them."""
        return values if self.accept_secrets else plain(values)

    def marked(self, inputs: Properties, values: Properties, keys: Sequence[str] = ()) -> Properties:
        """What this provider has answered, with secret marks.

        Args:
            inputs: Where these have secrets, so has the answer of a provider that does not know any.
            values: The answer.
            keys: Top-level keys that are secret in any case.
        """
        found = values if self.accept_secrets else mark_like(inputs, values)
        return mark_keys(keys, found)

    def check(self, urn: str, kind: str, olds: Properties, news: Properties, seed: bytes) -> Properties:  # noqa: ARG002
        """Validate inputs and fill in defaults.

        Args:
            urn: Of the resource.
            kind: Its type.
            olds: Inputs of the last run, empty for a new one; automatic names come from them.
            news: What the program wants.
            seed: Randomness for a new automatic name.

        Raises:
            ProviderError: An input is wrong.
        """
        return news

    def diff(self, old: Resource, news: Properties) -> Diff:
        """Compare a resource with new, checked inputs."""
        keys = changed_keys(old.inputs, news)
        return Diff(changes=bool(keys), keys=keys)

    def create(self, request: Request) -> Created:
        """Create a resource and wait until it is usable."""
        raise UnsupportedError(f"creating resources of type '{request.type}'")

    def adopt(self, request: Request) -> Created | None:  # noqa: ARG002
        """Find and finish what a killed run was creating.

        Returns:
            The resource, or None where there is no trace of it.
        """
        return None

    def update(self, old: Resource, news: Properties, timeout: float | None) -> Properties:  # noqa: ARG002
        """Change a resource in place and return its outputs."""
        raise UnsupportedError(f"updating resources of type '{old.type}'")

    def preview_update(self, old: Resource, news: Properties) -> Properties:  # noqa: ARG002
        """Outputs after an update as far as they are known; the SDK treats missing ones as unknown."""
        return dict(news)

    def delete(self, old: Resource, timeout: float | None) -> None:  # noqa: ARG002
        """Delete a resource and wait until it is gone; one that is gone already is no error."""
        raise UnsupportedError(f"deleting resources of type '{old.type}'")

    def read(self, old: Resource) -> Read:
        """Read a resource.

        Raises:
            ResourceNotFoundError: It is gone.
        """
        raise UnsupportedError(f"reading resources of type '{old.type}'")

    def close(self) -> None:
        """Release connections and processes."""


class UnconfiguredProvider(Provider):
    """Stands in during previews for a provider whose configuration is not known yet: compares inputs."""

    accept_secrets = True


class ConfiguredProvider(Provider):
    """A provider of a package.

    Args:
        inputs: Its configuration, without internal keys.
        around: Where it runs.
    """

    def __init__(self, inputs: Properties, around: Surroundings) -> None:
        raise NotImplementedError

    @staticmethod
    def check_config(inputs: Properties) -> None:
        """Refuse settings that the engine does not have.

        Raises:
            EngineError: With the key.
        """

    @staticmethod
    def moved(old: Properties, new: Properties) -> list[str]:  # noqa: ARG004
        """Settings because of which the provider now talks to another system."""
        return []
