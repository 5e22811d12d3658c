"""Kubeconfig files in the layout of /etc/rancher/k3s/k3s.yaml, with certificates or with their paths."""

import base64
from pathlib import Path

import yaml


def embedded(server: str, authority: Path, certificate: Path, key: Path) -> str:
    """A kubeconfig with certificates, which works on any machine.

    Its text is that of k3s: users replace the server's address in it with sed.
    """
    user = {"client-certificate-data": _encoded(certificate), "client-key-data": _encoded(key)}
    return _text({"certificate-authority-data": _encoded(authority), "server": server}, user)


def by_path(server: str, authority: Path, certificate: Path, key: Path) -> str:
    """A kubeconfig for a component on this machine, with paths instead of secrets."""
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    return _text({"certificate-authority": str(authority), "server": server}, user)


def _text(cluster: dict[str, str], user: dict[str, str]) -> str:
    name = "default"
    config = {
        "apiVersion": "v1",
        "clusters": [{"cluster": cluster, "name": name}],
        "contexts": [{"context": {"cluster": name, "user": name}, "name": name}],
        "current-context": name,
        "kind": "Config",
        "preferences": {},
        "users": [{"name": name, "user": user}],
    }
    return yaml.safe_dump(config, width=1 << 20)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
