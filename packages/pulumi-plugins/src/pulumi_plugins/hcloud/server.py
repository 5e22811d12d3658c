"""hcloud.Server."""
# ruff: noqa: D102  the methods are those of Kind

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_plugins.hcloud.api import Api
from pulumi_plugins.hcloud.kind import NamedKind, present, snake
from pulumi_plugins.hcloud.parts import ServerNetwork, attachment
from pulumi_plugins.values import Properties

_META = (
    '{"e2bfb730-ecaa-11e6-8f88-34363bc7c4c0":{"create":5400000000000}}'  # the plugin's 90 minutes to create
)
_OFF_NEEDED = {"serverType", "placementGroupId"}
_CHANGEABLE = {*_OFF_NEEDED, "firewallIds", "backups"}


class Server(NamedKind):
    """A server. Its attachments to networks are separate resources, or inputs.

    A server without a public address is started after it was attached, as the genuine plugin does
    (``onServerCreateWithoutPublicNet`` in terraform-provider-hcloud's internal/server/resource.go).
    """

    inputs = frozenset({
        "name", "serverType", "image", "location", "sshKeys", "userData", "labels", "firewallIds",
        "placementGroupId", "deleteProtection", "rebuildProtection", "publicNets", "networks", "backups",
    })  # fmt: skip
    required = ("serverType", "image")
    replaces = frozenset({"image", "location", "sshKeys", "userData"})
    sets = frozenset({"firewallIds"})
    resets = frozenset({"backups"})
    unread = frozenset({"sshKeys", "userData", "image", "publicNets", "networks"})
    collection = "servers"
    reread = True
    deleted_by_action = True

    def normal(self, key: str, value: Any) -> Any:
        """IDs as texts; placement group 0 is none."""
        if key == "sshKeys" and isinstance(value, list):
            return [str(item) for item in value] or None
        return None if key == "placementGroupId" and value == 0 else super().normal(key, value)

    def body(self, inputs: Properties) -> Properties:
        group = inputs.get("placementGroupId")
        return {
            "server_type": inputs["serverType"],
            "image": inputs["image"],
            "ssh_keys": list(inputs.get("sshKeys") or ()),
            "location": inputs.get("location"),
            "user_data": inputs.get("userData"),
            "firewalls": [{"firewall": item} for item in _firewalls(inputs)] or None,
            "placement_group": int(group) if group else None,
            "public_net": _public_net(inputs),
            "start_after_create": False if _starts_later(inputs) else None,
        }

    def finish(self, api: Api, identity: str, inputs: Properties) -> None:
        """Attach it to the networks of its inputs, and start it."""
        places = inputs.get("networks") or ()
        there = {item["network"] for item in self.get(api, identity)["private_net"]} if places else set()
        path = f"/servers/{identity}/actions"
        for place in places:
            body = attachment(place)
            if body["network"] not in there:
                api.retry(lambda body=body: api.act(f"{path}/attach_to_network", body))
        if _starts_later(inputs) and self.get(api, identity)["status"] == "off":
            api.act(f"{path}/poweron")
        if inputs.get("backups"):
            api.act(f"{path}/enable_backup")
        super().finish(api, identity, inputs)

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        public = found["public_net"]
        prefix = (public["ipv6"] or {}).get("ip", "")
        user_data, made_of = inputs.get("userData"), found.get("image") or {}
        return {
            "__meta": _META,
            **dict.fromkeys(("allowDeprecatedImages", "datacenter", "iso", "rescue")),
            **dict.fromkeys(("ignoreRemoteFirewallIds", "keepDisk", "shutdownBeforeDeletion"), False),
            "backupWindow": found.get("backup_window") or "",
            "backups": bool(found.get("backup_window")),
            "firewallIds": [item["id"] for item in public.get("firewalls") or ()],
            # a snapshot has no name
            "image": inputs.get("image") or made_of.get("name") or str(made_of.get("id", "")),
            "ipv4Address": (public["ipv4"] or {}).get("ip", ""),
            "ipv6Address": prefix.split("/")[0] + "1" if prefix else "",
            "ipv6Network": prefix,
            "labels": found.get("labels") or None,
            "location": found["location"]["name"],
            "networks": [
                {
                    "networkId": place["network"],
                    **{name: place[snake(name)] for name in ServerNetwork.answered},
                }
                for place in (found["private_net"] if inputs.get("networks") else ())
            ],
            "placementGroupId": (found.get("placement_group") or {}).get("id") or 0,
            "primaryDiskSize": found["primary_disk_size"],
            "publicNets": list(inputs.get("publicNets") or ()),
            "serverType": found["server_type"]["name"],
            "sshKeys": inputs.get("sshKeys"),
            "status": found["status"],
            "userData": None if user_data is None else _digest(user_data),
        }

    def alter(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        """Change type, placement group and firewalls.

        The first two power the server off, and start it at the end, even after a failure or if it was off.
        """
        if rest := [key for key in keys if key not in _CHANGEABLE]:
            super().alter(api, identity, old, new, rest)
        path, target = f"/servers/{identity}/actions", {"type": "server", "server": {"id": int(identity)}}
        found = self.get(api, identity)
        if _OFF_NEEDED & set(keys):
            try:
                _resettle(api, path, found, new)
            finally:
                self._start(api, identity)
        if "backups" in keys:
            api.act(f"{path}/{'enable' if new.get('backups') else 'disable'}_backup")
        if "firewallIds" in keys:
            there, wanted = {item["id"] for item in found["public_net"]["firewalls"]}, set(_firewalls(new))
            for firewall in sorted(wanted - there):
                api.act(f"/firewalls/{firewall}/actions/apply_to_resources", {"apply_to": [target]})
            for firewall in sorted((set(_firewalls(old)) - wanted) & there):
                api.act(f"/firewalls/{firewall}/actions/remove_from_resources", {"remove_from": [target]})

    def _start(self, api: Api, identity: str) -> None:
        found = self.get(api, identity)
        public = found["public_net"]
        is_somewhere = public["ipv4"] or public["ipv6"] or found["private_net"]
        if found["status"] == "off" and is_somewhere:  # Hetzner starts no other server
            api.act(f"/servers/{identity}/actions/poweron")


def _resettle(api: Api, path: str, found: Mapping[str, Any], new: Properties) -> None:
    """Placement group first: Hetzner's documentation says that changing the type starts the server."""
    if found["status"] != "off":
        api.act(f"{path}/poweroff")
    group, wanted = (found.get("placement_group") or {}).get("id", 0), int(new.get("placementGroupId") or 0)
    if group and group != wanted:
        api.act(f"{path}/remove_from_placement_group")
    if wanted and group != wanted:
        api.act(f"{path}/add_to_placement_group", {"placement_group": wanted})
    if found["server_type"]["name"] != new["serverType"]:
        api.act(f"{path}/change_type", {"server_type": new["serverType"], "upgrade_disk": True})


def _public_net(inputs: Properties) -> Properties | None:
    """The public addresses; None for the default, both."""
    given = inputs.get("publicNets")
    if not given:
        return None
    wanted = given[0]
    return present(
        enable_ipv4=wanted.get("ipv4Enabled", True),
        enable_ipv6=wanted.get("ipv6Enabled", True),
        ipv4=wanted.get("ipv4"),
        ipv6=wanted.get("ipv6"),
    )


def _starts_later(inputs: Properties) -> bool:
    public = _public_net(inputs)
    nowhere = public is not None and not public["enable_ipv4"] and not public["enable_ipv6"]
    return nowhere and bool(inputs.get("networks"))


def _firewalls(inputs: Properties) -> list[int]:
    return [int(value) for value in inputs.get("firewallIds") or ()]


def _digest(user_data: str) -> str:
    return base64.b64encode(hashlib.sha1(user_data.encode(), usedforsecurity=False).digest()).decode()
