"""The environment's SSH key pair and the cluster's shared secret: made once, kept as secrets in the state."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pulumi.dynamic import CreateResult, DiffResult, Resource, UpdateResult

from .dynamic import Provider
from .files import ROOT, in_no_file, is_filed, remove_own, write_private

PRIVATE_KEY_FILE = ".dev-env.ssh"


class KeyPairProvider(Provider):
    """Makes an ED25519 key pair, and keeps the file of its private half as it should be."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Makes a new pair and writes the file."""
        pair = new_key_pair(props["comment"])
        _write(props, pair["private_key"])
        return CreateResult("ed25519", {**props, **pair})

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """A missing or changed file is written again; the key itself never changes."""
        path = file_path()
        same = path.is_file() and path.read_text() == _olds["private_key"]
        return DiffResult(changes=not same and is_filed(_news))

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Writes the file again."""
        _write(_news, _olds["private_key"])
        kept = {name: _olds[name] for name in ("public_key", "private_key")}
        return UpdateResult({**_news, **kept})

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Removes the file, if it still is the one that we wrote."""
        if is_filed(_props):
            remove_own(file_path(), _props["private_key"])


def _write(props: Mapping[str, Any], private_key: str) -> None:
    if is_filed(props):
        write_private(file_path(), private_key)


class KeyPair(Resource, module="ccm-from-scratch", name="KeyPair"):
    """An ED25519 key pair; the private half may also be in the ignored file ``.dev-env.ssh``, mode 0600."""

    public_key: pulumi.Output[str]
    private_key: pulumi.Output[str]

    def __init__(
        self, name: str, comment: str, *, in_file: bool = True, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        secret = pulumi.ResourceOptions(additional_secret_outputs=["private_key"])
        props = {"comment": comment, "public_key": None, "private_key": None, **in_no_file(in_file)}
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


def file_path() -> Path:
    """Where the person finds the private key."""
    return ROOT / PRIVATE_KEY_FILE


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
