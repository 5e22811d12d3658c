"""What a server gives another one that joins it: the certificate authorities and keys of the cluster.

Under k3s's names, at k3s's path: whoever has the token of servers gets them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path

from sandbox.kubernetes.k3s import log
from sandbox.kubernetes.k3s.certificates import write_secret
from sandbox.kubernetes.k3s.control_plane import ControlPlane
from sandbox.kubernetes.k3s.errors import K3sError
from sandbox.kubernetes.k3s.supervisor import Supervisor, SupervisorError

PATH = "/v1-k3s/server-bootstrap"
CONFIG = "/v1-k3s/config"
MEMBERS = "/db/info"


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
    """Write the files; what was signed by other authorities is made anew.

    Raises:
        K3sError: One is missing.
    """
    given, shared = json.loads(content), files(wanted)
    if missing := [name for name in shared if name not in given]:
        raise K3sError(f"the server that we join has no {', '.join(missing)}")
    texts = {file: base64.b64decode(given[name]["Content"]).decode() for name, file in shared.items()}
    if any(not file.exists() or file.read_text() != text for file, text in texts.items()):
        # Before anything is written: after a power-off between, the next start still finds a difference.
        for description in wanted.pki.folder.glob("*.json"):
            description.unlink()
        wanted.pki.service_account_public_key.unlink(missing_ok=True)
    for file, text in texts.items():
        write_secret(file, text, 0o644 if file.suffix == ".crt" else 0o600)


def fetch(wanted: ControlPlane, supervisor: Supervisor, critical: Mapping[str, str]) -> None:
    """Get the files from a server of the cluster that we join.

    Args:
        wanted: Where they go.
        supervisor: Asks that server as a server.
        critical: What all servers must have been told alike, by flag.

    Raises:
        K3sError: It refuses, does not answer, has no etcd that can be joined, or was told otherwise.
    """
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
                f"--{name} is {critical[name]} here and {others.get(name)} there" for name in different
            )
        )
    unpack(wanted, content)
