"""What a person sees in two clusters, side by side; pure functions of what their API servers say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.cluster import UNINITIALIZED_TAINT

NOTHING = "—"
_REGION, _ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
_TYPE = "node.kubernetes.io/instance-type"
Object = Mapping[str, Any]


@dataclass(frozen=True)
class Seen:
    """One cluster, and what the cloud has of it."""

    node: Object  # A worker, as the API server gives it
    pod: Object  # of the workload
    service: Object  # of type LoadBalancer
    load_balancers: Sequence[str]  # addresses of those that the cloud has for it
    routes: Sequence[tuple[str, str]]  # of its network: destinations and gateways
    after: str  # what became of the node whose server was deleted


Row = tuple[str, str, str]
"""The subject, the result without a CCM, and the result with a CCM."""


def rows(without: Seen, with_ccm: Seen) -> list[Row]:
    """The table's rows."""
    found = [(what, look(without), look(with_ccm)) for what, look in _LOOKS.items()]
    return [(what, left or NOTHING, right or NOTHING) for what, left, right in found]


def _taint(seen: Seen) -> str:
    taints = {taint["key"]: taint["effect"] for taint in seen.node["spec"].get("taints", [])}
    if UNINITIALIZED_TAINT not in taints:
        return ""
    return f"{UNINITIALIZED_TAINT}:{taints[UNINITIALIZED_TAINT]}".replace("/", "/\n")


def _addresses(seen: Seen) -> str:
    found = [entry for entry in seen.node["status"].get("addresses", []) if entry["type"] != "Hostname"]
    return "\n".join(f"{entry['type']} {entry['address']}" for entry in found)


def _labels(seen: Seen) -> str:
    labels = seen.node["metadata"].get("labels", {})
    return ", ".join(labels[name] for name in (_REGION, _ZONE, _TYPE) if name in labels)


def _pod(seen: Seen) -> str:
    if name := seen.pod["spec"].get("nodeName"):
        return f"scheduled to {name}"
    conditions = seen.pod["status"].get("conditions", [])
    why = next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")
    return "\n".join(["Pending", *([why.partition(". ")[0]] if why else [])])


def _service(seen: Seen) -> str:
    ingress = seen.service["status"].get("loadBalancer", {}).get("ingress", [])
    addresses = [entry["ip"] for entry in ingress if "ip" in entry]
    return "\n".join(["EXTERNAL-IP", *(addresses or ["<pending> forever"])])


_LOOKS = {
    "Node taint": _taint,
    "Node provider ID": lambda seen: seen.node["spec"].get("providerID", ""),
    "Node addresses": _addresses,
    "region, zone,\ninstance type": _labels,
    "Pod": _pod,
    "Service": _service,
    "load balancers": lambda seen: ", ".join(seen.load_balancers),
    "routes of the network": lambda seen: "\n".join(map(" via ".join, seen.routes)),
    "after a server\nis deleted": lambda seen: seen.after,
}
