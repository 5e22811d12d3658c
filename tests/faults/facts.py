"""What matters of cluster and cloud, as sentences that two runs can be compared by.

Ids, addresses and times are left out. Whatever is doubled, lost, or changed though it should not be shows as
a sentence too many or too few.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.faults.objects import SCHEME, pod_cidr

OWNER_LABEL = "ccm-from-scratch/service"
Names = Mapping[int | str, str]  # of servers, by id and by address


def node_fact(
    name: str, *, server: str | None = None, taints: Iterable[str] = (), routed: bool = True
) -> str:
    said = f"taints: {', '.join(sorted(taints)) or 'none'}, {'routed' if routed else 'not routed'}"
    return f"node {name}: machine {server or name}, {said}"


def route_fact(destination: str, gateway: str) -> str:
    return f"route {destination} to {gateway}"


def routes_of(numbers: Iterable[int]) -> list[str]:
    return [route_fact(pod_cidr(number), f"s{number}") for number in numbers]


def balancer_fact(
    owner: str, ports: Iterable[str], targets: Iterable[str], algorithm: str = "round_robin"
) -> str:
    """A load balancer as it should be; targets are reached by their private addresses."""
    return (
        f"load balancer of {owner}: {algorithm}, {', '.join(sorted(ports))} to {', '.join(sorted(targets))}"
    )


def certificate_fact(owner: str, domains: Iterable[str]) -> str:
    return f"certificate of {owner}: {', '.join(domains)}"


def service_fact(name: str) -> str:
    return f"service {name}: kept by its finalizer, with an address"


def read_node(item: Mapping[str, Any], names: Names) -> str:
    spec, status = item.get("spec", {}), item.get("status", {})
    number = spec.get("providerID", "").removeprefix(SCHEME)
    conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
    return node_fact(
        item["metadata"]["name"],
        server=names.get(int(number), "unknown") if number else "none",
        taints=[one["key"] for one in spec.get("taints", [])],
        routed=conditions.get("NetworkUnavailable") == "False",
    )


def read_service(item: Mapping[str, Any]) -> str:
    name = item["metadata"]["name"]
    kept = bool(item["metadata"].get("finalizers"))
    ingress = item.get("status", {}).get("loadBalancer", {}).get("ingress") or []
    if kept and any(one.get("ip") for one in ingress) and "deletionTimestamp" not in item["metadata"]:
        return service_fact(name)
    return f"service {name}: finalizer: {kept}, addresses: {len(ingress)}"


def read_balancer(record: Mapping[str, Any], names: Names) -> str:
    owner = record["labels"].get(OWNER_LABEL)
    if owner is None:
        return f"load balancer {record['name']} of somebody else"
    ports = [
        f"{one['protocol']} {one['listen_port']}>{one['destination_port']}" for one in record["services"]
    ]
    targets = [
        names.get(one["server"], "unknown") + ("" if one["use_private_ip"] else " in public")
        for one in record["targets"]
    ]
    return balancer_fact(owner, ports, targets, record["algorithm"])


def read_certificate(record: Mapping[str, Any], owners: Mapping[str, str]) -> str:
    owner = next((owners.get(uid, uid) for uid in record["labels"].values() if uid in owners), "somebody")
    return certificate_fact(owner, record["domain_names"])


def read_routes(network: Mapping[str, Any], names: Names) -> list[str]:
    return [
        route_fact(one["destination"], names.get(one["gateway"], one["gateway"])) for one in network["routes"]
    ]


def difference(wanted: Sequence[str], found: Sequence[str]) -> str:
    """What is missing and what is too much; empty if they are the same."""
    missing, surplus = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    return "; ".join(
        [
            *(f"missing: {one}" for one in missing.elements()),
            *(f"not wanted: {one}" for one in surplus.elements()),
        ]
    )
