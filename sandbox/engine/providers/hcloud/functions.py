"""Functions of pulumi_hcloud (`hcloud.get_server_type` …), from one table."""

from __future__ import annotations

import re
from typing import Any

from sandbox.engine.errors import ProviderError, UnsupportedError
from sandbox.engine.providers.hcloud.api import Api
from sandbox.engine.providers.hcloud.kind import Kind
from sandbox.engine.values import Properties

# function -> collection; the plural functions list it
_COLLECTIONS = {
    "getServerType": "server_types",
    "getLocation": "locations",
    "getImage": "images",
    "getNetwork": "networks",
    "getServer": "servers",
    "getSshKey": "ssh_keys",
    "getPlacementGroup": "placement_groups",
    "getFirewall": "firewalls",
    "getPrimaryIp": "primary_ips",
    "getLoadBalancer": "load_balancers",
    "getLoadBalancerType": "load_balancer_types",
}
_PLURALS = {
    "getServerTypes": ("server_types", "serverTypes"),
    "getLocations": ("locations", "locations"),
    "getNetworks": ("networks", "networks"),
    "getServers": ("servers", "servers"),
    "getSshKeys": ("ssh_keys", "sshKeys"),
    "getLoadBalancerTypes": ("load_balancer_types", "loadBalancerTypes"),
}
_SELECTORS = {"withSelector": "label_selector", "withStatuses": "status", "withArchitecture": "architecture"}


def call(api: Api, kinds: dict[str, Kind], token: str, arguments: Properties) -> Properties:
    """Call a function by its token (`hcloud:index/getNetwork:getNetwork`).

    Raises:
        UnsupportedError: The engine does not have it, or not this argument.
        ProviderError: Nothing fits.
    """
    name = token.rsplit(":", 1)[-1]
    if name in _PLURALS:
        collection, key = _PLURALS[name]
        found = _all(api, collection, _parameters(name, arguments))
        return {"id": "0", key: [_shown(item, collection, kinds) for item in found], **arguments}
    if name not in _COLLECTIONS:
        raise UnsupportedError(f"the function '{token}'")
    collection = _COLLECTIONS[name]
    found = _all(api, collection, _parameters(name, arguments))
    wanted = arguments.get("id")
    if wanted is not None:
        found = [item for item in found if item["id"] == int(wanted)]
    if not found:
        shown = ", ".join(f"{key}={value}" for key, value in arguments.items())
        raise ProviderError(f"{name}: nothing found for {shown}")
    if len(found) > 1 and not arguments.get("mostRecent"):
        raise ProviderError(f"{name}: {len(found)} found, and only one was expected; use a narrower selector")
    best = max(found, key=lambda item: item.get("created") or "")
    return {**arguments, **_shown(best, collection, kinds)}


def _parameters(name: str, arguments: Properties) -> dict[str, Any]:
    known = {"id", "name", "mostRecent", *_SELECTORS}
    unknown = sorted(set(arguments) - known)
    if unknown:
        raise UnsupportedError(f"the argument '{unknown[0]}' of the function '{name}'")
    parameters = {_SELECTORS[key]: value for key, value in arguments.items() if key in _SELECTORS and value}
    return parameters | ({"name": arguments["name"]} if arguments.get("name") else {})


def _all(api: Api, collection: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    page: int | None = 1
    while page:
        answer = api.get(f"/{collection}", **parameters, page=page, per_page=50)
        found.extend(answer[collection])
        page = (answer.get("meta") or {}).get("pagination", {}).get("next_page")
    return found


def _shown(item: dict[str, Any], collection: str, kinds: dict[str, Kind]) -> Properties:
    """The object as a resource of its kind shows it, or with its keys in camel case."""
    for kind in kinds.values():
        if getattr(kind, "collection", None) == collection:
            shown = kind.outputs(item, {})  # type: ignore[attr-defined]  a NamedKind
            return {key: value for key, value in shown.items() if not key.startswith("__")} | {
                "id": item["id"]
            }
    return {_camel(key): value for key, value in item.items() if not isinstance(value, dict | list)}


def _camel(key: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), key)
