"""Secrets encrypted at rest, as with k3s's --secrets-encryption: a key made once, in k3s's own file."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path
from typing import Any

from k3s_standin.certificates import write_secret

_KEY_BYTES = 32


def configuration(key: bytes) -> dict[str, Any]:
    """The API server's EncryptionConfiguration: new Secrets by AES-CBC, plain ones are still read.

    Args:
        key: 32 bytes.
    """
    encrypting = {"aescbc": {"keys": [{"name": "aescbckey", "secret": base64.b64encode(key).decode()}]}}
    return {
        "kind": "EncryptionConfiguration",
        "apiVersion": "apiserver.config.k8s.io/v1",
        "resources": [{"resources": ["secrets"], "providers": [encrypting, {"identity": {}}]}],
    }


def ensure(file: Path) -> None:
    """Write the configuration with a new key; one that is there is kept, as Secrets are lost without it."""
    if not file.exists():
        write_secret(file, json.dumps(configuration(secrets.token_bytes(_KEY_BYTES))))
