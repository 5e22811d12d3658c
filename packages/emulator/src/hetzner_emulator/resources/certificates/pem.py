"""Reads certificates, and issues self-signed ones."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFETIME = dt.timedelta(days=90)
# Errors of the library; it raises some of them only when a part of the certificate is read.
_UNREADABLE = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


def contents(chain: str, private_key: str, certificate: x509.Certificate) -> dict[str, Any]:
    """The fields of an issued certificate's record; times are Unix time."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = extension.value.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        names = [str(attribute.value) for attribute in common]
    return {
        "certificate": chain,
        "private_key": private_key,
        "domain_names": list(names),
        "fingerprint": certificate.fingerprint(hashes.SHA256()).hex(":").upper(),
        "not_valid_before": certificate.not_valid_before_utc.timestamp(),
        "not_valid_after": certificate.not_valid_after_utc.timestamp(),
    }


def read(chain: str) -> x509.Certificate | None:
    """The first certificate of a PEM chain, or None if a part of it can't be read."""
    try:
        certificate = x509.load_pem_x509_certificates(chain.encode())[0]
        contents(chain, "", certificate)
        certificate.public_key()
    except _UNREADABLE:
        return None
    return certificate


def is_key_of(private_key: str, certificate: x509.Certificate) -> bool:
    """Whether a PEM key is the certificate's."""
    try:
        key = serialization.load_pem_private_key(private_key.encode(), None)
    except (TypeError, *_UNREADABLE):
        return False
    return key.public_key() == certificate.public_key()


def issue(domain_names: Sequence[str], now: float) -> tuple[str, str]:
    """A self-signed certificate for 90 days from a Unix time, and its key, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, domain_names[0][:64])])
    begin = dt.datetime.fromtimestamp(int(now), dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + LIFETIME)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(n) for n in domain_names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
    return certificate.public_bytes(encoding).decode(), private.decode()
