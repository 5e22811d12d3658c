"""hcloud.Server."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.engine.errors import UnsupportedError
from sandbox.engine.providers.hcloud.api import Api, ApiError
from sandbox.engine.providers.hcloud.firewall import change_firewalls
from sandbox.engine.providers.hcloud.kind import NamedKind, ids, present
from sandbox.engine.values import Properties

_META = (
    '{"e2bfb730-ecaa-11e6-8f88-34363bc7c4c0":{"create":5400000000000}}'  # the plugin's 90 minutes to create
)
_NOT_IN_API = {"shutdownBeforeDeletion", "keepDisk", "ignoreRemoteFirewallIds", "allowDeprecatedImages"}
_OFF_NEEDED = {"serverType", "placementGroupId"}


class Server(NamedKind):
    """A server."""

    type = "hcloud:index/server:Server"
    inputs = frozenset({
        "name", "serverType", "image", "location", "sshKeys", "userData", "labels", "firewallIds", "networks",
        "publicNets", "placementGroupId", "backups", "deleteProtection", "rebuildProtection",
        "shutdownBeforeDeletion", "keepDisk", "ignoreRemoteFirewallIds", "allowDeprecatedImages",
    })  # fmt: skip
    required = ("serverType", "image")
    replaces = frozenset({"image", "location", "sshKeys", "userData", "datacenter"})
    sets = frozenset({"firewallIds", "networks", "publicNets"})
    unread = frozenset({"sshKeys", "userData", "image", "publicNets", *_NOT_IN_API})
    collection = "servers"
    single = "server"

    def normal(self, key: str, value: Any) -> Any:
        """Ids as texts; the default of a switch equals nothing."""
        if key == "sshKeys" and isinstance(value, list):
            return [str(item) for item in value] or None
        if value is False or (key == "placementGroupId" and value == 0):
            return None
        return super().normal(key, value)

    def drift(self, key: str, given: Any, real: Any) -> Any:
        """Of inline networks only what the program has given."""
        if key != "networks":
            return super().drift(key, given, real)
        places = {item["networkId"]: item for item in real}
        wanted = [(item, places.get(_network_id(item))) for item in given]
        return [
            {name: place.get(name, item[name]) for name in item}
            for item, place in wanted
            if place is not None
        ]

    # --- creating

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Resolve names as the genuine plugin does, POST, wait, attach networks."""
        server_type = _one(api, "server_types", inputs["serverType"], name=inputs["serverType"])
        image = _image(api, inputs["image"], server_type["architecture"])
        keys = [_ssh_key(api, key) for key in inputs.get("sshKeys") or ()]
        body = self.body(inputs) | {
            "server_type": str(server_type["id"]),
            "image": str(image["id"]),
            "ssh_keys": keys,
        }
        return self.finish(api, api.post("/servers", body), inputs)

    def settled(self, answer: Mapping[str, Any], inputs: Properties) -> bool:  # noqa: ARG002
        """Its status shows only afterwards."""
        return False

    def body(self, inputs: Properties) -> Properties:
        """What needs no look-up."""
        group = inputs.get("placementGroupId")
        return present(
            name=inputs["name"],
            location=inputs.get("location"),
            user_data=inputs.get("userData"),
            labels=inputs.get("labels"),
            firewalls=[{"firewall": item} for item in ids(inputs.get("firewallIds"))] or None,
            placement_group=int(group) if group else None,
            public_net=_public_net(inputs),
        )

    def complete(self, api: Api, found: Mapping[str, Any], inputs: Properties) -> None:
        """Wait for what still runs, then attach inline networks, backups and protection."""
        identity = str(found["id"])
        running = (
            api.get(f"/servers/{identity}/actions", status="running")["actions"]
            if found.get("locked")
            else []
        )
        api.wait({"actions": running})
        wanted = inputs.get("networks") or []
        if wanted:
            attached = {item["network"] for item in self.get(api, identity)["private_net"]}
            for network in wanted:
                if _network_id(network) not in attached:
                    _attach(api, identity, network)
        if inputs.get("backups"):
            api.act(f"/servers/{identity}/actions/enable_backup")
        if inputs.get("deleteProtection") or inputs.get("rebuildProtection"):
            self.protect(api, identity, inputs)

    def protect(self, api: Api, identity: str, inputs: Properties) -> None:
        """Delete and rebuild protection go together."""
        body = {
            "delete": bool(inputs.get("deleteProtection")),
            "rebuild": bool(inputs.get("rebuildProtection")),
        }
        api.act(f"/servers/{identity}/actions/change_protection", body)

    # --- reading

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        """The server as the genuine plugin shows it."""
        public = found.get("public_net") or {}
        ipv4, ipv6 = public.get("ipv4") or {}, public.get("ipv6") or {}
        prefix = ipv6.get("ip") or ""
        location = found.get("location") or (found.get("datacenter") or {}).get("location") or {}
        user_data = inputs.get("userData")
        return {
            "__meta": _META,
            "allowDeprecatedImages": inputs.get("allowDeprecatedImages"),
            "backupWindow": found.get("backup_window") or "",
            "backups": bool(found.get("backup_window")),
            "datacenter": None,
            "deleteProtection": found["protection"]["delete"],
            "firewallIds": [item["id"] for item in public.get("firewalls") or ()],
            "id": str(found["id"]),
            "ignoreRemoteFirewallIds": bool(inputs.get("ignoreRemoteFirewallIds")),
            "image": inputs.get("image"),
            "ipv4Address": ipv4.get("ip") or "",
            "ipv6Address": prefix.split("/")[0] + "1" if prefix else "",
            "ipv6Network": prefix,
            "iso": None,
            "keepDisk": bool(inputs.get("keepDisk")),
            "labels": found.get("labels") or None,
            "location": location.get("name") or inputs.get("location"),
            "name": found["name"],
            "networks": _inline_networks(found, inputs),
            "placementGroupId": (found.get("placement_group") or {}).get("id") or 0,
            "primaryDiskSize": found["primary_disk_size"],
            "publicNets": inputs.get("publicNets") or [],
            "rebuildProtection": found["protection"]["rebuild"],
            "rescue": None,
            "serverType": found["server_type"]["name"],
            "shutdownBeforeDeletion": bool(inputs.get("shutdownBeforeDeletion")),
            "sshKeys": inputs.get("sshKeys"),
            "status": found["status"],
            "userData": None if user_data is None else _digest(user_data),
        }

    # --- changing and deleting

    def alter(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        """Everything but name and labels."""
        left = [key for key in keys if key not in _NOT_IN_API]
        off = bool(_OFF_NEEDED & set(left)) and self.get(api, identity)["status"] != "off"
        path = f"/servers/{identity}/actions"
        if off:
            api.act(f"{path}/poweroff")
        if "serverType" in left:
            body = {"server_type": new["serverType"], "upgrade_disk": not new.get("keepDisk")}
            api.act(f"{path}/change_type", body)
        if "placementGroupId" in left:
            self._move(api, path, old, new)
        if off:
            api.act(f"{path}/poweron")
        if "firewallIds" in left:
            change_firewalls(api, int(identity), ids(old.get("firewallIds")), ids(new.get("firewallIds")))
        if "networks" in left:
            self._change_networks(api, identity, old, new)
        if "backups" in left:
            api.act(f"{path}/{'enable' if new.get('backups') else 'disable'}_backup")
        if "deleteProtection" in left or "rebuildProtection" in left:
            self.protect(api, identity, new)
        done = {"serverType", "placementGroupId", "firewallIds", "networks", "backups", "deleteProtection"}
        rest = [key for key in left if key not in done | {"rebuildProtection"}]
        if rest:
            raise UnsupportedError(f"changing '{rest[0]}' of {self.type} in place")

    @staticmethod
    def _move(api: Api, path: str, old: Properties, new: Properties) -> None:
        if old.get("placementGroupId"):
            api.act(f"{path}/remove_from_placement_group")
        if new.get("placementGroupId"):
            api.act(f"{path}/add_to_placement_group", {"placement_group": int(new["placementGroupId"])})

    def _change_networks(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        before = {_network_id(item): item for item in old.get("networks") or ()}
        after = {_network_id(item): item for item in new.get("networks") or ()}
        for network in before.keys() - after.keys():
            api.act(f"/servers/{identity}/actions/detach_from_network", {"network": network})
        for network, wanted in after.items():
            if network not in before:
                _attach(api, identity, wanted)
            elif (before[network].get("ip"), wanted.get("ip")) != (None,) * 2 and before[network].get(
                "ip"
            ) != wanted.get("ip"):
                api.act(f"/servers/{identity}/actions/detach_from_network", {"network": network})
                _attach(api, identity, wanted)
            elif sorted(before[network].get("aliasIps") or ()) != sorted(wanted.get("aliasIps") or ()):
                body = {"network": network, "alias_ips": wanted.get("aliasIps") or []}
                api.act(f"/servers/{identity}/actions/change_alias_ips", body)

    def delete(self, api: Api, identity: str, inputs: Properties) -> None:
        """Shut down first where the program says so."""
        if inputs.get("shutdownBeforeDeletion"):
            try:
                api.act(f"/servers/{identity}/actions/shutdown")
            except ApiError as error:
                if error.code not in ("not_found", "server_not_running"):
                    raise
        super().delete(api, identity, inputs)


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


def _public_net(inputs: Properties) -> Properties | None:
    given = inputs.get("publicNets")
    if not given:
        return None
    first = given[0]
    return present(
        enable_ipv4=first.get("ipv4Enabled", True),
        enable_ipv6=first.get("ipv6Enabled", True),
        ipv4=first.get("ipv4") or None,
        ipv6=first.get("ipv6") or None,
    )


def _network_id(network: Mapping[str, Any]) -> int:
    if network.get("networkId"):
        return int(network["networkId"])
    return int(str(network["subnetId"]).split("-", 1)[0])


def _attach(api: Api, identity: str, network: Mapping[str, Any]) -> None:
    subnet = network.get("subnetId")
    body = present(
        network=_network_id(network),
        ip=network.get("ip") or None,
        alias_ips=network.get("aliasIps") or None,
        ip_range=str(subnet).split("-", 1)[1] if subnet else None,
    )
    busy = ("conflict", "locked", "service_error", "no_subnet_available")
    api.retry(lambda: api.act(f"/servers/{identity}/actions/attach_to_network", body), busy, 5)


def _inline_networks(found: Mapping[str, Any], inputs: Properties) -> list[Properties]:
    """Only networks of the program's own block; others belong to ServerNetwork resources."""
    places = {item["network"]: item for item in found.get("private_net") or ()}
    shown = []
    for network in inputs.get("networks") or ():
        place = places.get(_network_id(network))
        if place is not None:
            shown.append(dict(network) | {
                "networkId": place["network"],
                "ip": place["ip"],
                "aliasIps": list(place.get("alias_ips") or ()),
                "macAddress": place["mac_address"],
            })  # fmt: skip
    return shown
