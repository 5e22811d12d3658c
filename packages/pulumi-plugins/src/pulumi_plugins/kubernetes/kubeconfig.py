"""A kubeconfig: its cluster, and connections to it."""

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pulumi_plugins.base import refuse_others
from pulumi_plugins.errors import ProviderError, UnsupportedError

SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONNECTIONS = 32  # at the same time
_USER = {"client-certificate", "client-certificate-data", "client-key", "client-key-data", "token"}


def current(
    config: Mapping[str, Any], environment: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Cluster and user of a provider's kubeconfig: a text, a file's name, or the default file."""
    given = config.get("kubeconfig") or environment.get("KUBECONFIG", "").split(os.pathsep)[0]
    path = Path(given) if given and "\n" not in given and not given.lstrip().startswith("{") else None
    if not given:
        path = Path(environment.get("HOME", "/")) / ".kube" / "config"
    try:
        text = path.read_text(encoding="utf-8") if path else given
        data = yaml.load(text, Loader=SAFE_LOADER)  # noqa: S506  a safe loader
        clusters, contexts, users = (
            {item["name"]: item.get(key) or {} for item in data.get(f"{key}s") or ()}
            for key in ("cluster", "context", "user")
        )
    except OSError as error:
        raise ProviderError(f"the kubeconfig {path} can't be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # no UTF-8, no such date, endless nesting
        raise ProviderError(f"the kubeconfig is not YAML: {error}") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise ProviderError("the kubeconfig names no cluster") from error
    context = contexts.get(config.get("context") or data.get("current-context"), {})
    cluster = clusters.get(config.get("cluster") or context.get("cluster"))
    if cluster is None and len(clusters) == 1:
        (cluster,) = clusters.values()
    if cluster is None:
        raise ProviderError("the kubeconfig names no cluster")
    return cluster, users.get(context.get("user")) or {}


def moved(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Settings that changed so that they mean another cluster."""
    if old.get("clusterIdentifier") or new.get("clusterIdentifier"):
        return ["clusterIdentifier"] if old.get("clusterIdentifier") != new.get("clusterIdentifier") else []
    keys = [key for key in ("kubeconfig", "context", "cluster") if old.get(key) != new.get(key)]
    return keys if keys and _place(old) != _place(new) else []


def _place(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """The identity of a cluster: address and certificate authority."""
    try:
        cluster, _ = current(config, {})
    except ProviderError:
        return ()
    return cluster.get("server"), cluster.get("certificate-authority-data")


def connect(config: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[str, dict[str, str], Any]:
    """Address, headers and connections of a kubeconfig's cluster, which must be the sandbox's."""
    from urllib3 import PoolManager  # noqa: PLC0415  slow to load, and ./dev needs none of it

    cluster, user = current(config, environment)
    server = str(cluster.get("server"))
    refuse_others("kubernetes", server)
    if other := sorted(user.keys() - _USER):
        raise UnsupportedError(f"the field '{other[0]}' of a user in a kubeconfig", "kubernetes")
    headers = {"Authorization": f"Bearer {user['token']}"} if user.get("token") else {}
    try:
        authority = _content(cluster, "certificate-authority")
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        # As clients in Go: older clusters' certificates lack something that Python 3.13 checks.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        certificate, key = _content(user, "client-certificate"), _content(user, "client-key")
        if certificate:
            # Only files can be loaded; a killed process must not leave an administrator's key behind.
            with tempfile.NamedTemporaryFile(prefix="ccmfs-key-") as file:
                file.write(certificate + b"\n" + (key or b""))
                file.flush()
                context.load_cert_chain(file.name)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ProviderError(f"the kubeconfig can't be used: {error}") from error
    return server, headers, PoolManager(maxsize=_CONNECTIONS, ssl_context=context)


def _content(section: Mapping[str, Any], key: str) -> bytes | None:
    """The data of a section, or of the file that it names."""
    if data := section.get(f"{key}-data"):
        return base64.b64decode(data)
    return Path(section[key]).read_bytes() if section.get(key) else None
