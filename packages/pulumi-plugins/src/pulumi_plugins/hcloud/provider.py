"""The provider for the package hcloud."""
# ruff: noqa: ARG002, D102  the methods are those of Provider

import hashlib
from collections.abc import Mapping
from typing import Any

from pulumi_plugins.base import Diff, Known, Provider, Resource, Surroundings, name_of, type_of
from pulumi_plugins.errors import ProviderError, UnsupportedError
from pulumi_plugins.hcloud import named, parts
from pulumi_plugins.hcloud.api import api_from
from pulumi_plugins.hcloud.kind import NamedKind, Part, compact
from pulumi_plugins.hcloud.server import Server
from pulumi_plugins.values import Properties, has_unknown, plain, without_internal

KINDS: dict[str, NamedKind | Part] = {
    f"hcloud:index/{kind.__name__[0].lower()}{kind.__name__[1:]}:{kind.__name__}": kind()
    for kind in (
        *(named.SshKey, named.PlacementGroup, named.Firewall, named.Network, named.LoadBalancer, Server),
        *(parts.NetworkSubnet, parts.NetworkRoute, parts.ServerNetwork),
        *(parts.LoadBalancerNetwork, parts.LoadBalancerTarget, parts.LoadBalancerService),
    )
}
_CONFIG = {"token", "endpoint", "pollInterval", "pollFunction", "version"}
_AUTONAME_DIGITS = 7


class HcloudProvider(Provider):
    """Resources of pulumi_hcloud. Makes no call before the first one is needed."""

    def __init__(self, config: Properties, around: Surroundings) -> None:
        self._api = api_from(config, around.environment)

    @staticmethod
    def check_config(inputs: Properties, environment: Mapping[str, str]) -> None:
        """Refuse unsupported settings, and other clouds than the sandbox's."""
        unknown = sorted(set(inputs) - _CONFIG)
        if unknown:
            raise UnsupportedError(f"the provider setting '{unknown[0]}'", "hcloud")
        if not has_unknown(inputs):
            api_from(inputs, environment)

    def check(self, urn: str, olds: Properties, news: Properties, seed: bytes) -> Properties:
        """Refuse unsupported inputs, give automatic names."""
        name = type_of(urn)
        kind = _kind(urn)
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
        kind = _kind(old.urn)
        before, after = plain(old.inputs), plain(news)
        keys = sorted(
            key
            for key in (before.keys() | after.keys()) - {"__defaults"}
            if kind.normal(key, before.get(key)) != kind.normal(key, after.get(key))
        )
        replaces = [key for key in keys if key in kind.replaces]
        automatic = kind.named and "name" in (after.get("__defaults") or ())
        # an explicit name, or an attachment to a network, can't exist twice
        return Diff(keys, replaces, delete_before_replace=bool(replaces) and not automatic)

    def create(self, urn: str, inputs: Properties, timeout: float | None) -> Resource:
        return _resource(_kind(urn).create(self._api, _given(inputs)))

    def update(self, old: Known, news: Properties, timeout: float | None) -> Properties:
        """Change what differs; without differences, complete a failed creation."""
        kind = _kind(old.urn)
        keys = list(self.diff(old, news).keys)
        inputs = _given(news)
        if keys:
            kind.change(self._api, old.id, _given(old.inputs), inputs, keys)
        else:
            kind.repair(self._api, old.id, inputs)
        return kind.read(self._api, old.id, inputs)

    def preview_update(self, old: Known, news: Properties) -> Properties:
        inputs = {key: value for key, value in plain(news).items() if key in _kind(old.urn).inputs}
        return {**without_internal(plain(old.outputs)), **inputs}

    def delete(self, old: Known, timeout: float | None) -> None:
        _kind(old.urn).delete(self._api, old.id)

    def read(self, old: Known) -> Resource:
        """Read; inputs that were changed outside of Pulumi take their new values."""
        kind = _kind(old.urn)
        outputs = kind.read(self._api, old.id, _given(old.inputs))
        if not old.inputs:
            imported = {key: outputs[key] for key in kind.inputs if compact(outputs.get(key)) is not None}
            return _resource(outputs, {"__defaults": [], **imported} if kind.classic else imported)
        now = {key: outputs[key] for key in kind.resets if outputs[key]}
        for key, value in plain(old.inputs).items():
            readable = not key.startswith("__") and key not in kind.unread and key in outputs
            same = not readable or kind.normal(key, value) == kind.normal(key, outputs[key])
            now[key] = value if same else outputs[key]
        return _resource(outputs, now)


def delete_begun(deployment: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    """Delete what a killed run had started to create; returns names. Pulumi only notes such operations.

    Such an object is not in use yet. It has the noted name and labels, and no resource of the state is this
    object. Raises ProviderError: it can't be deleted, or an object of this name has other labels.
    """
    api, deleted = api_from({}, environment), []
    known = {item.get("id") for item in deployment.get("resources") or []}
    for operation in deployment.get("pending_operations") or []:
        resource = operation["resource"]
        inputs, kind = resource.get("inputs", {}), KINDS.get(resource["type"])
        if operation["type"] != "creating":
            continue
        if isinstance(kind, NamedKind):
            found = kind.find(api, inputs)
            if found is not None and str(found["id"]) not in known:
                kind.delete(api, str(found["id"]))
                deleted.append(found["name"])
        # the program refuses to attach a load balancer that is attached already
        elif (
            isinstance(kind, parts.LoadBalancerNetwork)
            and (identity := kind.identity(inputs)) not in known
            and kind.discard(api, identity)
        ):
            deleted.append(f"the attachment {identity}")
    return deleted


def _kind(urn: str) -> NamedKind | Part:
    name = type_of(urn)
    if name not in KINDS:
        raise UnsupportedError(f"the resource type '{name}'", "hcloud")
    return KINDS[name]


def _given(inputs: Properties) -> Properties:
    """Inputs for kinds: plain, without notes and None."""
    return {key: value for key, value in without_internal(plain(inputs)).items() if value is not None}


def _resource(outputs: Properties, inputs: Properties | None = None) -> Resource:
    return Resource(str(outputs["id"]), outputs, inputs or {})
