"""Signatures that cosign verifies with a public key.

Two forms of the same signature, ECDSA over SHA-256 on the curve P-256:

- a bundle: ``cosign verify-blob --key cosign.pub --bundle NAME.sigstore.json NAME``;
  https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_bundle.proto
- the signature alone, in Base64: ``cosign verify-blob --key cosign.pub --signature NAME.sig NAME``.

Neither is in a public log, because an entry takes an account and the network. So cosign needs
``--insecure-ignore-tlog``. RFC 6979 makes a signature of the same content the same bytes.
"""

import base64
import hashlib
import json
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from release.errors import ReleaseError

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_COSIGNS_OWN = (
    b"-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----",
    b"-----BEGIN ENCRYPTED COSIGN PRIVATE KEY-----",
)
_MAKE_ONE = (
    "To create such a key, run 'openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes-256-cbc'"
)


class Signer:
    """Signs with one key."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key

    def signature(self, content: bytes) -> bytes:
        """In ASN.1's DER."""
        return self._key.sign(content, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))

    def bundle(self, content: bytes) -> bytes:
        """A bundle with the signature of a content, as JSON."""
        public = self._key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        digest = {"algorithm": "SHA2_256", "digest": _text(hashlib.sha256(content).digest())}
        document = {
            "mediaType": BUNDLE,
            "verificationMaterial": {"publicKey": {"hint": _text(hashlib.sha256(public).digest())}},
            "messageSignature": {"messageDigest": digest, "signature": _text(self.signature(content))},
        }
        return json.dumps(document, sort_keys=True).encode() + b"\n"

    def sign_files(self, folder: Path) -> None:
        """Writes each file's bundle beside it; beside checksums.txt its signature alone as well."""
        for path in sorted(folder.iterdir()):
            content = path.read_bytes()
            path.with_name(f"{path.name}.sigstore.json").write_bytes(self.bundle(content))
            if path.name == "checksums.txt":
                path.with_name(f"{path.name}.sig").write_text(_text(self.signature(content)))


def open_signer(path: Path, password: str) -> Signer:
    """A signer with an EC key on P-256 from a PEM file: PKCS #8, encrypted or not, or SEC 1."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ReleaseError(f"the signing key can't be read: {error}") from error
    if content.lstrip().startswith(_COSIGNS_OWN):
        raise ReleaseError(
            f"the key {path} has cosign's own format, which './dev release' can't read. Create the "
            f"release without a signature, and then run 'cosign sign-blob --key {path} --bundle "
            "checksums.txt.sigstore.json checksums.txt'. Or use a key in the format PKCS #8. You can import "
            f"this key into cosign with 'cosign import-key-pair'. {_MAKE_ONE}"
        )
    try:
        key = serialization.load_pem_private_key(content, password.encode() if password else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # the library's text is not passed on: nothing of a key is to be in a message
        given = "with" if password else "without"
        said = (
            f"{path} can't be read as a private key in PEM format, {given} the password from COSIGN_PASSWORD"
        )
        raise ReleaseError(said) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ReleaseError(f"the key {path} isn't an EC key on the curve P-256. {_MAKE_ONE}")
    return Signer(key)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
