"""hcloud.SshKey."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.engine.providers.hcloud.kind import NamedKind, present
from sandbox.engine.values import Properties


class SshKey(NamedKind):
    """A public key that new servers accept."""

    type = "hcloud:index/sshKey:SshKey"
    inputs = frozenset({"name", "publicKey", "labels"})
    required = ("publicKey",)
    replaces = frozenset({"publicKey"})
    classic = False
    collection = "ssh_keys"
    single = "ssh_key"

    def normal(self, key: str, value: Any) -> Any:
        """A key without the white space around it."""
        return value.strip() if key == "publicKey" and isinstance(value, str) else super().normal(key, value)

    def body(self, inputs: Properties) -> Properties:
        """Name, key and labels."""
        return present(name=inputs["name"], public_key=inputs["publicKey"], labels=inputs.get("labels"))

    def outputs(self, found: Mapping[str, Any], inputs: Properties) -> Properties:
        """The key with its fingerprint."""
        key = found["public_key"]
        given = str(inputs.get("publicKey", ""))
        return {
            "fingerprint": found["fingerprint"],
            "id": str(found["id"]),
            "labels": found.get("labels") or {},
            "name": found["name"],
            "publicKey": given if given.strip() == key.strip() else key,
        }
