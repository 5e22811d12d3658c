"""A kubeconfig: which cluster it means, and a client of it."""

from __future__ import annotations

import os
import ssl
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from sandbox.engine.errors import ProviderError
from sandbox.engine.providers.base import refuse_others

SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LOADING = threading.Lock()


def read_kubeconfig(config: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """The kubeconfig of a provider: its text, a file's name, or the default file.

    Raises:
        ProviderError: There is none, or it can't be read.
    """
    given = config.get("kubeconfig") or environment.get("KUBECONFIG", "").split(os.pathsep)[0]
    path = Path(given) if given and "\n" not in given and not given.lstrip().startswith("{") else None
    if not given:
        path = Path(environment.get("HOME", "/")) / ".kube" / "config"
    try:
        text = path.read_text(encoding="utf-8") if path else given
        data = yaml.load(text, Loader=SAFE_LOADER)  # noqa: S506  a safe loader
    except OSError as error:
        raise ProviderError(f"the kubeconfig {path} can't be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # no UTF-8, no such date, endless nesting
        raise ProviderError(f"the kubeconfig is not YAML: {error}") from error
    if not isinstance(data, dict) or not data.get("clusters"):
        raise ProviderError("the kubeconfig names no cluster")
    return data


def server_of(config: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[Any, ...]:
    """What tells one cluster from another: address and certificate authority of the current context."""
    try:
        data = read_kubeconfig(config, environment)
    except ProviderError:
        return ()
    name = config.get("context") or data.get("current-context")
    contexts = {item["name"]: item.get("context") or {} for item in data.get("contexts") or ()}
    wanted = config.get("cluster") or contexts.get(name, {}).get("cluster")
    for item in data["clusters"]:
        if item["name"] == wanted or len(data["clusters"]) == 1:
            cluster = item.get("cluster") or {}
            return cluster.get("server"), cluster.get("certificate-authority-data")
    return ()


def moved(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Settings because of which a provider now means another cluster."""
    if old.get("clusterIdentifier") or new.get("clusterIdentifier"):
        return ["clusterIdentifier"] if old.get("clusterIdentifier") != new.get("clusterIdentifier") else []
    keys = [key for key in ("kubeconfig", "context", "cluster") if old.get(key) != new.get(key)]
    return keys if keys and server_of(old, {}) != server_of(new, {}) else []


def open_client(config: Mapping[str, Any], environment: Mapping[str, str]) -> Any:
    """The package's client for what a kubeconfig names.

    TLS wants files, so the package writes the keys to some and keeps them until the process ends. An engine
    that is killed would leave an administrator's key behind: they are read at once and deleted.

    Raises:
        ProviderError: There is no kubeconfig, or it can't be used, or its cluster is not the sandbox's.
    """
    from kubernetes import client  # noqa: PLC0415  slow to load; a run without changes never calls
    from kubernetes import config as loader  # noqa: PLC0415

    data = read_kubeconfig(config, environment)
    settings = client.Configuration()
    settings.retries = False
    # One at a time: the package shares files of the same content.
    with _LOADING, tempfile.TemporaryDirectory(prefix="ccmfs-keys-") as folder:
        try:
            loader.load_kube_config_from_dict(
                data,
                config.get("context"),
                client_configuration=settings,
                persist_config=False,
                temp_file_path=folder,
            )
            refuse_others("kubernetes", settings.host)
            opened = client.ApiClient(settings)
            _read_keys(opened.rest_client.pool_manager.connection_pool_kw)
        except (loader.ConfigException, OSError) as error:  # ssl.SSLError is an OSError
            raise ProviderError(f"the kubeconfig can't be used: {error}") from error
    return opened


def _read_keys(pool: dict[str, Any]) -> None:
    """Put a context with the keys into a pool's settings, in place of the names of their files."""
    from urllib3.util.ssl_ import create_urllib3_context  # noqa: PLC0415  loaded with the client

    context = create_urllib3_context(cert_reqs=pool["cert_reqs"])
    # As clients in Go: older clusters' certificates lack what Python 3.13 began to insist on.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    authority, inline = pool.pop("ca_certs"), pool.pop("ca_cert_data")
    if authority or inline:
        context.load_verify_locations(cafile=authority, cadata=inline)
    else:
        context.load_default_certs()
    certificate, key = pool.pop("cert_file"), pool.pop("key_file")
    if certificate:
        context.load_cert_chain(certificate, key)
    pool["ssl_context"] = context
