"""The provider for the package hcloud."""

from __future__ import annotations

import hashlib

from sandbox.engine.errors import (
    PartialError,
    ProviderError,
    UnclearError,
    UnsupportedError,
)
from sandbox.engine.properties.values import UNKNOWN, Properties, plain
from sandbox.engine.providers.base import ConfiguredProvider, Created, Diff, Read, Request
from sandbox.engine.providers.hcloud.api import Api, settings_from
from sandbox.engine.providers.hcloud.balancers import (
    LoadBalancer,
    LoadBalancerNetwork,
    LoadBalancerService,
    LoadBalancerTarget,
)
from sandbox.engine.providers.hcloud.kind import Kind
from sandbox.engine.providers.hcloud.named import Firewall, Network, PlacementGroup, SshKey
from sandbox.engine.providers.hcloud.network_parts import NetworkRoute, NetworkSubnet, ServerNetwork
from sandbox.engine.providers.hcloud.server import Server
from sandbox.engine.providers.surroundings import Surroundings
from sandbox.engine.state.graph import name_of
from sandbox.engine.state.resource import Resource

_KINDS: tuple[Kind, ...] = (
    SshKey(),
    PlacementGroup(),
    Firewall(),
    Network(),
    NetworkSubnet(),
    NetworkRoute(),
    ServerNetwork(),
    Server(),
    LoadBalancer(),
    LoadBalancerNetwork(),
    LoadBalancerTarget(),
    LoadBalancerService(),
)
KINDS = {kind.type: kind for kind in _KINDS}
_CONFIG = {"token", "endpoint", "pollInterval", "pollFunction", "version"}
_AUTONAME_DIGITS = 7


class HcloudProvider(ConfiguredProvider):
    """Resources of pulumi_hcloud. No call is made before one is needed.

    Args:
        config: Its configuration, plain.
        around: Where it runs.
    """

    def __init__(self, config: Properties, around: Surroundings) -> None:
        self._api = Api(settings_from(config, around.environment))

    @staticmethod
    def check_config(inputs: Properties) -> None:
        """Refuse settings that the engine does not have.

        Raises:
            EngineError: With the key.
        """
        unknown = sorted(set(inputs) - _CONFIG)
        if unknown:
            raise UnsupportedError(f"the setting '{unknown[0]}' of the hcloud provider")
        function = inputs.get("pollFunction")
        if function not in (None, "constant", "exponential", UNKNOWN):
            raise ProviderError(f"pollFunction: '{function}' is not allowed (constant or exponential)")

    def check(self, urn: str, kind: str, olds: Properties, news: Properties, seed: bytes) -> Properties:
        """Refuse what is not supported, give automatic names."""
        found = _kind(kind)
        unknown = sorted(set(news) - found.inputs)
        if unknown:
            raise UnsupportedError(f"the input '{unknown[0]}' of {kind}")
        missing = [key for key in found.required if news.get(key) is None]
        if missing:
            raise ProviderError(f"the input '{missing[0]}' of {kind} is required")
        if found.named and not news.get("name"):
            digits = hashlib.sha256(seed).hexdigest()[:_AUTONAME_DIGITS]
            automatic = olds.get("name") if "name" in (olds.get("__defaults") or ()) else None
            return {**news, "name": automatic or f"{name_of(urn)}-{digits}", "__defaults": ["name"]}
        return {"__defaults": [], **news} if found.classic else dict(news)

    def diff(self, old: Resource, news: Properties) -> Diff:
        """Compare inputs key by key."""
        kind = _kind(old.type)
        before, after = plain(old.inputs), plain(news)
        keys = sorted(
            key
            for key in (before.keys() | after.keys()) - {"__defaults"}
            if kind.normal(key, before.get(key)) != kind.normal(key, after.get(key))
        )
        replaces = [key for key in keys if key in kind.replaces]
        named_by_program = kind.named and "name" not in (after.get("__defaults") or ())
        return Diff(
            changes=bool(keys),
            replaces=replaces,
            # an explicit name, or a place in a network, can't exist twice
            delete_before_replace=bool(replaces) and (named_by_program or not kind.named),
            keys=keys,
        )

    def create(self, request: Request) -> Created:
        """Create."""
        kind = _kind(request.type)
        with self._api.writing() as writing:
            try:
                return _created(kind.create(self._api, _given(request.inputs)))
            except PartialError:
                raise
            except ProviderError as error:
                if writing.done:
                    raise UnclearError(str(error)) from error
                raise

    def adopt(self, request: Request) -> Created | None:
        """Look for what a killed run has left."""
        kind = _kind(request.type)
        outputs = kind.find(self._api, _given(request.inputs))
        return _created(outputs) if outputs is not None else None

    def update(self, old: Resource, news: Properties, timeout: float | None) -> Properties:  # noqa: ARG002
        """Change what differs."""
        kind = _kind(old.type)
        keys = list(self.diff(old, news).keys)
        inputs = _given(news)
        if old.init_errors:
            kind.repair(self._api, old.id, inputs)
        if keys:
            kind.change(self._api, old.id, _given(old.inputs), inputs, keys)
        return kind.read(self._api, old.id, inputs)

    def preview_update(self, old: Resource, news: Properties) -> Properties:
        """What an update does not touch stays as it is."""
        kind = _kind(old.type)
        kept = {key: value for key, value in plain(old.outputs).items() if not key.startswith("__")}
        return kept | {key: value for key, value in plain(news).items() if key in kind.inputs}

    def delete(self, old: Resource, timeout: float | None) -> None:  # noqa: ARG002
        """Delete."""
        _kind(old.type).delete(self._api, old.id)

    def read(self, old: Resource) -> Read:
        """Read; inputs that were changed by others take the value that they now have."""
        kind = _kind(old.type)
        inputs = _given(old.inputs)
        try:
            outputs = kind.read(self._api, old.id, inputs)
        except KeyError as error:
            raise ProviderError(f"'{old.id}' can't be read without the input {error}") from error
        now = {}
        for key, value in plain(old.inputs).items():
            readable = not key.startswith("__") and key not in kind.unread and key in outputs
            same = not readable or kind.normal(key, value) == kind.normal(key, outputs[key])
            now[key] = value if same else outputs[key]
        return Read(str(outputs["id"]), now, outputs)


def _kind(name: str) -> Kind:
    if name not in KINDS:
        raise UnsupportedError(f"the resource type '{name}'")
    return KINDS[name]


def _given(inputs: Properties) -> Properties:
    """Inputs as kinds get them: plain, without notes, without what is None."""
    return {
        key: value for key, value in plain(inputs).items() if not key.startswith("__") and value is not None
    }


def _created(outputs: Properties) -> Created:
    return Created(str(outputs["id"]), outputs)
