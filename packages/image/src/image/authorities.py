"""The trusted root certificates: a file with all of them, and OpenSSL's folder with one file for each.

A process that trusts a file reads all of its 150 certificates for each context, which takes 25 ms of CPU and
more than a MiB; of the folder it reads those that it needs. ``openssl rehash`` makes such a folder, and its
file names are what ``X509_NAME_hash`` gives: the beginning of the SHA-1 of the subject in a canonical form
(OpenSSL's crypto/x509/x_name.c, x509_name_canon).
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from image.tree import Entry, File, Tree

if TYPE_CHECKING:
    from cryptography import x509

_SET, _SEQUENCE, _OBJECT, _UTF8 = 0x31, 0x30, 0x06, 0x0C
_SPACES = " \t\n\v\f\r"


def certificates(tree: Tree) -> list[bytes]:
    """The root certificates of Mozilla as Debian has them, PEM, in the order of their names."""
    return [
        entry.content.rstrip() + b"\n"
        for path, entry in sorted(tree.items())
        if path.startswith("usr/share/ca-certificates/") and isinstance(entry, File)
    ]


def by_hash(authorities: Iterable[bytes]) -> dict[str, Entry]:
    """Certificates (PEM) by the file names by which OpenSSL finds them."""
    from cryptography import x509  # noqa: PLC0415  slow to load, and './dev up' reads no certificates
    from cryptography.utils import CryptographyDeprecationWarning  # noqa: PLC0415

    seen: Counter[str] = Counter()
    files: dict[str, Entry] = {}
    for content in authorities:
        with warnings.catch_warnings():
            # Some authorities numbered their certificate 0.
            warnings.simplefilter("ignore", CryptographyDeprecationWarning)
            name = subject_hash(x509.load_pem_x509_certificate(content).subject)
        files[f"{name}.{seen[name]}"] = File(content)
        seen[name] += 1
    return files


def subject_hash(subject: x509.Name) -> str:
    """Eight hexadecimal digits: a hash of a name that ignores case and spaces."""
    canonical = b"".join(_der(_SET, b"".join(sorted(map(_attribute, part)))) for part in subject.rdns)
    return hashlib.sha1(canonical, usedforsecurity=False).digest()[3::-1].hex()


def _attribute(one: x509.NameAttribute[str | bytes]) -> bytes:
    assert isinstance(one.value, str), "a name in Mozilla's list has an unsupported BIT STRING value"
    # Spaces at its ends and repeated ones don't matter, nor the case of ASCII letters.
    words = re.split(f"[{_SPACES}]+", one.value.strip(_SPACES))
    lower = re.sub("[A-Z]+", lambda found: found[0].lower(), " ".join(words))
    return _der(_SEQUENCE, _object(one.oid) + _der(_UTF8, lower.encode()))


def _object(identifier: x509.ObjectIdentifier) -> bytes:
    """An object identifier in DER: seven bits a byte, and the first two numbers in one."""
    first, second, *rest = map(int, identifier.dotted_string.split("."))
    content = bytearray()
    for number in (40 * first + second, *rest):
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.append(0x80 | number & 0x7F)
        content += bytes(reversed(digits))
    return _der(_OBJECT, bytes(content))


def _der(tag: int, content: bytes) -> bytes:
    if len(content) < 0x80:
        return bytes((tag, len(content))) + content
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + content
