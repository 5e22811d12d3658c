"""hcloud.Server."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.engine.errors import UnsupportedError
from sandbox.engine.providers.hcloud.api import Api, ApiError
from sandbox.engine.providers.hcloud.kind import BUSY, NamedKind, present
from sandbox.engine.providers.hcloud.network_parts import attachment
from sandbox.engine.values import Properties

_META = (
    '{"e2bfb730-ecaa-11e6-8f88-34363bc7c4c0":{"create":5400000000000}}'  # the plugin's 90 minutes to create
)
_OFF_NEEDED = {"serverType", "placementGroupId"}
_CHANGEABLE = {*_OFF_NEEDED, "firewallIds"}
_NOT_APPLIED = ("not_found", "firewall_resource_not_found")


class Server(NamedKind):
    """A server. Its places in networks are resources of their own, or named with it.

    Where it has no public address it is started once it is in its networks, as the genuine plugin does
    (``onServerCreateWithoutPublicNet`` in terraform-provider-hcloud's internal/server/resource.go).
    """

    type = "hcloud:index/server:Server"
    inputs = frozenset({
        "name", "serverType", "image", "location", "sshKeys", "userData", "labels", "firewallIds",
        "placementGroupId", "deleteProtection", "rebuildProtection", "publicNets", "networks",
    })  # fmt: skip
    required = ("serverType", "image")
    replaces = frozenset({"image", "location", "sshKeys", "userData"})
    sets = frozenset({"firewallIds"})
    unread = frozenset({"sshKeys", "userData", "image", "publicNets", "networks"})
    collection = "servers"
    single = "server"
    reread = True
    deleted_by_action = True

    def normal(self, key: str, value: Any) -> Any:
        """Ids as texts; no placement group is 0."""
        if key == "sshKeys" and isinstance(value, list):
            return [str(item) for item in value] or None
        return None if key == "placementGroupId" and value == 0 else super().normal(key, value)

    def body(self, api: Api, inputs: Properties) -> Properties:
        """What is to be made; names are resolved first, as the genuine plugin does."""
        server_type = _one(api, "server_types", inputs["serverType"], name=inputs["serverType"])
        image = _image(api, inputs["image"], server_type["architecture"])
        group = inputs.get("placementGroupId")
        return {
            "server_type": str(server_type["id"]),
            "image": str(image["id"]),
            "ssh_keys": [_ssh_key(api, key) for key in inputs.get("sshKeys") or ()],
            "location": inputs.get("location"),
            "user_data": inputs.get("userData"),
            "firewalls": [{"firewall": item} for item in _firewalls(inputs)] or None,
            "placement_group": int(group) if group else None,
            "public_net": _public_net(inputs),
            "start_after_create": False if _starts_later(inputs) else None,
        }

    def finish(self, api: Api, identity: str, inputs: Properties) -> None:
        """Plug it into the networks that are named with it."""
        self._connect(api, identity, inputs)
        super().finish(api, identity, inputs)

    def repair(self, api: Api, identity: str, inputs: Properties) -> None:
        """Likewise, as far as it was left undone."""
        super().repair(api, identity, inputs)
        self._connect(api, identity, inputs)

    def _connect(self, api: Api, identity: str, inputs: Properties) -> None:
        places = inputs.get("networks") or ()
        there = {item["network"] for item in self.get(api, identity)["private_net"]} if places else set()
        path = f"/servers/{identity}/actions"
        for place in places:
            body = attachment(place)
            if body["network"] not in there:
                api.retry(lambda body=body: api.act(f"{path}/attach_to_network", body), BUSY, 5)
        if _starts_later(inputs) and self.get(api, identity)["status"] == "off":
            api.act(f"{path}/poweron")

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        """The server as the genuine plugin shows it."""
        public = found.get("public_net") or {}
        ipv4, ipv6 = public.get("ipv4") or {}, public.get("ipv6") or {}
        prefix = ipv6.get("ip") or ""
        location = found.get("location") or (found.get("datacenter") or {}).get("location") or {}
        user_data, made_of = inputs.get("userData"), found.get("image") or {}
        return {
            "__meta": _META,
            "allowDeprecatedImages": None,
            "backupWindow": found.get("backup_window") or "",
            "backups": bool(found.get("backup_window")),
            "datacenter": None,
            "deleteProtection": found["protection"]["delete"],
            "firewallIds": [item["id"] for item in public.get("firewalls") or ()],
            "id": str(found["id"]),
            "ignoreRemoteFirewallIds": False,
            # a snapshot has no name
            "image": inputs.get("image") or made_of.get("name") or str(made_of.get("id", "")),
            "ipv4Address": ipv4.get("ip") or "",
            "ipv6Address": prefix.split("/")[0] + "1" if prefix else "",
            "ipv6Network": prefix,
            "iso": None,
            "keepDisk": False,
            "labels": found.get("labels") or None,
            "location": location.get("name") or inputs.get("location"),
            "name": found["name"],
            "networks": [_shown(place) for place in found["private_net"]] if inputs.get("networks") else [],
            "placementGroupId": (found.get("placement_group") or {}).get("id") or 0,
            "primaryDiskSize": found["primary_disk_size"],
            "publicNets": list(inputs.get("publicNets") or ()),
            "rebuildProtection": found["protection"]["rebuild"],
            "rescue": None,
            "serverType": found["server_type"]["name"],
            "shutdownBeforeDeletion": False,
            "sshKeys": inputs.get("sshKeys"),
            "status": found["status"],
            "userData": None if user_data is None else _digest(user_data),
        }

    def alter(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        """Type and placement group, for which it is powered off, and firewalls.

        Afterwards it is on, whatever failed, also where an earlier run left it off.
        """
        rest = [key for key in keys if key not in _CHANGEABLE]
        if rest:
            raise UnsupportedError(f"changing '{rest[0]}' of {self.type} in place", "hcloud")
        if _OFF_NEEDED & set(keys):
            found = self.get(api, identity)
            try:
                _resettle(api, found, new, keys)
            finally:
                self._start(api, identity)
        if "firewallIds" in keys:
            _change_firewalls(api, int(identity), set(_firewalls(old)), set(_firewalls(new)))

    def _start(self, api: Api, identity: str) -> None:
        found = self.get(api, identity)
        public = found["public_net"]
        is_somewhere = public["ipv4"] or public["ipv6"] or found["private_net"]
        if found["status"] == "off" and is_somewhere:  # Hetzner starts no other one
            api.act(f"/servers/{identity}/actions/poweron")


def _resettle(api: Api, found: Mapping[str, Any], new: Properties, keys: Sequence[str]) -> None:
    """Placement group first: to change the type starts the server again, says Hetzner's document."""
    path = f"/servers/{found['id']}/actions"
    if found["status"] != "off":
        api.act(f"{path}/poweroff")
    if "placementGroupId" in keys:
        _move(api, path, found, new)
    if "serverType" in keys and found["server_type"]["name"] != new["serverType"]:
        api.act(f"{path}/change_type", {"server_type": new["serverType"], "upgrade_disk": True})


def _move(api: Api, path: str, found: Mapping[str, Any], new: Properties) -> None:
    present_group = (found.get("placement_group") or {}).get("id")
    wanted = int(new.get("placementGroupId") or 0)
    if present_group and present_group != wanted:
        api.act(f"{path}/remove_from_placement_group")
    if wanted and present_group != wanted:
        api.act(f"{path}/add_to_placement_group", {"placement_group": wanted})


def _change_firewalls(api: Api, server: int, old: set[int], new: set[int]) -> None:
    target = {"type": "server", "server": {"id": server}}
    for firewall in sorted(new - old):
        api.act(f"/firewalls/{firewall}/actions/apply_to_resources", {"apply_to": [target]})
    for firewall in sorted(old - new):
        try:
            api.act(f"/firewalls/{firewall}/actions/remove_from_resources", {"remove_from": [target]})
        except ApiError as error:
            if error.code not in _NOT_APPLIED:
                raise


def _public_net(inputs: Properties) -> Properties | None:
    """Which public addresses it gets; None where no input says so: both."""
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


def _shown(place: Mapping[str, Any]) -> Properties:
    return {
        "aliasIps": list(place.get("alias_ips") or ()),
        "ip": place["ip"],
        "macAddress": place["mac_address"],
        "networkId": place["network"],
    }


def _firewalls(inputs: Properties) -> list[int]:
    return [int(value) for value in inputs.get("firewallIds") or ()]


def _one(api: Api, collection: str, wanted: Any, /, **parameters: Any) -> dict[str, Any]:
    found = api.get(f"/{collection}", **parameters)[collection]
    if not found:
        raise ApiError("not_found", f"there is no '{wanted}'", f"GET /{collection}")
    return found[0]


def _image(api: Api, given: Any, architecture: str) -> dict[str, Any]:
    if str(given).isdecimal():
        return api.get(f"/images/{given}")["image"]
    return _one(api, "images", given, architecture=architecture, include_deprecated="true", name=given)


def _ssh_key(api: Api, given: Any) -> int:
    if str(given).isdecimal():
        return api.get(f"/ssh_keys/{given}")["ssh_key"]["id"]
    return _one(api, "ssh_keys", given, name=given)["id"]


def _digest(user_data: str) -> str:
    return base64.b64encode(hashlib.sha1(user_data.encode(), usedforsecurity=False).digest()).decode()
