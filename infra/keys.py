"""The environment's SSH key pair and the cluster's shared secret: made once, kept as secrets in the state."""

from __future__ import annotations

import secrets
from typing import Any

import pulumi
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pulumi.dynamic import CreateResult, DiffResult, Resource

from .dynamic import Provider


class KeyPairProvider(Provider):
    """Makes an ED25519 key pair once."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Makes a new pair."""
        return CreateResult("ed25519", {**props, **new_key_pair(props["comment"])})

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """It never changes."""
        return DiffResult(changes=False)


class KeyPair(Resource, module="ccm-from-scratch", name="KeyPair"):
    """An ED25519 key pair; the private half is a secret."""

    public_key: pulumi.Output[str]
    private_key: pulumi.Output[str]

    def __init__(self, name: str, comment: str, opts: pulumi.ResourceOptions | None = None) -> None:
        secret = pulumi.ResourceOptions(additional_secret_outputs=["private_key"])
        props = {"comment": comment, "public_key": None, "private_key": None}
        super().__init__(KeyPairProvider(), name, props, pulumi.ResourceOptions.merge(secret, opts))
        # an output is only marked by the engine: mark it for everything that is made of it, too
        self.private_key = pulumi.Output.secret(self.private_key)


class SharedSecretProvider(Provider):
    """Draws a random text once."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Draws 256 bits."""
        return CreateResult("secret", {**props, "value": secrets.token_hex(32).upper()})

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """It never changes."""
        return DiffResult(changes=False)


class SharedSecret(Resource, module="ccm-from-scratch", name="SharedSecret"):
    """What k3s servers and agents prove to each other: 64 hexadecimal digits, made by us.

    Their letters are upper-case, by which they are told from those of earlier versions; see infra/cluster.py.
    """

    value: pulumi.Output[str]

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        secret = pulumi.ResourceOptions(additional_secret_outputs=["value"])
        super().__init__(
            SharedSecretProvider(), name, {"value": None}, pulumi.ResourceOptions.merge(secret, opts)
        )
        self.value = pulumi.Output.secret(self.value)


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
