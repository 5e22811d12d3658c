"""Tokens of the emulated API, and other generated secrets in files."""

import os
import secrets
import string
from pathlib import Path

TOKEN_LENGTH = 64  # required by the providers of Terraform and Pulumi


def new() -> str:
    """A random token of the length that clients require."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(TOKEN_LENGTH))


def kept(path: Path) -> str:
    """The secret in a file, which the first call creates, readable by its owner only."""
    if not path.exists() or not path.stat().st_size:  # a power cut can leave an empty file
        new_file = path.with_suffix(".new")
        with os.fdopen(os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(new())
        new_file.replace(path)
    return path.read_text().strip()
