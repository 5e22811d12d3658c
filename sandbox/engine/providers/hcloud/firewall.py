"""hcloud.Firewall and FirewallAttachment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.engine.errors import ResourceNotFoundError
from sandbox.engine.providers.hcloud.api import Api, ApiError
from sandbox.engine.providers.hcloud.kind import Kind, NamedKind, ids, present
from sandbox.engine.values import Properties

_NOT_APPLIED = ("not_found", "firewall_resource_not_found")


class Firewall(NamedKind):
    """A firewall with its rules."""

    type = "hcloud:index/firewall:Firewall"
    inputs = frozenset({"name", "rules", "labels", "applyTos"})
    sets = frozenset({"rules", "applyTos"})
    collection = "firewalls"
    single = "firewall"

    def body(self, inputs: Properties) -> Properties:
        """Name, rules, labels, targets."""
        return present(
            name=inputs["name"],
            labels=inputs.get("labels"),
            rules=[_rule(item) for item in inputs.get("rules") or ()],
            apply_to=[_target(item) for item in inputs.get("applyTos") or ()] or None,
        )

    def settled(self, answer: Mapping[str, Any], inputs: Properties) -> bool:  # noqa: ARG002
        """What it is applied to shows only afterwards."""
        return not inputs.get("applyTos")

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        """The firewall; where it is applied only as far as this resource says so."""
        applied = [
            _applied(item)
            for item in found.get("applied_to") or ()
            if item["type"] in ("server", "label_selector")
        ]
        return {
            "applyTos": applied if inputs.get("applyTos") else [],
            "id": str(found["id"]),
            "labels": found.get("labels") or {},
            "name": found["name"],
            "rules": [_shown(item) for item in found.get("rules") or ()],
        }

    def normal(self, key: str, value: Any) -> Any:
        """Rules without what is empty, addresses without order."""
        if key == "rules" and isinstance(value, list):
            value = [_normal_rule(item) for item in value]
        return super().normal(key, value)

    def alter(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        """Rules, and what they apply to."""
        if "rules" in keys:
            rules = [_rule(item) for item in new.get("rules") or ()]
            api.act(f"/firewalls/{identity}/actions/set_rules", {"rules": rules})
        if "applyTos" in keys:
            before = [_target(item) for item in old.get("applyTos") or ()]
            after = [_target(item) for item in new.get("applyTos") or ()]
            _apply(api, identity, [item for item in after if item not in before])
            _withdraw(api, identity, [item for item in before if item not in after])
        super().alter(api, identity, old, new, [key for key in keys if key not in ("rules", "applyTos")])

    def delete(self, api: Api, identity: str, inputs: Properties) -> None:
        """Withdraw it from what this resource applied it to, then delete."""
        _withdraw(api, identity, [_target(item) for item in inputs.get("applyTos") or ()])
        super().delete(api, identity, inputs)


class FirewallAttachment(Kind):
    """What a firewall is applied to, as a resource of its own."""

    type = "hcloud:index/firewallAttachment:FirewallAttachment"
    inputs = frozenset({"firewallId", "serverIds", "labelSelectors"})
    required = ("firewallId",)
    replaces = frozenset({"firewallId"})
    sets = frozenset({"serverIds", "labelSelectors"})

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Apply."""
        identity = str(int(inputs["firewallId"]))
        _apply(api, identity, self._targets(inputs))
        return self.read(api, identity, inputs)

    @staticmethod
    def _targets(inputs: Properties) -> list[Properties]:
        servers = [{"type": "server", "server": {"id": item}} for item in ids(inputs.get("serverIds"))]
        selectors = inputs.get("labelSelectors") or ()
        return servers + [
            {"type": "label_selector", "label_selector": {"selector": item}} for item in selectors
        ]

    def read(self, api: Api, identity: str, inputs: Properties) -> Properties:
        """Look at the firewall; only what this resource applied it to."""
        found = api.get(f"/firewalls/{identity}")["firewall"]
        applied = found.get("applied_to") or []
        servers = {item["server"]["id"] for item in applied if item["type"] == "server"}
        selectors = {
            item["label_selector"]["selector"] for item in applied if item["type"] == "label_selector"
        }
        own_servers = [item for item in ids(inputs.get("serverIds")) if item in servers]
        own_selectors = [item for item in inputs.get("labelSelectors") or () if item in selectors]
        if not own_servers and not own_selectors:
            raise ResourceNotFoundError(f"the firewall {identity} is not applied to any of them")
        return {
            "firewallId": int(identity),
            "id": identity,
            "labelSelectors": own_selectors,
            "serverIds": own_servers,
        }

    def find(self, api: Api, inputs: Properties) -> Properties | None:
        """Applying twice does no harm."""
        return self.create(api, inputs)

    def change(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:  # noqa: ARG002
        """Apply to what is new, withdraw from what is gone."""
        before, after = self._targets(old), self._targets(new)
        _apply(api, identity, [item for item in after if item not in before])
        _withdraw(api, identity, [item for item in before if item not in after])

    def delete(self, api: Api, identity: str, inputs: Properties) -> None:
        """Withdraw."""
        _withdraw(api, identity, self._targets(inputs))


def _rule(rule: Mapping[str, Any]) -> Properties:
    return present(
        direction=rule["direction"],
        protocol=rule["protocol"],
        port=rule.get("port") or None,
        source_ips=list(rule.get("sourceIps") or ()),
        destination_ips=list(rule.get("destinationIps") or ()),
        description=rule.get("description") or None,
    )


def _shown(rule: Mapping[str, Any]) -> Properties:
    return {
        "description": rule.get("description") or "",
        "destinationIps": list(rule.get("destination_ips") or ()),
        "direction": rule["direction"],
        "port": rule.get("port") or "",
        "protocol": rule["protocol"],
        "sourceIps": list(rule.get("source_ips") or ()),
    }


def _normal_rule(rule: Any) -> Any:
    if not isinstance(rule, dict):
        return rule
    return {
        key: sorted(value) if isinstance(value, list) else value
        for key, value in sorted(rule.items())
        if value not in (None, "", [])
    }


def _target(target: Mapping[str, Any]) -> Properties:
    if target.get("server"):
        return {"type": "server", "server": {"id": int(target["server"])}}
    return {"type": "label_selector", "label_selector": {"selector": target["labelSelector"]}}


def _applied(target: Mapping[str, Any]) -> Properties:
    if target["type"] == "server":
        return {"labelSelector": "", "server": target["server"]["id"]}
    return {"labelSelector": target["label_selector"]["selector"], "server": 0}


def _apply(api: Api, identity: str, targets: list[Properties]) -> None:
    if not targets:
        return
    try:
        api.act(f"/firewalls/{identity}/actions/apply_to_resources", {"apply_to": targets})
    except ApiError as error:
        if error.code != "firewall_already_applied":
            raise


def _withdraw(api: Api, identity: str, targets: list[Properties]) -> None:
    if not targets:
        return
    try:
        api.act(f"/firewalls/{identity}/actions/remove_from_resources", {"remove_from": targets})
    except ApiError as error:
        if error.code not in _NOT_APPLIED:
            raise


def change_firewalls(api: Api, server: int, old: list[int], new: list[int]) -> None:
    """Put a server behind other firewalls."""
    target = {"type": "server", "server": {"id": server}}
    for firewall in sorted(set(new) - set(old)):
        api.act(f"/firewalls/{firewall}/actions/apply_to_resources", {"apply_to": [target]})
    for firewall in sorted(set(old) - set(new)):
        try:
            api.act(f"/firewalls/{firewall}/actions/remove_from_resources", {"remove_from": [target]})
        except ApiError as error:
            if error.code not in _NOT_APPLIED:
                raise
