"""A separate program: creates a P-256 key and a certificate for localhost, and prints both as PEM.

The program calls OpenSSL 3 through ctypes, so its only dependency is a library that Python's ``ssl`` module
also needs. It imports no module of this project. ``tls`` starts it with ``python -I -S``.
"""

import ctypes
import secrets
import sys
from ctypes import byref, c_char_p, c_int, c_long, c_void_p
from typing import Any

NAMES = b"DNS:localhost,IP:127.0.0.1,IP:::1"
SECONDS = 365 * 24 * 3600
# Clients' clocks may be slow.
BACKDATED = -3600
UTF8 = 0x1000
X509_VERSION_3 = 2
BIO_CTRL_INFO = 3
EXTENSIONS = (
    (85, NAMES),  # subjectAltName
    (87, b"critical,CA:FALSE"),  # basicConstraints
    (83, b"critical,digitalSignature"),  # keyUsage
    (126, b"serverAuth"),  # extendedKeyUsage
)
LIBRARIES = ("libcrypto.so.3", "libcrypto.3.dylib")


def load() -> Any:
    """Load OpenSSL's library."""
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise SystemExit("OpenSSL 3 (libcrypto.so.3) was not found")


class OpenSsl:
    """Calls functions of OpenSSL, and checks the results."""

    def __init__(self) -> None:
        self._library = load()

    def pointer(self, name: str, *arguments: Any) -> c_void_p:
        """Call a function that returns a pointer. NULL is a failure."""
        function = self._library[name]
        function.restype = c_void_p
        result = function(*arguments)
        if not result:
            raise SystemExit(f"OpenSSL: {name} failed")
        return c_void_p(result)

    def number(self, name: str, *arguments: Any) -> int:
        """Call a function that returns a number. A number below 1 is a failure."""
        function = self._library[name]
        function.restype = c_long
        result = function(*arguments) & 0xFFFFFFFF
        if not 0 < result < 1 << 31:
            raise SystemExit(f"OpenSSL: {name} failed")
        return result

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function and ignore its result."""
        self._library[name](*arguments)


def make_key(openssl: OpenSsl) -> c_void_p:
    """Create a private key on the curve P-256."""
    context = openssl.pointer("EVP_PKEY_CTX_new_from_name", None, c_char_p(b"EC"), None)
    openssl.number("EVP_PKEY_keygen_init", context)
    openssl.number("EVP_PKEY_CTX_set_group_name", context, c_char_p(b"P-256"))
    key = c_void_p()
    openssl.number("EVP_PKEY_generate", context, byref(key))
    return key


def make_certificate(openssl: OpenSsl, key: c_void_p) -> c_void_p:
    """Create a self-signed certificate."""
    certificate = openssl.pointer("X509_new")
    openssl.number("X509_set_version", certificate, c_long(X509_VERSION_3))
    serial = openssl.pointer("X509_get_serialNumber", certificate)
    openssl.number("ASN1_INTEGER_set", serial, c_long(secrets.randbits(62) + 1))
    for edge, seconds in (("X509_getm_notBefore", BACKDATED), ("X509_getm_notAfter", SECONDS)):
        time = openssl.pointer(edge, certificate)
        openssl.pointer("X509_gmtime_adj", time, c_long(seconds))
    openssl.number("X509_set_pubkey", certificate, key)
    name = openssl.pointer("X509_get_subject_name", certificate)
    common_name = f"localhost@{secrets.token_hex(4)}".encode()
    openssl.number(
        "X509_NAME_add_entry_by_txt", name, c_char_p(b"CN"), c_int(UTF8), c_char_p(common_name),
        c_int(-1), c_int(-1), c_int(0),
    )  # fmt: skip
    openssl.number("X509_set_issuer_name", certificate, name)
    for identifier, value in EXTENSIONS:
        extension = openssl.pointer("X509V3_EXT_conf_nid", None, None, c_int(identifier), c_char_p(value))
        openssl.number("X509_add_ext", certificate, extension, c_int(-1))
    openssl.number("X509_sign", certificate, key, openssl.pointer("EVP_sha256"))
    return certificate


def read_all(openssl: OpenSsl, bio: c_void_p) -> bytes:
    """The content of a memory BIO."""
    data = c_char_p()
    length = openssl.number("BIO_ctrl", bio, c_int(BIO_CTRL_INFO), c_long(0), byref(data))
    return ctypes.string_at(data, length)


def main() -> None:
    """Print a private key and its certificate."""
    openssl = OpenSsl()
    key = make_key(openssl)
    certificate = make_certificate(openssl, key)
    bio = openssl.pointer("BIO_new", openssl.pointer("BIO_s_mem"))
    openssl.number("PEM_write_bio_PrivateKey", bio, key, None, None, c_int(0), None, None)
    openssl.number("PEM_write_bio_X509", bio, certificate)
    sys.stdout.buffer.write(read_all(openssl, bio))


if __name__ == "__main__":
    main()
