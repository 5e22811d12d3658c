"""Network policies on a node: watches what decides, and gives nft the rules of ``policies``."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.kubernetes.k3s import log
from sandbox.kubernetes.k3s.api import ApiClient, ApiError
from sandbox.kubernetes.k3s.errors import K3sError
from sandbox.kubernetes.k3s.policies import World, read_pod, ruleset

RETRY_SECONDS = 1.0
_REPORT_SECONDS = 60.0
_SETTLE_SECONDS = 0.1
"""After a change, for those that come with it."""

_RENEW_SECONDS = 300.0
"""After which rules are written anew although nothing has changed, as kube-router does."""


class Mirror(threading.Thread):
    """A copy of one kind of objects, kept by a watch; a daemon, so it ends with the process."""

    def __init__(
        self,
        api: ApiClient,
        path: str,
        read: Callable[[Mapping[str, Any]], Any],
        changed: Callable[[], None],
    ) -> None:
        """Nothing happens before the start.

        Args:
            api: With the right to list and to watch them.
            path: Of the collection.
            read: What is kept of an object; None: nothing.
            changed: Called, in this thread, when what is kept is not what it was.
        """
        super().__init__(name=f"watch {path}", daemon=True)
        self._api, self._path, self._read, self._changed = api, path, read, changed
        self._told = -_REPORT_SECONDS
        self.objects: Mapping[str, Any] | None = None
        """By UID; None before the first list. Replaced, never written to."""

    def run(self) -> None:
        """List and watch for ever."""
        while True:
            try:
                version = self._list()
                for event in self._api.watch(self._path, version):
                    self._take(event)
            except ApiError as error:
                self._tell(error)
                time.sleep(RETRY_SECONDS)

    def _list(self) -> str:
        found = self._api.request("GET", f"{self._path}?resourceVersion=0")
        self._keep({one["metadata"]["uid"]: self._read(one) for one in found["items"]})
        return str(found["metadata"]["resourceVersion"])

    def _take(self, event: Mapping[str, Any]) -> None:
        content = event["object"]
        if event["type"] == "ERROR":
            raise ApiError(content.get("code", 0), f"{self._path}: {content.get('message')}")
        if event["type"] == "BOOKMARK":
            return
        kept = self._read(content) if event["type"] != "DELETED" else None
        self._keep({**(self.objects or {}), content["metadata"]["uid"]: kept})

    def _keep(self, objects: Mapping[str, Any]) -> None:
        kept = {uid: one for uid, one in objects.items() if one is not None}
        if kept != self.objects:
            self.objects = kept
            self._changed()

    def _tell(self, error: ApiError) -> None:
        # What a watch began with may be too old (410): it is listed anew. At the start we have no rights yet.
        if error.status != 410 and time.monotonic() - self._told > _REPORT_SECONDS:
            log.warning(f"network policies: {error}")
            self._told = time.monotonic()


async def run(api: ApiClient, node: str) -> None:
    """Enforce the policies on this node. Never ends by itself; what fails is told and tried again.

    Args:
        api: As ``system:k3s-controller``.
        node: Name of this Node.
    """
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def notify() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and so do we
            loop.call_soon_threadsafe(changed.set)

    pods = Mirror(api, "/api/v1/pods", read_pod, notify)
    namespaces = Mirror(api, "/api/v1/namespaces", _labels, notify)
    policies = Mirror(api, "/apis/networking.k8s.io/v1/networkpolicies", _policy, notify)
    for mirror in (pods, namespaces, policies):
        mirror.start()
    log.info("Starting network policy controller")
    loaded, until = "", _RENEW_SECONDS
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(changed.wait(), until)
            await asyncio.sleep(_SETTLE_SECONDS)
        renewing, until = not changed.is_set(), _RENEW_SECONDS
        changed.clear()
        if pods.objects is None or namespaces.objects is None or policies.objects is None:
            continue
        names = dict(namespaces.objects.values())
        text = ruleset(World([*pods.objects.values()], names, [*policies.objects.values()]), node)
        if text == loaded and not renewing:
            continue
        try:
            await asyncio.to_thread(load, text)
            loaded = text
        except K3sError as error:
            log.warning(str(error))
            loaded, until = "", RETRY_SECONDS


def load(rules: str) -> None:
    """Give nft rules.

    Raises:
        K3sError: It refuses.
    """
    try:
        done = subprocess.run(
            ["nft", "-f", "-"], input=rules, capture_output=True, text=True, check=False, timeout=60
        )
    except subprocess.TimeoutExpired as error:
        raise K3sError(f"nft does not end with the rules of network policies: {error}") from error
    if done.returncode != 0:
        raise K3sError(f"nft refuses the rules of network policies: {done.stderr.strip()}")


def _labels(content: Mapping[str, Any]) -> tuple[str, Mapping[str, str]]:
    metadata = content["metadata"]
    return metadata["name"], metadata.get("labels", {})


def _policy(content: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = content["metadata"]
    return {
        "metadata": {"namespace": metadata["namespace"], "name": metadata["name"]},
        "spec": content.get("spec", {}),
    }
