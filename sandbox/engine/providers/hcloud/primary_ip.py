"""hcloud.PrimaryIp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.engine.errors import ResourceNotFoundError
from sandbox.engine.providers.hcloud.api import Api
from sandbox.engine.providers.hcloud.kind import NamedKind, present
from sandbox.engine.values import Properties


class PrimaryIp(NamedKind):
    """A public address that outlives its server."""

    type = "hcloud:index/primaryIp:PrimaryIp"
    inputs = frozenset(
        {"name", "type", "location", "assigneeId", "assigneeType", "autoDelete", "labels", "deleteProtection"}
    )
    required = ("type",)
    replaces = frozenset({"type", "location"})
    collection = "primary_ips"
    single = "primary_ip"

    def body(self, inputs: Properties) -> Properties:
        """Name, type, place."""
        assignee = inputs.get("assigneeId")
        return present(
            name=inputs["name"],
            type=inputs["type"],
            location=inputs.get("location"),
            assignee_type=inputs.get("assigneeType") or "server",
            assignee_id=int(assignee) if assignee else None,
            auto_delete=bool(inputs.get("autoDelete")),
            labels=inputs.get("labels"),
        )

    def normal(self, key: str, value: Any) -> Any:
        """Not assigned is 0; switches are off by default."""
        if value is False or (key == "assigneeId" and value == 0):
            return None
        return super().normal(key, value)

    def complete(self, api: Api, found: Mapping[str, Any], inputs: Properties) -> None:
        """Protect it where the program says so."""
        if inputs.get("deleteProtection"):
            self.protect(api, str(found["id"]), inputs)

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        """The address."""
        ip = found["ip"]
        is_network = found["type"] == "ipv6"
        return {
            "assigneeId": found.get("assignee_id") or 0,
            "assigneeType": found.get("assignee_type") or inputs.get("assigneeType"),
            "autoDelete": found["auto_delete"],
            "datacenter": None,
            "deleteProtection": found["protection"]["delete"],
            "id": str(found["id"]),
            "ipAddress": ip.split("/")[0] + "1" if is_network else ip,
            "ipNetwork": ip if is_network else "",
            "labels": found.get("labels") or {},
            "location": (found.get("location") or {}).get("name") or inputs.get("location"),
            "name": found["name"],
            "type": found["type"],
        }

    def alter(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:
        """Give it to another server, or change what happens to it when that goes."""
        if "assigneeId" in keys:
            if old.get("assigneeId"):
                api.act(f"/primary_ips/{identity}/actions/unassign")
            if new.get("assigneeId"):
                body = {
                    "assignee_id": int(new["assigneeId"]),
                    "assignee_type": new.get("assigneeType") or "server",
                }
                api.act(f"/primary_ips/{identity}/actions/assign", body)
        if "autoDelete" in keys:
            api.put(f"/primary_ips/{identity}", {"auto_delete": bool(new.get("autoDelete"))})
        done = ("assigneeId", "assigneeType", "autoDelete")
        super().alter(api, identity, old, new, [key for key in keys if key not in done])

    def delete(self, api: Api, identity: str, inputs: Properties) -> None:
        """A server that holds it has to be off to let go of it."""
        found = self._get(api, identity)
        if found and found.get("assignee_id"):
            server = found["assignee_id"]
            running = api.get(f"/servers/{server}")["server"]["status"] != "off"
            if running:
                api.act(f"/servers/{server}/actions/poweroff")
            api.act(f"/primary_ips/{identity}/actions/unassign")
            if running:
                api.act(f"/servers/{server}/actions/poweron")
        super().delete(api, identity, inputs)

    def _get(self, api: Api, identity: str) -> dict[str, Any] | None:
        try:
            return self.get(api, identity)
        except ResourceNotFoundError:
            return None
