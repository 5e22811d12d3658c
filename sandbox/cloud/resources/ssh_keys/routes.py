"""Operations on SSH keys."""

from __future__ import annotations

from sandbox.cloud.call import Call
from sandbox.cloud.collection import Resource, check_unique, created
from sandbox.cloud.errors import UniquenessError
from sandbox.cloud.registry import operation
from sandbox.cloud.reply import Reply
from sandbox.cloud.resources.ssh_keys.state import SshKey, fingerprint, ssh_key_wire

SSH_KEYS = Resource(
    "ssh_keys", SshKey, ssh_key_wire, ("id", "name"), {"fingerprint": lambda _cloud, key: key.fingerprint}
)
SSH_KEYS.add_reads()
SSH_KEYS.add_update()


@operation("POST", "/ssh_keys")
async def create(call: Call) -> Reply:
    """Keep a public key."""
    fields = call.fields()
    name, labels = SSH_KEYS.read_name(fields), fields.labels()
    public_key = fields.text("public_key", required=True, longest=16_384).strip()
    digest = fingerprint(public_key)
    if public_key and digest is None:
        fields.wrong("public_key", "SSH key is invalid: it must be in OpenSSH's format")
    fields.check()
    store = call.cloud.store
    store_keys = store.of(SshKey, call.project)
    if any(key.fingerprint == digest for key in store_keys):
        raise UniquenessError("SSH key with the same fingerprint already exists", "public_key")
    check_unique(call, SshKey, name)
    call.cloud.check_limit("ssh_keys", len(store_keys))
    key = SshKey(
        id=store.new_id(SshKey),
        project=call.project,
        name=name,
        labels=labels,
        created=call.cloud.now(),
        public_key=public_key,
        fingerprint=str(digest),
    )
    store.put(key)
    return created("ssh_key", SSH_KEYS.show(call, key))


@operation("DELETE", "/ssh_keys/{id}")
async def delete(call: Call) -> Reply:
    """Forget a key; servers that have it keep it."""
    call.cloud.store.remove(call.get(SshKey))
    return Reply(204, None)
