"""TLS of the health and metrics server: versions, cipher suites, certificates that change while we run."""

import os
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ccm.errors import ConfigurationError

# Go names 1.0 and 1.1 too; they are insecure, so they are raised to 1.2.
TLS_VERSIONS = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
# IANA's names, which Go and Kubernetes use, to OpenSSL's. Those of TLS 1.3 are always on.
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
    """A sentence for each cipher suite that we can't offer."""
    for name in names:
        if name not in _CIPHERS:
            yield f"--tls-cipher-suites: {name!r} is not one of {', '.join(_CIPHERS)}"


class ServerTls:
    """An SSL context that follows the certificate's files and the authorities of clients.

    Each change makes a new context: OpenSSL can only add trusted authorities to one, and would let clients of
    a removed authority resume their sessions. Without files, a certificate is made for localhost, which
    ``directory`` keeps, if given. Raises ConfigurationError if certificate and key don't fit, or none could
    be made.
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
        """Read changed files; returns whether they changed. After ConfigurationError, the old ones stay."""
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return False
        self.context = self._new_context(self._authorities)
        self._stamp = stamp
        return True

    def trust_clients(self, authorities: str) -> bool:
        """Ask clients for a certificate of these authorities (PEM) and no others; returns whether they are
        new.

        Clients without a certificate may still connect. Raises OSError if the authorities can't be decoded;
        those in use stay.
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
            except OSError as error:  # ssl.SSLError is one
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
    """A certificate and its private key, PEM."""

    certificate: bytes
    key: bytes


def make_certificate() -> Certificate:
    """A new certificate for localhost, valid for a year, as upstream makes it. Its key never touches a disk.

    Python has no function for that, and the ``cryptography`` package costs 14 MiB of memory. But the ``ssl``
    module needs OpenSSL anyway; the program ``openssl`` next to this file calls it through ctypes, in a child
    process: a crash there can't affect the manager, and its memory is freed. Raises ConfigurationError on
    failure.
    """
    command = [sys.executable, "-I", "-S", str(_PROGRAM)]
    try:
        # The child sees nothing of our environment: there are tokens in it.
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
    """Have a context use a certificate that is in no file: ``ssl`` reads only files, so a nameless one."""
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, made.key + made.certificate)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
