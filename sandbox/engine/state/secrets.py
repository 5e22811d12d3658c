"""Encryption with a passphrase, exactly as Pulumi's passphrase secrets provider does it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sandbox.engine.errors import PassphraseError
from sandbox.engine.properties.values import SECRET, SIGNATURE, is_secret, plain, transform

_ROUNDS = 1_000_000
_CHECK = b"pulumi"  # what a salt line carries encrypted, to recognise a wrong passphrase
# Around a passphrase in a file; of Python's the four separators from U+001C on are none of Go's.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_DAMAGED = "an encrypted value is damaged: it is not of the form v1:NONCE:TEXT, both in Base64"


def passphrase(environment: Mapping[str, str]) -> str:
    """The passphrase from PULUMI_CONFIG_PASSPHRASE or the file in PULUMI_CONFIG_PASSPHRASE_FILE.

    Raises:
        PassphraseError: Neither is set, or the file can't be read.
    """
    if "PULUMI_CONFIG_PASSPHRASE" in environment:
        return environment["PULUMI_CONFIG_PASSPHRASE"]
    name = environment.get("PULUMI_CONFIG_PASSPHRASE_FILE")
    if not name:
        raise PassphraseError(
            "passphrase must be set with the environment variable PULUMI_CONFIG_PASSPHRASE or "
            "PULUMI_CONFIG_PASSPHRASE_FILE"
        )
    try:
        # it may be any bytes, which reading as a text would change at ends of lines
        return Path(name).read_bytes().decode(errors="surrogateescape").strip(_SPACE)
    except OSError as error:
        raise PassphraseError(f"PULUMI_CONFIG_PASSPHRASE_FILE: {name}: {error.strerror}") from error


def opens(phrase: str, salt: str) -> bool:
    """Tell whether a passphrase fits a salt line; a damaged line fits none."""
    try:
        return Crypter(phrase, salt).decrypt(salt.split(":", 2)[2]) == _CHECK.decode()
    except (PassphraseError, ValueError, IndexError):
        return False


class Crypter:
    """Encrypts and decrypts with a key derived from passphrase and salt.

    Deriving takes a third of a second; it starts at once in a thread and is waited for at the first use.
    Ciphertexts of unchanged values are kept, so that a state file changes only where values change.

    Args:
        phrase: The passphrase.
        salt: Salt line of a stack (``v1:salt:check``), or None to make a new one.
    """

    def __init__(self, phrase: str, salt: str | None) -> None:
        self._given = salt
        self._raw = _raw(salt) if salt else os.urandom(8)
        self._cache: dict[tuple[str, str], str] = {}
        self._lock = threading.RLock()
        self._cipher: Any = None
        pool = ThreadPoolExecutor(1)
        self._key: Future[bytes] = pool.submit(
            hashlib.pbkdf2_hmac, "sha256", phrase.encode(errors="surrogateescape"), self._raw, _ROUNDS, 32
        )
        pool.shutdown(wait=False)

    @property
    def salt(self) -> str:
        """The salt line that belongs into the stack file and the state."""
        if self._given is None:
            self._given = f"v1:{base64.b64encode(self._raw).decode()}:{self.encrypt(_CHECK.decode())}"
        return self._given

    def encrypt(self, text: str) -> str:
        """Encrypt a text to ``v1:nonce:ciphertext``."""
        nonce = os.urandom(12)
        sealed = self._aead().encrypt(nonce, text.encode(), None)
        return f"v1:{base64.b64encode(nonce).decode()}:{base64.b64encode(sealed).decode()}"

    def decrypt(self, sealed: str) -> str:
        """Decrypt ``v1:nonce:ciphertext``.

        Raises:
            PassphraseError: The key is wrong or the text is damaged.
        """
        return self._decrypt(self._aead(), sealed)

    def seal(self, tree: Any, place: str) -> Any:
        """Replace the secrets of a tree by ciphertexts; ``place`` tells equal secrets of two places apart."""

        def encrypted(value: Any) -> Any:
            if not is_secret(value):
                return value
            text = json.dumps(plain(value["value"]), separators=(",", ":"))
            with self._lock:
                if (place, text) not in self._cache:
                    self._cache[place, text] = self.encrypt(text)
                return {SIGNATURE: SECRET, "ciphertext": self._cache[place, text]}

        return transform(tree, encrypted)

    def open(self, tree: Any, place: str) -> Any:
        """Replace the ciphertexts of a tree by secrets, the reverse of ``seal``."""

        def decrypted(value: Any) -> Any:
            if not is_secret(value):
                return value
            if "ciphertext" not in value:  # an export with --show-secrets
                return {SIGNATURE: SECRET, "value": json.loads(value["plaintext"])}
            try:
                content = json.loads(self.decrypt(value["ciphertext"]))
            except ValueError as error:
                raise PassphraseError(_DAMAGED) from error
            with self._lock:
                self._cache[place, json.dumps(content, separators=(",", ":"))] = value["ciphertext"]
            return {SIGNATURE: SECRET, "value": content}

        return transform(tree, decrypted)

    def _aead(self) -> Any:
        with self._lock:
            if self._cipher is None:
                self._cipher = self._checked()
            return self._cipher

    def _checked(self) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  slow; not every command needs it

        cipher = AESGCM(self._key.result())
        if self._given and self._decrypt(cipher, self._given.split(":", 2)[2]) != _CHECK.decode():
            raise PassphraseError("incorrect passphrase")
        return cipher

    @staticmethod
    def _decrypt(cipher: Any, sealed: str) -> str:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415

        try:
            version, nonce, content = sealed.split(":")
            if version != "v1":
                raise PassphraseError(f"secrets of version '{version}' are unknown (wanted: v1)")
            return cipher.decrypt(base64.b64decode(nonce), base64.b64decode(content), None).decode()
        except InvalidTag as error:
            raise PassphraseError("incorrect passphrase") from error
        except (ValueError, AttributeError) as error:
            raise PassphraseError(_DAMAGED) from error


def _raw(line: Any) -> bytes:
    """The salt in a salt line."""
    try:
        _, salt, _ = line.split(":", 2)
        return base64.b64decode(salt)
    except (ValueError, AttributeError) as error:
        raise PassphraseError(
            "the salt of the passphrase ('encryptionsalt' in the stack file, 'salt' in the state) is damaged"
        ) from error
