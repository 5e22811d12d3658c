"""Finds the provider for a reference, makes default providers, and compares configurations."""

from __future__ import annotations

import threading

from sandbox.engine.errors import EngineError, UnsupportedError
from sandbox.engine.projects.config import Configuration
from sandbox.engine.properties.values import (
    UNKNOWN,
    Properties,
    changed_keys,
    has_unknown,
    plain,
    secret,
    without_internal,
)
from sandbox.engine.providers.base import LOADING, ConfiguredProvider, Diff, Provider, UnconfiguredProvider
from sandbox.engine.providers.surroundings import Surroundings
from sandbox.engine.state.resource import provider_urn
from sandbox.engine.state.snapshot import Snapshot

PACKAGES = ("hcloud", "kubernetes", "pulumi-python")


class Registry:
    """All providers of a run, each made once, when it is first needed."""

    def __init__(self, snapshot: Snapshot, configuration: Configuration, surroundings: Surroundings) -> None:
        self._snapshot = snapshot
        self._configuration = configuration
        self._surroundings = surroundings
        self._providers: dict[str, Provider] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, reference: str) -> Provider:
        """The provider of a reference (URN and id).

        Raises:
            EngineError: There is no such provider, or it can't start.
        """
        with self._lock:
            lock = self._locks.setdefault(reference, threading.Lock())
        with lock:
            if reference not in self._providers:
                inputs = self.configuration(reference)
                if inputs is None:
                    raise EngineError(f"unknown provider '{reference}'")
                package = provider_urn(reference).split("::")[2].split("$")[-1].rsplit(":", 1)[-1]
                self._providers[reference] = self._make(package, inputs)
            return self._providers[reference]

    def forget(self, reference: str) -> None:
        """Close a provider whose configuration has changed; the next use makes it anew."""
        with self._lock:
            provider = self._providers.pop(reference, None)
        if provider is not None:
            provider.close()

    def configuration(self, reference: str) -> Properties | None:
        """The inputs of a provider, from this run or from the state."""
        urn, identity = reference.rsplit("::", 1)
        candidates = [self._snapshot.news.get(urn), *self._snapshot.olds]
        for state in candidates:
            if state is not None and state.urn == urn and identity in (state.id, UNKNOWN):
                return without_internal(state.inputs)
        return None

    def check_config(self, kind: str, inputs: Properties) -> None:
        """Refuse providers and settings that the engine does not have.

        Raises:
            EngineError: With the package or the key.
        """
        provider_class(kind.rsplit(":", 1)[-1]).check_config(plain(inputs))

    def default_inputs(self, package: str, version: str) -> Properties:
        """The inputs of a package's default provider: what the stack's configuration says about it.

        Raises:
            UnsupportedError: The engine has no such package.
        """
        if package not in PACKAGES:
            raise _unknown_package(package)
        inputs = {}
        for key in sorted(self._configuration.values):
            value = self._configuration.values[key]
            value = secret(value) if key in self._configuration.secret_keys else value
            if package == "pulumi-python":
                inputs[key] = value
            elif key.startswith(f"{package}:"):
                inputs[key.split(":", 1)[1]] = value
        return inputs | ({"version": version} if version else {})

    def close(self) -> None:
        """Close all providers."""
        for provider in self._providers.values():
            provider.close()

    def _make(self, package: str, inputs: Properties) -> Provider:
        if has_unknown(inputs):
            return UnconfiguredProvider()
        make = provider_class(package)
        # The program's own classes are handed secrets as such; the others send them to where they belong.
        return make(inputs if package == "pulumi-python" else plain(inputs), self._surroundings)


def provider_class(package: str) -> type[ConfiguredProvider]:
    """What makes a package's provider; loaded when it is first needed, one package after the other.

    Raises:
        UnsupportedError: The engine has no such package.
    """
    with LOADING:
        if package == "pulumi-python":
            from sandbox.engine.providers.dynamic.provider import DynamicProvider  # noqa: PLC0415  loads gRPC

            return DynamicProvider
        if package == "hcloud":
            from sandbox.engine.providers.hcloud.provider import HcloudProvider  # noqa: PLC0415

            return HcloudProvider
        if package == "kubernetes":
            from sandbox.engine.providers.kubernetes.provider import KubernetesProvider  # noqa: PLC0415

            return KubernetesProvider
    raise _unknown_package(package)


def _unknown_package(package: str) -> UnsupportedError:
    return UnsupportedError(f"the provider package '{package}' (it has: {', '.join(PACKAGES)})")


def config_diff(package: str, old: Properties, new: Properties) -> Diff:
    """Compare two configurations of a provider; ``replaces`` means that it now talks to another system."""
    keys = [key for key in changed_keys(old, new) if key != "version"]
    return Diff(changes=bool(keys), replaces=provider_class(package).moved(plain(old), plain(new)), keys=keys)
