"""SSH keys."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any, ClassVar

from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import UniquenessError
from hetzner_emulator.state.records import Record, record
from hetzner_emulator.wire.reply import Reply

KEY_TYPES = frozenset(
    {
        "ssh-rsa", "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com",
    }
)  # fmt: skip


@record
class SshKey(Record):
    """A public key; ``fingerprint`` is MD5 in hexadecimal pairs, as OpenSSH showed it for long."""

    KIND: ClassVar[str] = "ssh_key"
    FIRST_ID: ClassVar[int] = 1_000_001

    public_key: str
    fingerprint: str


def ssh_key_wire(_cloud: Cloud, key: SshKey) -> dict[str, Any]:
    """The key as the API shows it."""
    return {**key.common_wire(), "fingerprint": key.fingerprint, "public_key": key.public_key}


def fingerprint(public_key: str) -> str | None:
    """The fingerprint of a key in OpenSSH's format, or None if it is none."""
    parts = public_key.split()
    if len(parts) < 2 or parts[0] not in KEY_TYPES:
        return None
    try:
        blob = base64.b64decode(parts[1], validate=True)
    except (binascii.Error, ValueError):
        return None
    name = parts[0].encode()
    if not blob.startswith(len(name).to_bytes(4, "big") + name):
        return None
    digest = hashlib.md5(blob, usedforsecurity=False).hexdigest()
    return ":".join(digest[i : i + 2] for i in range(0, 32, 2))


SSH_KEYS = Resource(
    "ssh_keys",
    SshKey,
    ssh_key_wire,
    sorts=("id", "name"),
    filters={"fingerprint": lambda _cloud, key: key.fingerprint},
    actions=False,
)
SSH_KEYS.register()


@operation("POST", "/ssh_keys")
async def create(call: Call) -> Reply:
    """Keep a public key."""
    fields = call.fields()
    name, labels = SSH_KEYS.read_name(fields), fields.labels()
    public_key = fields.text("public_key", required=True, longest=16_384)
    digest = fingerprint(public_key)
    if public_key and digest is None:
        fields.wrong("public_key", "SSH key is invalid: it must be in OpenSSH's format")
    fields.check()
    if any(key.fingerprint == digest for key in call.cloud.store.of(SshKey, call.project)):
        raise UniquenessError("SSH key with the same fingerprint already exists", "public_key")
    SSH_KEYS.check_new(call, name)
    key = SSH_KEYS.new(call, name, labels, public_key=public_key.strip(), fingerprint=digest)
    call.cloud.store.put(key)
    return created("ssh_key", SSH_KEYS.show(call, key))
