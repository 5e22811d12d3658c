"""Tokens: ``K10<hash of the server's CA>::<user>:<password>``, or the bare password."""

import hashlib
import re
from dataclasses import dataclass

from k3s_standin.errors import UsageError

_FULL = re.compile(r"^K10([0-9a-f]{64})::([^:]*):(.+)$")


@dataclass(frozen=True)
class Token:
    """A token that was typed."""

    password: str  # the secret
    # SHA-256 of the server's CA certificate, or None where the server is trusted unseen.
    authority_hash: str | None = None


def parse_token(text: str) -> Token:
    """Read a token in either form; it is not in the text of the error."""
    text = text.strip()
    if not text:
        raise UsageError("the token is empty")
    found = _FULL.match(text)
    if found:
        return Token(found[3], found[1])
    if text.startswith("K10"):
        raise UsageError(
            "the token starts with K10, but doesn't have the form K10<64 hex digits>::<user>:<password>"
        )
    return Token(text)


def authority_hash(certificate: bytes) -> str:
    """The hash of a CA certificate as in a full token."""
    return hashlib.sha256(certificate).hexdigest()


def full_token(certificate: bytes, password: str, user: str = "server") -> str:
    """A full token for the file node-token."""
    return f"K10{authority_hash(certificate)}::{user}:{password}"
