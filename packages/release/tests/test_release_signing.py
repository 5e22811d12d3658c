import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from release.errors import ReleaseError
from release.signing import Signer, open_signer

GUIDE = (Path(__file__).parents[3] / "docs/guides/releasing.md").read_text(encoding="utf-8")
KEY = ec.generate_private_key(ec.SECP256R1())


def pem(key, password: str = "") -> bytes:
    hidden = serialization.BestAvailableEncryption(password.encode()) if password else None
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    return key.private_bytes(*form, hidden or serialization.NoEncryption())


def verify(signature: bytes, content: bytes) -> None:
    KEY.public_key().verify(signature, content, ec.ECDSA(hashes.SHA256()))


def test_the_bundle_has_what_its_specification_asks_for() -> None:
    text = Signer(KEY).bundle(b"content")
    assert text == Signer(KEY).bundle(b"content"), "the same content has the same signature"
    bundle = json.loads(text)
    assert bundle.pop("mediaType") == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert bundle["verificationMaterial"].keys() == {"publicKey"}
    message = bundle["messageSignature"]
    digest = base64.b64encode(hashlib.sha256(b"content").digest()).decode()
    assert message["messageDigest"] == {"algorithm": "SHA2_256", "digest": digest}
    verify(base64.b64decode(message["signature"]), b"content")
    with pytest.raises(InvalidSignature):
        verify(base64.b64decode(message["signature"]), b"contents")


def test_every_file_gets_a_bundle_and_the_list_a_signature_alone(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"wheel")
    (tmp_path / "checksums.txt").write_bytes(b"list")
    Signer(KEY).sign_files(tmp_path)
    names = "a.whl a.whl.sigstore.json checksums.txt checksums.txt.sig checksums.txt.sigstore.json"
    assert sorted(path.name for path in tmp_path.iterdir()) == names.split()
    verify(base64.b64decode((tmp_path / "checksums.txt.sig").read_text()), b"list")


def test_a_key_is_read_with_and_without_a_password(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(pem(KEY))
    (tmp_path / "hidden").write_bytes(pem(KEY, "word"))
    for signer in (open_signer(tmp_path / "plain", ""), open_signer(tmp_path / "hidden", "word")):
        verify(signer.signature(b"x"), b"x")


@pytest.mark.parametrize(
    ("content", "password", "said"),
    [
        (pem(KEY, "word"), "", "without the password from COSIGN_PASSWORD"),
        (pem(KEY, "word"), "other", "with the password from COSIGN_PASSWORD"),
        (pem(KEY), "word", "with the password from COSIGN_PASSWORD"),
        (b"no key", "", "can't be read as a private key in PEM"),
        (pem(ec.generate_private_key(ec.SECP384R1())), "", "isn't an EC key on the curve P-256"),
        (pem(ed25519.Ed25519PrivateKey.generate()), "", "isn't an EC key on the curve P-256"),
        (pem(rsa.generate_private_key(65537, 2048)), "", "isn't an EC key on the curve P-256"),
        (b"-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\ne30=\n", "", "cosign sign-blob"),
        (b"-----BEGIN ENCRYPTED COSIGN PRIVATE KEY-----\ne30=\n", "", "cosign sign-blob"),
    ],
)
def test_another_key_is_refused_and_not_printed(
    tmp_path: Path, content: bytes, password: str, said: str
) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    with pytest.raises(ReleaseError, match=said) as refused:
        open_signer(path, password)
    inside = [line for line in content.decode().splitlines() if not line.startswith("-----")]
    assert not [line for line in inside if line in str(refused.value)]
    assert not password or f" {password} " not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__cause__ is None


def test_a_key_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"can't be read: .*key\.pem"):
        open_signer(tmp_path / "key.pem", "")


def test_a_key_that_openssl_made_as_the_guide_says_is_taken(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed; on Debian and Ubuntu: apt-get install openssl")
    block = re.search(r"^export COSIGN_PASSWORD=…\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    assert block is not None
    environment = {**os.environ, "COSIGN_PASSWORD": "word"}
    command = ["sh", "-ec", block[1]]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=60)
    content = open_signer(tmp_path / "release.pem", "word").signature(b"x")
    (tmp_path / "signature").write_bytes(content)
    (tmp_path / "x").write_bytes(b"x")
    check = ["openssl", "dgst", "-sha256", "-verify", "cosign.pub", "-signature", "signature", "x"]
    assert subprocess.run(check, cwd=tmp_path, check=False, capture_output=True, timeout=60).returncode == 0
