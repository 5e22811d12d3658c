"""The provider for the package hcloud."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from sandbox.engine.errors import (
    PartialError,
    ProviderError,
    UnsupportedError,
)
from sandbox.engine.providers.base import Created, Diff, Known, Provider, Read, Surroundings, name_of, type_of
from sandbox.engine.providers.hcloud.api import Api, settings_from
from sandbox.engine.providers.hcloud.balancers import (
    LoadBalancer,
    LoadBalancerNetwork,
    LoadBalancerService,
    LoadBalancerTarget,
)
from sandbox.engine.providers.hcloud.kind import Kind, compact
from sandbox.engine.providers.hcloud.named import Firewall, Network, PlacementGroup, SshKey
from sandbox.engine.providers.hcloud.network_parts import NetworkRoute, NetworkSubnet, ServerNetwork
from sandbox.engine.providers.hcloud.server import Server
from sandbox.engine.values import UNKNOWN, Properties, has_unknown, plain, without_internal

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


class HcloudProvider(Provider):
    """Resources of pulumi_hcloud. No call is made before one is needed.

    Args:
        config: Its configuration, plain.
        around: Where it runs.
    """

    def __init__(self, config: Properties, around: Surroundings) -> None:
        self._api = Api(settings_from(config, around.environment))

    @staticmethod
    def check_config(inputs: Properties, environment: Mapping[str, str]) -> None:
        """Refuse settings that the plugin does not have, and other clouds than the sandbox's.

        Raises:
            EngineError: With the key.
        """
        unknown = sorted(set(inputs) - _CONFIG)
        if unknown:
            raise UnsupportedError(f"the setting '{unknown[0]}' of the provider", "hcloud")
        function = inputs.get("pollFunction")
        if function not in (None, "constant", "exponential", UNKNOWN):
            raise ProviderError(f"pollFunction: '{function}' is not allowed (constant or exponential)")
        if not has_unknown(inputs):
            settings_from(inputs, environment)

    def check(self, urn: str, olds: Properties, news: Properties, seed: bytes) -> Properties:
        """Refuse what is not supported, give automatic names."""
        name = type_of(urn)
        kind = _kind(name)
        unknown = sorted(set(news) - kind.inputs - {"__defaults"})
        if unknown:
            raise UnsupportedError(f"the input '{unknown[0]}' of {name}", "hcloud")
        missing = [key for key in kind.required if news.get(key) is None]
        if missing:
            raise ProviderError(f"the input '{missing[0]}' of {name} is required")
        if kind.named and not news.get("name"):
            digits = hashlib.sha256(seed).hexdigest()[:_AUTONAME_DIGITS]
            automatic = olds.get("name") if "name" in (olds.get("__defaults") or ()) else None
            return {**news, "name": automatic or f"{name_of(urn)}-{digits}", "__defaults": ["name"]}
        return {"__defaults": [], **news} if kind.classic else dict(news)

    def diff(self, old: Known, news: Properties) -> Diff:
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

    def create(self, urn: str, inputs: Properties, timeout: float | None) -> Created:  # noqa: ARG002
        """Create. What was made although the answer was lost is looked for at once."""
        kind, given = _kind(type_of(urn)), _given(inputs)
        with self._api.writing() as writing:
            try:
                return _created(kind.create(self._api, given))
            except PartialError:
                raise
            except ProviderError:
                if not writing.done:
                    raise
                outputs = kind.find(self._api, given)
                if outputs is None:
                    raise
                return _created(outputs)

    def find(self, urn: str, inputs: Properties) -> str | None:
        """The id of what a killed run created without noting it; None where there is nothing.

        Raises:
            ProviderError: The API does not answer, or something else has that name.
        """
        outputs = _kind(type_of(urn)).find(self._api, _given(inputs))
        return None if outputs is None else str(outputs["id"])

    def update(self, old: Known, news: Properties, timeout: float | None) -> Properties:  # noqa: ARG002
        """Change what differs; where nothing does, finish what a failed creation has left undone."""
        kind = _kind(old.type)
        keys = list(self.diff(old, news).keys)
        inputs = _given(news)
        if keys:
            kind.change(self._api, old.id, _given(old.inputs), inputs, keys)
        else:
            kind.repair(self._api, old.id, inputs)
        return kind.read(self._api, old.id, inputs)

    def preview_update(self, old: Known, news: Properties) -> Properties:
        """What an update does not touch stays as it is."""
        kind = _kind(old.type)
        kept = {key: value for key, value in plain(old.outputs).items() if not key.startswith("__")}
        return kept | {key: value for key, value in plain(news).items() if key in kind.inputs}

    def delete(self, old: Known, timeout: float | None) -> None:  # noqa: ARG002
        """Delete."""
        _kind(old.type).delete(self._api, old.id)

    def read(self, old: Known) -> Read:
        """Read; inputs that were changed by others take the value that they now have."""
        kind = _kind(old.type)
        outputs = kind.read(self._api, old.id, _given(old.inputs))
        if not old.inputs:
            imported = {key: outputs[key] for key in kind.inputs if compact(outputs.get(key)) is not None}
            return Read(
                str(outputs["id"]), {"__defaults": [], **imported} if kind.classic else imported, outputs
            )
        now = {}
        for key, value in plain(old.inputs).items():
            readable = not key.startswith("__") and key not in kind.unread and key in outputs
            same = not readable or kind.normal(key, value) == kind.normal(key, outputs[key])
            now[key] = value if same else outputs[key]
        return Read(str(outputs["id"]), now, outputs)


def _kind(name: str) -> Kind:
    if name not in KINDS:
        raise UnsupportedError(f"the resource type '{name}'", "hcloud")
    return KINDS[name]


def _given(inputs: Properties) -> Properties:
    """Inputs as kinds get them: plain, without notes, without what is None."""
    return {key: value for key, value in without_internal(plain(inputs)).items() if value is not None}


def _created(outputs: Properties) -> Created:
    return Created(str(outputs["id"]), outputs)
