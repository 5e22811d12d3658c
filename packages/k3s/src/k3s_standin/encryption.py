"""Secrets encrypted at rest, as with k3s's --secrets-encryption: one key in k3s's file."""

import base64
import json
import secrets
from pathlib import Path
from typing import Any

from k3s_standin.certificates import write_secret

_KEY_BYTES = 32


def configuration(key: bytes) -> dict[str, Any]:
    """The EncryptionConfiguration with a 32-byte key: writes Secrets by AES-CBC, reads plain ones, too."""
    encrypting = {"aescbc": {"keys": [{"name": "aescbckey", "secret": base64.b64encode(key).decode()}]}}
    return {
        "kind": "EncryptionConfiguration",
        "apiVersion": "apiserver.config.k8s.io/v1",
        "resources": [{"resources": ["secrets"], "providers": [encrypting, {"identity": {}}]}],
    }


def ensure(file: Path) -> None:
    """Write the configuration with a new key unless it exists: Secrets are lost without their key."""
    if not file.exists():
        write_secret(file, json.dumps(configuration(secrets.token_bytes(_KEY_BYTES))))
