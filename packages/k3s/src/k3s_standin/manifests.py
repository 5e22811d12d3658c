"""What k3s deploys from ``server/manifests``: its own addons, and the user's manifests.

As in k3s (package deploy), the folder is read every fifteen seconds. A file ``NAME.yaml`` (or ``.yml``,
``.json``) is applied when it is new or has changed, unless ``NAME.yaml.skip`` exists. Removing a file removes
nothing from the cluster. A file or folder that ``--disable`` names is not written; if it exists, it is
removed from the cluster and from the disk.

Unlike k3s we keep no AddOn objects: an object that was removed from a file stays in the cluster.
"""

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from k3s_standin import kubernetes_yaml, log, versions
from k3s_standin.api import ApiClient, ApiError
from k3s_standin.certificates import write_secret

PERIOD_SECONDS = 15.0
"""Between reads of the folder."""

_EAGER_SECONDS = 0.5
"""The pause in seconds between retries after the start, when objects that a manifest needs may be missing."""

_ENDINGS = (".yaml", ".yml", ".json")

Object = Mapping[str, Any]


def variables(cluster_dns: str, cluster_domain: str, storage_path: str) -> dict[str, str]:
    """Values for the variables in manifests.

    A dual-stack ``cluster_dns`` has two addresses with a comma.
    """
    addresses = cluster_dns.split(",")
    return {
        "CLUSTER_DNS": addresses[0],
        "CLUSTER_DNS_LIST": json.dumps(addresses),
        "CLUSTER_DNS_IPFAMILYPOLICY": "RequireDualStack" if addresses[1:] else "SingleStack",
        "CLUSTER_DOMAIN": cluster_domain,
        "DEFAULT_LOCAL_STORAGE_PATH": storage_path,
        "COREDNS_IMAGE": versions.COREDNS_IMAGE,
        "LOCAL_PATH_IMAGE": versions.LOCAL_PATH_IMAGE,
        "METRICS_SERVER_IMAGE": versions.METRICS_SERVER_IMAGE,
        "BUSYBOX_IMAGE": versions.BUSYBOX_IMAGE,
    }


def packaged(values: Mapping[str, str]) -> dict[str, str]:
    """k3s's manifests, by their path in the folder."""
    found = dict(_read(resources.files(__spec__.parent).joinpath("addons"), ""))
    for name, value in values.items():
        found = {path: text.replace(f"%{{{name}}}%", value) for path, text in found.items()}
    return found


def _read(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _read(entry, f"{path}/")
        else:
            yield path, entry.read_text()


def is_disabled(path: str, disabled: Collection[str]) -> bool:
    """Whether ``--disable`` names a file, or a folder that it is in."""
    *folders, name = Path(path).parts
    above = {"/".join(folders[:depth]) for depth in range(1, len(folders) + 1)}
    return not above.isdisjoint(disabled) or (is_manifest(name) and Path(name).stem in disabled)


def is_manifest(name: str) -> bool:
    """Whether a file of this name is a manifest."""
    return not name.startswith(".") and name.lower().endswith(_ENDINGS)


def stage(folder: Path, texts: Mapping[str, str], disabled: Collection[str]) -> None:
    """Write k3s's manifests, replacing earlier ones."""
    for path, text in texts.items():
        if not is_disabled(path, disabled):
            write_secret(folder / path, text)


def objects(text: str) -> list[Object]:
    """The objects in a manifest, with lists expanded; ValueError or RecursionError if it has others."""
    documents = [one for one in kubernetes_yaml.load_documents(text) if one is not None]
    found: list[Object] = []
    for document in documents:
        parts = document.get("items", [document]) if isinstance(document, dict) else [document]
        for part in parts if isinstance(parts, list) else [parts]:
            metadata = part.get("metadata") if isinstance(part, dict) else None
            named = isinstance(metadata, dict) and isinstance(metadata.get("name"), str)
            if not named or not all(isinstance(part.get(key), str) for key in ("apiVersion", "kind")):
                raise ValueError("an object has no apiVersion, kind or metadata.name. All three are required")
            found.append(part)
    return found


@dataclass
class Resources:
    """Paths of objects in the API, by discovery."""

    api: ApiClient  # with the right to discover
    _known: dict[tuple[str, str], tuple[str, bool]] = field(default_factory=dict, init=False)

    def path(self, content: Object) -> str:
        """The path of an object (default namespace: ``default``); ApiError 404 for an unknown kind."""
        version, metadata = content["apiVersion"], content["metadata"]
        base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        if (version, content["kind"]) not in self._known:
            # At the path of a group, or of all groups, the API server returns another kind of list.
            for one in self.api.request("GET", base).get("resources", ()):
                if "/" not in one["name"]:
                    self._known[version, one["kind"]] = one["name"], one["namespaced"]
        if (version, content["kind"]) not in self._known:
            raise ApiError(404, f"unknown kind {content['kind']} in {version}")
        plural, namespaced = self._known[version, content["kind"]]
        namespace = f"/namespaces/{metadata.get('namespace', 'default')}" if namespaced else ""
        return f"{base}{namespace}/{plural}/{metadata['name']}"


@dataclass
class Deployer:
    """Keeps the folder's objects in the cluster."""

    api: ApiClient  # with an administrator's rights
    folder: Path  # of manifests
    disabled: Collection[str]  # what ``--disable`` names
    _applied: dict[Path, int] = field(default_factory=dict, init=False)
    _resources: Resources = field(init=False)

    def __post_init__(self) -> None:
        self._resources = Resources(self.api)

    async def run(self, eager_seconds: float = 60.0) -> None:
        """Run until cancelled; for ``eager_seconds`` failures are retried at once, and logged at the end."""
        attempts = int(eager_seconds / _EAGER_SECONDS)
        while True:
            failures = await asyncio.to_thread(self.sync)
            if failures and attempts > 0:
                attempts -= 1
                await asyncio.sleep(_EAGER_SECONDS)
                continue
            attempts = 0
            for failure in failures:
                log.warning(f"Failed to process config: {failure}")
            await asyncio.sleep(PERIOD_SECONDS)

    def sync(self) -> list[str]:
        """Read the folder once; returns the failures."""
        failures = []
        for path in sorted(p for p in self.folder.rglob("*") if p.is_file()):
            try:
                self._process(path)
            except (ApiError, ValueError, OSError) as error:
                failures.append(f"{path}: {error}")
            except RecursionError:
                failures.append(f"{path}: lists or mappings are nested too deeply")
        return failures

    def _process(self, path: Path) -> None:
        if is_disabled(str(path.relative_to(self.folder)), self.disabled):
            self._delete(path)
            return
        if not is_manifest(path.name) or path.with_name(f"{path.name}.skip").exists():
            return
        changed = path.stat().st_mtime_ns
        if self._applied.get(path) == changed:
            return
        for content in objects(path.read_text()):
            self.api.apply(self._resources.path(content), content)
        self._applied[path] = changed
        log.info(f"Applied manifest at {path}")

    def _delete(self, path: Path) -> None:
        for content in objects(path.read_text()) if is_manifest(path.name) else []:
            try:
                self.api.request("DELETE", self._resources.path(content))
            except ApiError as error:
                if error.status != 404:
                    raise
        path.unlink()
        log.info(f"Deleted manifest at {path}")
