"""TLS of the health and metrics server: versions, cipher suites, reloads of certificates."""

import os
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ccm.errors import ConfigurationError

# Go also allows 1.0 and 1.1. These versions are insecure, so we use 1.2 instead.
TLS_VERSIONS = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
# From IANA's names, as in Go and Kubernetes, to OpenSSL's names. The suites of TLS 1.3 are always enabled.
_CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_AES_128_GCM_SHA256": "",
    "TLS_AES_256_GCM_SHA384": "",
    "TLS_CHACHA20_POLY1305_SHA256": "",
}
_PAIR = "cloud-controller-manager"


def cipher_problems(names: Sequence[str]) -> Iterator[str]:
    """An error message for each unsupported cipher suite."""
    for name in names:
        if name not in _CIPHERS:
            yield f"--tls-cipher-suites: {name!r} is not one of {', '.join(_CIPHERS)}"


class ServerTls:
    """An SSL context that is replaced when the certificate files or the client CAs change.

    Each change creates a new context, because OpenSSL can only add CAs to a context, and would let clients of
    a removed CA resume sessions. Without files, a certificate for localhost is created, and stored in
    ``directory`` if set. Raises ConfigurationError if the certificate doesn't match the key, or can't be
    created.
    """

    def __init__(
        self,
        certificate_file: str = "",
        key_file: str = "",
        directory: str = "",
        minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        cipher_suites: Sequence[str] = (),
    ) -> None:
        self._minimum = minimum
        self._ciphers = ":".join(_CIPHERS[name] for name in cipher_suites if _CIPHERS[name])
        given = (Path(certificate_file), Path(key_file)) if certificate_file else None
        self._files = given or (_made_in(Path(directory)) if directory else None)
        self._made = make_certificate() if self._files is None else None
        self._stamp = self._read_stamp()
        self._authorities = ""
        self.context = self._new_context("")

    def reload(self) -> bool:
        """Read changed files. Returns whether they changed. After an error, keeps the old context."""
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return False
        self.context = self._new_context(self._authorities)
        self._stamp = stamp
        return True

    def trust_clients(self, authorities: str) -> bool:
        """Accept client certificates of these CAs (PEM) only. Returns whether the CAs changed.

        Clients may still connect without a certificate. Raises OSError if the CAs can't be decoded; then the
        old CAs stay.
        """
        if authorities == self._authorities:
            return False
        self.context = self._new_context(authorities)
        self._authorities = authorities
        return True

    def _new_context(self, authorities: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._minimum
        if self._ciphers:
            context.set_ciphers(self._ciphers)
        if self._made is not None:
            load_from_memory(context, self._made)
        if self._files is not None:
            try:
                context.load_cert_chain(*self._files)
            except OSError as error:  # includes ssl.SSLError
                raise _unusable(self._files, error) from error
        if authorities:
            context.load_verify_locations(cadata=authorities)
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _read_stamp(self) -> tuple[int, ...]:
        if self._files is None:
            return ()
        try:
            return tuple(file.stat().st_mtime_ns for file in self._files)
        except OSError as error:
            raise _unusable(self._files, error) from error


def _unusable(files: tuple[Path, Path], error: OSError) -> ConfigurationError:
    names = " and ".join(str(file) for file in files)
    return ConfigurationError([f"the certificate in {names} can't be used: {error}"])


def _made_in(directory: Path) -> tuple[Path, Path]:
    certificate, key = directory / f"{_PAIR}.crt", directory / f"{_PAIR}.key"
    try:
        if not (certificate.exists() and key.exists()):
            directory.mkdir(parents=True, exist_ok=True)
            made = make_certificate()
            _write(key, made.key, 0o600)
            _write(certificate, made.certificate, 0o644)
    except OSError as error:
        raise ConfigurationError([f"--cert-dir: {error}"]) from error
    return certificate, key


def _write(path: Path, content: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(content)


_PROGRAM = Path(__file__).with_name("openssl.py")
_TIMEOUT = 20.0
_END_OF_KEY = b"-----END PRIVATE KEY-----\n"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its private key in PEM format."""

    certificate: bytes
    key: bytes


def make_certificate() -> Certificate:
    """Create a certificate for localhost, valid for a year, as upstream. The key is never written to disk.

    Python has no function for this task, and the ``cryptography`` package needs 14 MiB of memory. The ``ssl``
    module needs OpenSSL anyway. So the program ``openssl.py`` calls OpenSSL through ctypes in a child
    process, which can't crash the manager, and frees its memory at the end. Raises ConfigurationError after a
    failure.
    """
    command = [sys.executable, "-I", "-S", str(_PROGRAM)]
    try:
        # No environment for the child process, because the environment contains tokens.
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT, check=True, env={}
        )
    except (OSError, subprocess.SubprocessError) as error:
        problem = (
            "can't create a certificate for the health and metrics server, because OpenSSL 3 is not "
            "available as a shared library; set --tls-cert-file and --tls-private-key-file, or "
            "--secure-port=0"
        )
        raise ConfigurationError([problem]) from error
    key, end, certificate = done.stdout.partition(_END_OF_KEY)
    return Certificate(certificate, key + end)


def load_from_memory(context: ssl.SSLContext, made: Certificate) -> None:
    """Load a certificate into a context. ``ssl`` requires a file, so use an anonymous file in memory."""
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, made.key + made.certificate)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
