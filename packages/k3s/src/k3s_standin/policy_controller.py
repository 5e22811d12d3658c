"""Network policies on a node: watches objects, and loads the rules of ``policies`` into nft."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from k3s_standin import log
from k3s_standin.api import ApiClient
from k3s_standin.errors import K3sError
from k3s_standin.mirror import Mirror, setter
from k3s_standin.network import load
from k3s_standin.policies import World, read_pod, ruleset

RETRY_SECONDS = 1.0
_SETTLE_SECONDS = 0.1
"""After a change, the controller waits for more changes for this number of seconds."""

_RENEW_SECONDS = 300.0
"""The controller rewrites even unchanged rules at this interval in seconds, as kube-router does."""


async def run(api: ApiClient, node: str) -> None:
    """Enforce the policies on this node until cancelled; logs failures and retries."""
    changed = asyncio.Event()
    notify = setter(changed)
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
            await asyncio.to_thread(load, text, "network policies")
            loaded = text
        except K3sError as error:
            log.warning(str(error))
            loaded, until = "", RETRY_SECONDS


def _labels(content: Mapping[str, Any]) -> tuple[str, Mapping[str, str]]:
    metadata = content["metadata"]
    return metadata["name"], metadata.get("labels", {})


def _policy(content: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = content["metadata"]
    return {
        "metadata": {"namespace": metadata["namespace"], "name": metadata["name"]},
        "spec": content.get("spec", {}),
    }
