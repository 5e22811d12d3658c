"""The work of k3s's server on Nodes: passwords, names in DNS, and the removal of etcd members.

As in k3s, a watch reports changes.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from k3s_standin import log
from k3s_standin.api import ApiClient, ApiError
from k3s_standin.mirror import Mirror, setter
from k3s_standin.nodepassword import SECRETS, SUFFIX, secret_name

FINALIZER = "wrangler.cattle.io/node"
NODES = "/api/v1/nodes"
ETCD_ROLE = "node-role.kubernetes.io/etcd"
MEMBER_NAME = "etcd.k3s.cattle.io/node-name"
MEMBER_ADDRESS = "etcd.k3s.cattle.io/node-address"
NODE_HOSTS = "/api/v1/namespaces/kube-system/configmaps/coredns"
ORPHAN_SECONDS = 600.0
"""The time in seconds for which a Secret with a node password reserves the name of a Node, if the Node never
registers. k3s calls this time MinOrphanSecretAge."""

RETRY_SECONDS = 1.0
_SYNC_SECONDS = 60.0
"""The seconds between checks for orphaned Secrets. A change of a Node can trigger an earlier check."""

Object = Mapping[str, Any]


def hosts(nodes: Sequence[Object]) -> str:
    """The Nodes' names and internal addresses in the format of /etc/hosts, for CoreDNS."""
    lines = [
        f"{address['address']} {node['metadata']['name']}\n"
        for node in nodes
        if not is_going(node)
        for address in node.get("status", {}).get("addresses", [])
        if address["type"] == "InternalIP"
    ]
    return "".join(sorted(lines))


def is_going(node: Object) -> bool:
    """Whether it is being deleted."""
    return "deletionTimestamp" in node["metadata"]


def finalizers(node: Object) -> list[str]:
    """The finalizers that the Node must have: ours until its deletion."""
    others = [name for name in node["metadata"].get("finalizers", []) if name != FINALIZER]
    return others if is_going(node) else [*others, FINALIZER]


def etcd_member(node: Object) -> tuple[str, str] | None:
    """Name and address of the etcd member in a server's Node; None for any other Node."""
    labels, noted = node["metadata"].get("labels", {}), node["metadata"].get("annotations", {})
    if ETCD_ROLE not in labels or MEMBER_NAME not in noted or MEMBER_ADDRESS not in noted:
        return None
    return noted[MEMBER_NAME], noted[MEMBER_ADDRESS]


def owner(node: Object) -> dict[str, str]:
    """The owner reference with which the garbage collector removes the Secret after the Node."""
    metadata = node["metadata"]
    return {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}


def orphans(secrets: Sequence[Object], nodes: Sequence[Object], now: float) -> list[str]:
    """Names of node passwords that are ten minutes old and have no Node."""
    wanted = {secret_name(node["metadata"]["name"]) for node in nodes}
    latest = now - ORPHAN_SECONDS
    return [
        secret["metadata"]["name"]
        for secret in secrets
        if secret["metadata"]["name"].endswith(SUFFIX)
        and secret["metadata"]["name"] not in wanted
        and datetime.fromisoformat(secret["metadata"]["creationTimestamp"]).timestamp() <= latest
    ]


@dataclass
class NodeController:
    """Keeps the Nodes, their passwords and CoreDNS's list of names as k3s does."""

    api: ApiClient  # with an administrator's rights
    dns: bool  # whether the addon CoreDNS is enabled
    now: Callable[[], float] = time.time  # seconds since the epoch
    # Removes a member, by name and address, from etcd; None for a private datastore.
    leave: Callable[[str, str], None] | None = None
    _seen: object = field(default=None, init=False)
    _synced: float = field(default=0.0, init=False)

    async def run(self) -> None:
        """Runs until cancelled; retries when the API server does not answer."""
        changed = asyncio.Event()
        nodes = Mirror(self.api, NODES, _read, setter(changed))
        nodes.start()
        until = _SYNC_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), until)
            changed.clear()
            if nodes.objects is None:
                continue  # not listed yet
            try:
                settled = await asyncio.to_thread(self.sync, [*nodes.objects.values()])
            except ApiError as error:
                log.warning(f"Failed to sync Nodes: {error}")
                settled = False
            until = _SYNC_SECONDS if settled else RETRY_SECONDS

    def sync(self, nodes: Sequence[Object]) -> bool:
        """Reconcile once, and send only changes. False: a Node has changed meanwhile; process it again."""
        seen = [(owner(node), is_going(node), finalizers(node), hosts([node])) for node in nodes]
        if seen == self._seen and self.now() - self._synced < _SYNC_SECONDS:
            return True
        secrets = self.api.request("GET", SECRETS)["items"]
        if self.dns:
            self._write_hosts(hosts(nodes))
        self._own(nodes, {secret["metadata"]["name"]: secret for secret in secrets})
        for name in orphans(secrets, nodes, self.now()):
            log.warning(f"Deleted orphaned node-password secret {name}")
            self.api.delete(f"{SECRETS}/{name}")
        settled = [self._hold(node) for node in nodes]
        if all(settled):
            self._seen, self._synced = seen, self.now()
        return all(settled)

    def _write_hosts(self, text: str) -> None:
        found = self.api.get(NODE_HOSTS)
        if found and found.get("data", {}).get("NodeHosts") != text:
            self.api.merge(NODE_HOSTS, {"data": {"NodeHosts": text}})

    def _own(self, nodes: Sequence[Object], secrets: Mapping[str, Object]) -> None:
        for node in nodes:
            name = secret_name(node["metadata"]["name"])
            references = secrets.get(name, {}).get("metadata", {}).get("ownerReferences", [])
            if name in secrets and owner(node) not in references:
                self.api.merge(f"{SECRETS}/{name}", {"metadata": {"ownerReferences": [owner(node)]}})

    def _hold(self, node: Object) -> bool:
        """Add or remove our finalizer; False if the Node changed meanwhile and must be processed again."""
        wanted = finalizers(node)
        if wanted == node["metadata"].get("finalizers", []):
            return True
        if is_going(node) and (member := etcd_member(node)) and self.leave:
            log.info(f"Removing etcd member {node['metadata']['name']} from cluster")
            self.leave(*member)
        metadata = {"finalizers": wanted, "resourceVersion": node["metadata"]["resourceVersion"]}
        try:
            self.api.merge(f"{NODES}/{node['metadata']['name']}", {"metadata": metadata})
        except ApiError as error:
            if error.status not in {404, 409}:
                raise
            return False
        return True


def _read(node: Object) -> Object:
    """The used fields of a Node."""
    kept = ("name", "uid", "resourceVersion", "deletionTimestamp", "finalizers")
    metadata = {key: value for key, value in node["metadata"].items() if key in kept}
    for part, names in (("labels", (ETCD_ROLE,)), ("annotations", (MEMBER_NAME, MEMBER_ADDRESS))):
        given = node["metadata"].get(part, {})
        metadata[part] = {name: given[name] for name in names if name in given}
    return {"metadata": metadata, "status": {"addresses": node.get("status", {}).get("addresses", [])}}
