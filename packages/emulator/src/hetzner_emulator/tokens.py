"""Tokens of the emulated API, and other secrets that are made once and kept in a file."""

from __future__ import annotations

import os
import secrets
import string
from pathlib import Path

TOKEN_LENGTH = 64  # the Hetzner providers of Terraform and Pulumi demand exactly this


def new() -> str:
    """A token of the length that clients demand, from the operating system's randomness."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(TOKEN_LENGTH))


def kept(path: Path) -> str:
    """The secret kept in a file, made at the first use, readable by its owner only."""
    if not path.exists() or not path.stat().st_size:  # a power cut may leave an empty one
        new_file = path.with_suffix(".new")
        with os.fdopen(os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(new())
        new_file.replace(path)
    return path.read_text().strip()
