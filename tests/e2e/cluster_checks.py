"""Checks a cluster: no duplicate objects, no leftovers, no unhealthy Nodes or Pods."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ccm_pulumi.cluster.drain import EXCLUDED, UPGRADING
from sandbox.cluster import node_state
from sandbox.leftovers import SERVICE_UID, CloudObject
from tests.e2e import cluster_state
from tests.e2e.conftest import Clone

REPLICAS = 2
_KINDS = {
    "hcloud:index/firewall:Firewall": "firewalls",
    "hcloud:index/loadBalancer:LoadBalancer": "load_balancers",
    "hcloud:index/network:Network": "networks",
    "hcloud:index/placementGroup:PlacementGroup": "placement_groups",
    "hcloud:index/primaryIp:PrimaryIp": "primary_ips",
    "hcloud:index/server:Server": "servers",
    "hcloud:index/sshKey:SshKey": "ssh_keys",
}


@dataclass(frozen=True)
class Wanted:
    controls: frozenset[str]  # roles of the control servers
    workers: frozenset[str]  # roles of the workers
    kubelet: str  # their version, such as ``v1.36.3``
    location: str  # of all of them


@dataclass(frozen=True)
class Facts:
    servers: Mapping[str, int] = field(default_factory=dict)  # ids by role
    # Nodes by role; None where the cluster does not answer.
    nodes: Mapping[str, Mapping[str, Any]] | None = None
    # Of etcd, and whether each is healthy, by role; None where the cluster has no etcd.
    members: Mapping[str, bool] | None = None
    urns: Sequence[str] = ()  # of all resources in the state
    kept: frozenset[tuple[str, int]] = frozenset()  # kind and id of what the state knows in the cloud
    cloud: Sequence[CloudObject] = ()  # what the cloud has
    # Of Services: the Service's uid by the id of its load balancer.
    balancers: Mapping[int, str] = field(default_factory=dict)
    services: frozenset[str] = frozenset()  # uids of the Services that want one
    replicas: int = 0  # how many Pods of the workload are ready


def wrong(wanted: Wanted, facts: Facts) -> list[str]:
    """What is not as it is wanted, a line each. Pure."""
    found = _of_cloud(facts) + _differences("servers", wanted.controls | wanted.workers, facts.servers)
    if facts.nodes is None:
        return [*found, "the cluster does not answer"]
    found += _differences("Nodes", wanted.controls | wanted.workers, facts.nodes)
    for role, node in sorted(facts.nodes.items()):
        found += [f"Node {role}: {what}" for what in _of_node(node, facts.servers.get(role), wanted)]
    if facts.members is not None or len(wanted.controls) > 1:
        members = facts.members or {}
        found += _differences("members of etcd", wanted.controls, members)
        found += [f"member {role} of etcd is not healthy" for role in members if not members[role]]
    if facts.replicas != REPLICAS:
        found.append(f"{facts.replicas} Pods of the workload are ready, and {REPLICAS} are wanted")
    return found


def left(facts: Facts) -> list[str]:
    """What is there after all was to go, a line each. Pure."""
    return [f"{item} is left in the cloud" for item in facts.cloud] + [
        f"{urn} is left in the state" for urn in facts.urns if not _goes_with_the_stack(urn)
    ]


def _goes_with_the_stack(urn: str) -> bool:
    return "::pulumi:pulumi:Stack::" in urn or "::pulumi:providers:" in urn


def _differences(what: str, wanted: frozenset[str], found: Mapping[str, Any]) -> list[str]:
    missing, unwanted = sorted(wanted - found.keys()), sorted(found.keys() - wanted)
    return [f"{what}: {role} is missing" for role in missing] + [
        f"{what}: {role} is not wanted" for role in unwanted
    ]


def _of_cloud(facts: Facts) -> list[str]:
    names = Counter((item.kind, item.name) for item in facts.cloud)
    there = {(item.kind, item.id): item for item in facts.cloud}
    found = [f"{kind} {name} is there {count} times" for (kind, name), count in names.items() if count > 1]
    found += [f"{urn} is in the state twice" for urn, count in Counter(facts.urns).items() if count > 1]
    of_services = {("load_balancers", number) for number in facts.balancers}
    found += [f"{there[key]} is in no state" for key in sorted(there.keys() - facts.kept - of_services)]
    lost = sorted(facts.kept - there.keys())
    found += [f"{kind} {number} of the state is not in the cloud" for kind, number in lost]
    if sorted(facts.balancers.values()) != sorted(facts.services):
        found.append(f"load balancers of Services: {len(facts.balancers)}, of {len(facts.services)} Services")
    return found


def _of_node(node: Mapping[str, Any], server_id: int | None, wanted: Wanted) -> list[str]:
    state, metadata, found = node_state(node), node["metadata"], []
    if not state.ready or not state.initialized:
        found.append("it is not ready and initialized")
    if state.provider_id.rpartition("/")[2] != str(server_id):
        found.append(f"its provider ID is {state.provider_id!r}, and its server's id {server_id}")
    if node["spec"].get("unschedulable"):
        found.append("it is cordoned")
    if UPGRADING in metadata.get("annotations", {}) or EXCLUDED in metadata.get("labels", {}):
        found.append("it is still marked as one that is upgraded or drained")
    if (version := node["status"]["nodeInfo"]["kubeletVersion"].partition("+")[0]) != wanted.kubelet:
        found.append(f"its kubelet is {version}, and {wanted.kubelet} is wanted")
    if state.zone != wanted.location:
        found.append(f"its zone is {state.zone!r}, and {wanted.location} is wanted")
    return found


def look(clone: Clone, *, gone: bool = False) -> Facts:
    exported = clone.root / "exported.json"
    clone.pulumi("stack", "export", "--stack", cluster_state.STACK, "--file", str(exported))
    resources = json.loads(exported.read_text())["deployment"].get("resources") or []
    balancers = clone.api("/load_balancers")["load_balancers"]
    facts = {
        "servers": clone.server_ids(),
        "urns": [item["urn"] for item in resources],
        "kept": frozenset(
            (_KINDS[item["type"]], int(item["id"])) for item in resources if item["type"] in _KINDS
        ),
        "cloud": cluster_state.in_cloud(clone),
        "balancers": {
            item["id"]: item["labels"][SERVICE_UID] for item in balancers if SERVICE_UID in item["labels"]
        },
    }
    nodes = None if gone else _listed(clone, "nodes")
    if nodes is None:
        return Facts(**facts)
    services, pods = _listed(clone, "services", "-A") or [], _listed(clone, "pods", "-l", "app=web") or []
    by_role = {cluster_state.role_of(node["metadata"]["name"]): node for node in nodes}
    return Facts(
        **facts,
        nodes=by_role,
        members=_members(clone, by_role),
        services=frozenset(
            item["metadata"]["uid"] for item in services if item["spec"]["type"] == "LoadBalancer"
        ),
        replicas=sum(map(_is_ready, pods)),
    )


def _listed(clone: Clone, *what: str) -> list[dict[str, Any]] | None:
    said = cluster_state.asked(clone, "get", *what, "--output=json")
    return None if said is None else json.loads(said)["items"]


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = {item["type"]: item["status"] for item in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and not pod["metadata"].get("deletionTimestamp")


def _members(clone: Clone, nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, bool] | None:
    role = next(
        (role for role, node in nodes.items() if cluster_state.ETCD in node["metadata"]["labels"]), None
    )
    if role is None:
        return None
    return {name: cluster_state.etcd_healthy(clone, name) for name in cluster_state.etcd_members(clone, role)}
