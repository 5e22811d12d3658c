"""The record of an SSH key."""

import base64
import binascii
import hashlib
from typing import Any, ClassVar

from hetzner_emulator.cloud import Cloud
from hetzner_emulator.state.records import Record, record

KEY_TYPES = frozenset(
    {
        "ssh-rsa", "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com",
    }
)  # fmt: skip


@record
class SshKey(Record):
    """A public key; ``fingerprint`` is MD5 in hexadecimal pairs, as OpenSSH showed it until 6.8."""

    KIND: ClassVar[str] = "ssh_key"
    FIRST_ID: ClassVar[int] = 1_000_001

    public_key: str
    fingerprint: str


def ssh_key_wire(_cloud: Cloud, key: SshKey) -> dict[str, Any]:
    """The key as the API shows it."""
    return key.common_wire("fingerprint", "public_key")


def fingerprint(public_key: str) -> str | None:
    """The fingerprint of a key in OpenSSH's format, or None if it isn't one."""
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
