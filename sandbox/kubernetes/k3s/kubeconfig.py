"""Kubeconfig files, as JSON, which is YAML; with everything in the file or with paths."""

from __future__ import annotations

import base64
from pathlib import Path


def embedded(server: str, authority: Path, certificate: Path, key: Path, name: str = "default") -> str:
    """A kubeconfig that works anywhere, in the layout of /etc/rancher/k3s/k3s.yaml.

    Written as YAML text: people replace the server's address in it with sed.

    Args:
        server: URL of the API server.
        authority: certificate that signs the server's.
        certificate: the user's.
        key: the user's.
        name: of cluster, user and context.
    """
    return f"""\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {_encoded(authority)}
    server: {server}
  name: {name}
contexts:
- context:
    cluster: {name}
    user: {name}
  name: {name}
current-context: {name}
kind: Config
preferences: {{}}
users:
- name: {name}
  user:
    client-certificate-data: {_encoded(certificate)}
    client-key-data: {_encoded(key)}
"""


def by_path(server: str, authority: Path, certificate: Path, key: Path) -> dict[str, object]:
    """A kubeconfig for a component on this machine: no secret in it, only paths."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "local", "cluster": {"server": server, "certificate-authority": str(authority)}}
        ],
        "users": [{"name": "user", "user": {"client-certificate": str(certificate), "client-key": str(key)}}],
        "contexts": [{"name": "default", "context": {"cluster": "local", "user": "user"}}],
        "current-context": "default",
    }


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
