"""Operations on SSH keys."""

from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.errors import UniquenessError
from hetzner_emulator.models.ssh_keys import SshKey, fingerprint, ssh_key_wire
from hetzner_emulator.wire.reply import Reply

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
async def _create(call: Call) -> Reply:
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
