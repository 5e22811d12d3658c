"""The environment's SSH key pair and the cluster's shared secret: made once, kept as secrets in the state."""

import secrets
from typing import Any

import pulumi
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pulumi.dynamic import CreateResult, DiffResult

from ..lib.dynamic import Provider, ProviderResource


class KeyPairProvider(Provider):
    """Makes an ED25519 key pair once."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Makes a new pair."""
        return CreateResult("ed25519", {**props, **new_key_pair(props["comment"])})

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """It never changes."""
        return DiffResult(changes=False)


class KeyPair(ProviderResource, provider=KeyPairProvider):
    """An ED25519 key pair with a comment; the private half is a secret."""

    secret_outputs = ("private_key",)
    public_key: pulumi.Output[str]
    private_key: pulumi.Output[str]


class SharedSecretProvider(Provider):
    """Draws a random text once."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Draws 256 bits."""
        return CreateResult("secret", {**props, "value": secrets.token_hex(32).upper()})

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """It never changes."""
        return DiffResult(changes=False)


class SharedSecret(ProviderResource, provider=SharedSecretProvider):
    """What k3s servers and agents prove to each other: 64 hexadecimal digits, made by us.

    Their letters are upper-case, unlike those of earlier versions; see cluster/k3s_installation.py.
    """

    secret_outputs = ("value",)
    value: pulumi.Output[str]


def new_key_pair(comment: str) -> dict[str, str]:
    """An ED25519 key pair as OpenSSH writes it, without a newline at the end of the public half.

    Hetzner trims that newline, and a difference between what was sent and what is there looks like drift.
    """
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return {"private_key": private.decode(), "public_key": f"{public.decode()} {comment}".strip()}
