"""What a joining server receives: the certificate authorities and keys of the cluster.

Names and path are k3s's. A client with the token of servers gets the files. A restored snapshot of etcd also
contains the files, encrypted with the token.
"""

import base64
import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from k3s_standin import log
from k3s_standin.certificates import write_secret
from k3s_standin.control_plane import ControlPlane
from k3s_standin.errors import K3sError
from k3s_standin.etcd import Etcd
from k3s_standin.supervisor import Supervisor, SupervisorError

PATH = "/v1-k3s/server-bootstrap"
CONFIG = "/v1-k3s/config"
MEMBERS = "/db/info"
_KEYS = "/bootstrap/"
_DIGITS = 12


def files(wanted: ControlPlane) -> dict[str, Path]:
    """The files that all servers share, by k3s's names."""
    authorities = {
        "ServerCA": wanted.pki.server_authority,
        "ClientCA": wanted.pki.client_authority,
        "RequestHeaderCA": wanted.pki.front_proxy_authority,
        "ETCDServerCA": wanted.pki.etcd_authority,
    }
    found = {"ServiceKey": wanted.pki.service_account_key}
    for name, authority in authorities.items():
        found |= {name: authority.certificate, f"{name}Key": authority.key}
    return found | ({"EncryptionConfig": wanted.encryption} if wanted.encryption else {})


def pack(wanted: ControlPlane) -> bytes:
    """The files as JSON."""
    content = {
        name: {
            "Timestamp": f"{int(file.stat().st_mtime)}",
            "Content": base64.b64encode(file.read_bytes()).decode(),
        }
        for name, file in files(wanted).items()
    }
    return json.dumps(content).encode()


def unpack(wanted: ControlPlane, content: bytes) -> None:
    """Write the files; certificates that other authorities signed are made again."""
    given, shared = json.loads(content), files(wanted)
    if missing := [name for name in shared if name not in given]:
        raise K3sError(
            f"this server joins another server, which didn't send the bootstrap data {', '.join(missing)}"
        )
    texts = {file: base64.b64decode(given[name]["Content"]).decode() for name, file in shared.items()}
    if any(not file.exists() or file.read_text() != text for file, text in texts.items()):
        # Before anything is written: after a power-off between, the next start still finds a difference.
        for description in wanted.pki.folder.glob("*.json"):
            description.unlink()
        wanted.pki.service_account_public_key.unlink(missing_ok=True)
    for file, text in texts.items():
        write_secret(file, text, 0o644 if file.suffix == ".crt" else 0o600)


def fetch(wanted: ControlPlane, supervisor: Supervisor, critical: Mapping[str, str]) -> None:
    """Get the files from a server of the cluster to join."""
    authority = wanted.pki.folder / "joined-ca.crt"
    write_secret(authority, supervisor.authority().decode(), 0o644)
    try:
        content = supervisor.request("GET", PATH, authority)
        others = json.loads(supervisor.request("GET", CONFIG, authority))
    except SupervisorError as error:
        raise K3sError(f"failed to bootstrap cluster data: {supervisor.server}{PATH}: {error}") from error
    finally:
        authority.unlink()
    different = [name for name, value in critical.items() if others.get(name) != value]
    for name in different:
        log.warning(f"Critical configuration mismatched: {name}")
    if different:
        raise K3sError(
            "failed to validate server configuration: critical configuration value mismatch between servers: "
            + ", ".join(
                f"--{name} is {critical[name]} on this server and {others.get(name)} on the other server"
                for name in different
            )
        )
    unpack(wanted, content)


def key_of(password: str) -> str:
    """The key of the files in etcd: a hash of the token that encrypts them."""
    return _KEYS + hashlib.sha256(password.encode()).hexdigest()[:_DIGITS]


def keep(wanted: ControlPlane, etcd: Etcd, password: str) -> None:
    """Put the files into etcd, unless they exist."""
    if _stored(etcd, password) is None:
        etcd.put(key_of(password), _sealed(pack(wanted), password))


def recover(wanted: ControlPlane, etcd: Etcd, password: str) -> None:
    """Write the files that are in etcd."""
    found = _stored(etcd, password)
    if found is None:
        raise K3sError("the datastore has no bootstrap data, because no k3s server used --cluster-init")
    unpack(wanted, _sealed(found, password, "-d"))


def _stored(etcd: Etcd, password: str) -> bytes | None:
    found = etcd.below(_KEYS)
    if found and key_of(password) not in found:
        raise K3sError("bootstrap data already found and encrypted with different token")
    return found.get(key_of(password))


def _sealed(content: bytes, password: str, *direction: str) -> bytes:
    """Encrypted, or with ``-d`` decrypted; the password is in no process list."""
    reader, writer = os.pipe()
    try:
        os.write(writer, password.encode() + b"\n")
        os.close(writer)
        done = subprocess.run(
            ["openssl", "enc", "-aes-256-cbc", "-pbkdf2", *direction, "-pass", f"fd:{reader}"],
            input=content,
            capture_output=True,
            pass_fds=(reader,),
            timeout=30,
            check=False,
        )
    finally:
        os.close(reader)
    if done.returncode:
        raise K3sError(
            "the bootstrap data can't be decrypted or encrypted: "
            f"{done.stderr.decode(errors='replace')[-300:]}"
        )
    return done.stdout
