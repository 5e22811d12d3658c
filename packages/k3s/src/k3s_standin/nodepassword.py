"""Node passwords: a node's name belongs to the machine that used it first, even if another has the token.

As in k3s, each machine makes a password. The server keeps its hash in a Secret, and refuses another machine
with the same name. The Secret is deleted with its Node, or by node_controller if the Node never registered.
"""

import base64
import hashlib
import hmac
import secrets

from k3s_standin.api import ApiClient, ApiError

_LOG_N, _R, _P = 12, 8, 1
SECRETS = "/api/v1/namespaces/kube-system/secrets"
SUFFIX = ".node-password.k3s"


def hash_password(password: str, salt: bytes | None = None) -> str:
    """A salted hash: ``$1:salt:log2(N):r:p:hash``."""
    salt = secrets.token_bytes(16) if salt is None else salt
    digest = _scrypt(password, salt, _LOG_N, _R, _P)
    return f"$1:{salt.hex()}:{_LOG_N}:{_R}:{_P}:{base64.b64encode(digest).decode()}"


def matches(password: str, stored: str) -> bool:
    """Whether a password has the stored hash."""
    try:
        kind, salt, log_n, r, p, digest = stored.split(":")
        given = _scrypt(password, bytes.fromhex(salt), int(log_n), int(r), int(p))
    except ValueError:
        return False
    return kind == "$1" and hmac.compare_digest(base64.b64encode(given).decode(), digest)


def _scrypt(password: str, salt: bytes, log_n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=1 << log_n, r=r, p=p, dklen=64)


def secret_name(node: str) -> str:
    """The name of the Secret in kube-system that holds a node's hash."""
    return f"{node}{SUFFIX}"


def claim(api: ApiClient, node: str, password: str) -> bool:
    """Reserve a name for a machine's password; False if another machine has it, even without a Node."""
    name = secret_name(node)
    stored = api.get(f"{SECRETS}/{name}")
    if stored is None:
        return _create(api, name, password)
    return matches(password, base64.b64decode(stored["data"].get("hash", "")).decode())


def _create(api: ApiClient, name: str, password: str) -> bool:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "immutable": True,
        "stringData": {"hash": hash_password(password)},
    }
    try:
        api.request("POST", SECRETS, secret)
    except ApiError as error:
        if error.status == 409:  # another machine was faster
            return False
        raise
    return True


def forget(api: ApiClient, node: str) -> None:
    """Release a node's name for another machine."""
    api.delete(f"{SECRETS}/{secret_name(node)}")
