"""Certificates by the openssl command: the standard library has no X.509.

A :class:`Certificate` describes one; ``Authority.ensure`` makes it, and again when the description changes.
"""

import ipaddress
import json
import os
import secrets
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DAYS = 3650
_TIMEOUT_SECONDS = 20
_CURVE = ("-pkeyopt", "ec_paramgen_curve:prime256v1")
_NEW_KEY = ("genpkey", "-algorithm", "EC", *_CURVE)
_WITH_KEY = ("-newkey", "ec", *_CURVE, "-nodes")


class CertificateError(Exception):
    """Openssl refused."""

    def __init__(self, what: str, reason: str) -> None:
        self.what = what
        self.reason = reason
        super().__init__(f"certificate {what}: {reason.strip()}")


@dataclass(frozen=True)
class Certificate:
    """Description of a certificate."""

    name: str  # file name without suffix
    common_name: str  # the user name, for Kubernetes
    organization: str = ""  # the group, for Kubernetes; may be empty
    server: tuple[str, ...] = ()  # names and addresses for which it serves; empty for a client
    client: bool = True  # whether it identifies a client


def subject(common_name: str, organization: str = "") -> str:
    """A subject in openssl's notation."""
    parts = [("O", organization)] if organization else []
    parts.append(("CN", common_name))
    return "".join(f"/{key}={value.replace('/', chr(92) + '/')}" for key, value in parts)


def alternative_names(names: Sequence[str]) -> str:
    """The value of subjectAltName for host names and addresses, in their order, each once."""
    return ",".join(f"{'IP' if is_address(name) else 'DNS'}:{name}" for name in dict.fromkeys(names))


def is_address(name: str) -> bool:
    """Whether a name is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def extensions(*, server: Sequence[str], client: bool) -> list[str]:
    """X.509 extensions of a leaf certificate, one ``name=value`` each."""
    usages = [*(["serverAuth"] if server else []), *(["clientAuth"] if client else [])]
    result = [
        "basicConstraints=critical,CA:FALSE",
        "keyUsage=critical,digitalSignature",
        f"extendedKeyUsage={','.join(usages)}",
    ]
    return result + ([f"subjectAltName={alternative_names(server)}"] if server else [])


def new_request(common_name: str, organization: str, key: Path) -> str:
    """A certificate request; makes the private key if the file is missing."""
    if not key.exists():
        write_secret(key, _openssl(common_name, *_NEW_KEY))
    return _openssl(common_name, "req", "-new", "-key", str(key), "-subj", subject(common_name, organization))


def request_subject(request: str) -> str:
    """The subject of a request with a valid signature, as RFC 2253 text such as ``CN=a,O=b``."""
    text = _openssl("request", "req", "-noout", "-verify", "-subject", "-nameopt", "RFC2253", stdin=request)
    # OpenSSL 3.5 reports the signature in the same text. Line ends in a subject are escaped.
    found = [line.removeprefix("subject=") for line in text.splitlines() if line.startswith("subject=")]
    if len(found) != 1:
        raise CertificateError("request", f"openssl names {len(found)} subjects")
    return found[0].strip()


def write_secret(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file that is complete or absent, and was never readable by others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.chmod(mode)
    temporary.replace(path)


@dataclass(frozen=True)
class Authority:
    """A certificate authority whose files are in one folder."""

    folder: Path  # where certificates and keys go
    name: str  # file name of its certificate, without suffix

    @property
    def certificate(self) -> Path:
        """Its own certificate."""
        return self.folder / f"{self.name}.crt"

    @property
    def key(self) -> Path:
        """Its private key."""
        return self.folder / f"{self.name}.key"

    def create(self) -> None:
        """Make the authority unless it exists."""
        if self.certificate.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        # A second authority must have another name: equal names with unequal keys confuse caches.
        common_name = f"{self.name}@{secrets.token_hex(4)}"
        certificate = _openssl(
            self.name, "req", "-x509", *_WITH_KEY, "-keyout", str(self.key), "-days", str(DAYS),
            "-subj", subject(common_name), "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign",
        )  # fmt: skip
        write_secret(self.certificate, certificate, 0o644)

    def ensure(self, wanted: Certificate) -> None:
        """Make a certificate and its key, unless they exist with this description."""
        description = self.folder / f"{wanted.name}.json"
        text = json.dumps([wanted.common_name, wanted.organization, wanted.server, wanted.client])
        if description.exists() and description.read_text() == text:
            return
        key = self.folder / f"{wanted.name}.key"
        certificate = _openssl(
            wanted.name, "req", "-x509", *_WITH_KEY, "-keyout", str(key), "-CA", str(self.certificate),
            "-CAkey", str(self.key), "-days", str(DAYS), "-set_serial", str(secrets.randbits(63)),
            "-subj", subject(wanted.common_name, wanted.organization),
            *_added(extensions(server=wanted.server, client=wanted.client)),
        )  # fmt: skip
        write_secret(self.folder / f"{wanted.name}.crt", certificate, 0o644)
        write_secret(description, text)

    def sign(self, request: str, *, server: Sequence[str] = (), client: bool = True) -> str:
        """Sign a request (PEM) whose subject the caller has checked."""
        return _openssl(
            "request", "req", "-x509", "-in", "/dev/stdin", "-CA", str(self.certificate),
            "-CAkey", str(self.key),
            "-days", str(DAYS), "-set_serial", str(secrets.randbits(63)),
            *_added(extensions(server=server, client=client)), stdin=request,
        )  # fmt: skip


def create_signing_key(private: Path, public: Path) -> None:
    """Create the key pair that signs service account tokens, or what is missing of it."""
    if public.exists():
        return
    if not private.exists():
        write_secret(private, _openssl(private.name, *_NEW_KEY))
    write_secret(public, _openssl(public.name, "pkey", "-in", str(private), "-pubout"), 0o644)


def _added(values: Sequence[str]) -> list[str]:
    return [word for value in values for word in ("-addext", value)]


def _openssl(what: str, *arguments: str, stdin: str = "") -> str:
    try:
        done = subprocess.run(
            ["openssl", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_SECONDS,
        )
    except FileNotFoundError as error:
        raise CertificateError(what, "openssl is not installed") from error
    if done.returncode != 0:
        raise CertificateError(what, done.stderr[-400:])
    return done.stdout
