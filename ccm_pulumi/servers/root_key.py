"""The stack's own SSH key on a server: the cloud adds it to a new server, and this resource rotates it.

``pulumi up --replace`` of the ``KeyPair`` makes another pair. Servers stay: each of them gets the new key by
the old one, which is in the state of this resource until then, and loses the old one.
"""

import shlex

from cryptography.hazmat.primitives import serialization

from ..lib.errors import UnreachableError
from ..lib.ssh import Host, run_once

AUTHORIZED = "/root/.ssh/authorized_keys"
_SECONDS = 30.0


async def rotate(before: Host, after: Host) -> None:
    """Replaces a server's key: ``before`` has the current one, ``after`` the new one."""
    old, new = public_half(before.private_key), public_half(after.private_key)
    try:
        what = "adding the new SSH key"
        await run_once([before], add_script(new), what=what, timeout=_SECONDS, within=_SECONDS)
    except UnreachableError:
        # an earlier run may have ended after the server had lost the old key
        pass
    what = "removing the old SSH key"
    await run_once([after], remove_script(old), what=what, timeout=_SECONDS, within=_SECONDS)


def add_script(public_key: str, path: str = AUTHORIZED) -> str:
    """Allows logins with a key; does nothing if the key is already there."""
    line, file = shlex.quote(public_key), shlex.quote(path)
    return f"umask 077; grep -qsF {line} {file} || printf '\\n%s\\n' {line} >> {file}"


def remove_script(public_key: str, path: str = AUTHORIZED) -> str:
    """Stops logins with a key; other lines stay, and the file keeps its owner and mode."""
    line, file = shlex.quote(public_key), shlex.quote(path)
    return f"rest=$(grep -vF {line} {file}) || true; printf '%s\\n' \"$rest\" > {file}"


def public_half(private_key: str) -> str:
    """The public key in the form of OpenSSH, without a comment."""
    key = serialization.load_ssh_private_key(private_key.encode(), None)
    kind, form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return key.public_key().public_bytes(kind, form).decode()
