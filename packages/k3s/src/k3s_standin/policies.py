"""Network policies as rules for nft, from Pods, Namespaces and NetworkPolicies.

k3s runs kube-router's controller, which isn't available as a Go module. These rules follow Kubernetes'
specification, and kube-router where that leaves a choice: other traffic is rejected, not dropped; established
connections stay; traffic from a Pod to its own node is filtered, too; traffic from the node to its Pods is
always allowed.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TABLE = "inet k3s-network-policy"

Object = Mapping[str, Any]
Labels = Mapping[str, str]


@dataclass(frozen=True)
class Pod:
    """Fields of a Pod that policies use."""

    namespace: str  # its own
    name: str  # its own
    node: str  # on which it runs
    labels: Labels  # its own
    addresses: tuple[str, ...]  # of either family
    ports: tuple[tuple[str, str, int], ...] = ()  # name, protocol and number of the named ports


@dataclass(frozen=True)
class World:
    """Input of the rules."""

    pods: Sequence[Pod]  # of the whole cluster
    namespaces: Mapping[str, Labels]  # their labels by name
    policies: Sequence[Object]  # networkPolicies


def read_pod(content: Object) -> Pod | None:
    """A Pod from the API's response; None if it is on the node's own network or has no address."""
    spec, status, metadata = content["spec"], content.get("status", {}), content["metadata"]
    addresses = tuple(one["ip"] for one in status.get("podIPs", []))
    if spec.get("hostNetwork") or not addresses or status.get("phase") in {"Succeeded", "Failed"}:
        return None
    # A restartable init container runs beside the others, and its ports count.
    containers = (*spec.get("containers", []), *spec.get("initContainers", []))
    ports = tuple(
        (port["name"], port.get("protocol", "TCP"), port["containerPort"])
        for container in containers
        for port in container.get("ports", [])
        if "name" in port
    )
    labels = metadata.get("labels", {})
    return Pod(metadata["namespace"], metadata["name"], spec.get("nodeName", ""), labels, addresses, ports)


def selects(selector: Object, labels: Labels) -> bool:
    """Whether a label selector matches; an empty one matches everything."""
    exact = selector.get("matchLabels", {}).items()
    return all(labels.get(name) == value for name, value in exact) and all(
        _expression(one, labels) for one in selector.get("matchExpressions", [])
    )


def _expression(expression: Object, labels: Labels) -> bool:
    name, values = expression["key"], expression.get("values", [])
    match expression["operator"]:
        case "In":
            return labels.get(name) in values
        case "NotIn":
            return labels.get(name) not in values
        case "Exists":
            return name in labels
        case "DoesNotExist":
            return name not in labels
    return False


def ruleset(world: World, node: str) -> str:
    """The rules for the traffic of a node's Pods: one text for ``nft -f`` that replaces earlier ones."""
    chains: list[str] = []
    jumps: dict[str, list[str]] = {"saddr": [], "daddr": []}
    local = [pod for pod in world.pods if pod.node == node]
    for pod in sorted(local, key=lambda one: (one.namespace, one.name)):
        for direction, address in (("Egress", "saddr"), ("Ingress", "daddr")):
            policies = [one for one in world.policies if _applies(one, direction, pod)]
            if policies:
                chain = f"{direction.lower()}-{len(chains)}"
                chains.append(_chain(chain, _allowed(world, pod, direction, policies)))
                jumps[address] += [f"{_family(ip)} {address} {ip} jump {chain}" for ip in pod.addresses]
    # Declaring the table first makes the deletion succeed without one.
    replaced = f"table {TABLE}\ndelete table {TABLE}\n"
    if not chains:
        return replaced
    bases = [_base("forward", [*jumps["saddr"], *jumps["daddr"]]), _base("input", jumps["saddr"])]
    return f"{replaced}table {TABLE} {{\n{''.join([*chains, *bases])}}}\n"


def _chain(name: str, allowed: Iterable[str]) -> str:
    rules = "".join(f"    {_rule(match, 'return')}\n" for match in dict.fromkeys(allowed))
    return f"  chain {name} {{\n{rules}    reject\n  }}\n"


def _rule(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _base(hook: str, jumps: Sequence[str]) -> str:
    rules = ("ct state established,related accept", *jumps)
    lines = "".join(f"    {rule}\n" for rule in rules)
    return f"  chain {hook} {{\n    type filter hook {hook} priority filter; policy accept;\n{lines}  }}\n"


def _applies(policy: Object, direction: str, pod: Pod) -> bool:
    spec = policy["spec"]
    return (
        policy["metadata"]["namespace"] == pod.namespace
        and direction in spec.get("policyTypes", ["Ingress"])
        and selects(spec.get("podSelector", {}), pod.labels)
    )


def _allowed(world: World, pod: Pod, direction: str, policies: Sequence[Object]) -> Iterator[str]:
    """Matches of allowed traffic to or from a Pod; a Pod can always reach itself."""
    ingress = direction == "Ingress"
    address, peers = ("saddr", "from") if ingress else ("daddr", "to")
    yield from (f"{_family(own)} {address} {own}" for own in pod.addresses)
    for policy in policies:
        for rule in policy["spec"].get(direction.lower(), []):
            wanted = rule.get(peers) or None
            selected = [one for one in world.pods if wanted is None or _is_peer(world, policy, wanted, one)]
            ports, names = _ports(rule.get("ports") or None)
            if ingress:
                ports += [f"{protocol} dport {number}" for protocol, number in _resolved(names, pod)]
            else:
                yield from _to_named_ports(names, selected)
            yield from ports if wanted is None else _peers(wanted, selected, ports, address)


def _to_named_ports(names: Sequence[tuple[str, str]], pods: Sequence[Pod]) -> Iterator[str]:
    """For egress, a port's name is resolved at each of the Pods that may be reached."""
    for pod in pods:
        for protocol, number in _resolved(names, pod):
            yield from (f"{_family(ip)} daddr {ip} {protocol} dport {number}" for ip in pod.addresses)


def _peers(
    wanted: Sequence[Object], selected: Sequence[Pod], ports: Sequence[str], address: str
) -> Iterator[str]:
    """The selected Pods and ranges, with each of the ports."""
    addresses = sorted({ip for pod in selected for ip in pod.addresses})
    by_family = {family: [ip for ip in addresses if _family(ip) == family] for family in ("ip", "ip6")}
    hosts = [f"{family} {address} {{ {', '.join(ips)} }}" for family, ips in by_family.items() if ips]
    blocks = [_block(one["ipBlock"], address) for one in wanted if "ipBlock" in one]
    for match in (*hosts, *filter(None, blocks)):
        yield from (_rule(match, port) for port in ports)


def _is_peer(world: World, policy: Object, wanted: Sequence[Object], pod: Pod) -> bool:
    return any(_selects_peer(world, policy, peer, pod) for peer in wanted if "ipBlock" not in peer)


def _selects_peer(world: World, policy: Object, peer: Object, pod: Pod) -> bool:
    if (namespaces := peer.get("namespaceSelector")) is None:
        in_namespace = pod.namespace == policy["metadata"]["namespace"]
    else:
        in_namespace = selects(namespaces, world.namespaces.get(pod.namespace, {}))
    return in_namespace and selects(peer.get("podSelector") or {}, pod.labels)


def _ports(wanted: Sequence[Object] | None) -> tuple[list[str], list[tuple[str, str]]]:
    """Matches of numbered ports, and name and protocol of the others."""
    if wanted is None:
        return [""], []
    fixed, named = [], []
    for one in wanted:
        protocol, port = one.get("protocol", "TCP"), one.get("port")
        if isinstance(port, str):
            named.append((port, protocol))
        elif port is None:
            fixed.append(f"meta l4proto {protocol.lower()}")
        else:
            last = f"-{one['endPort']}" if one.get("endPort", port) != port else ""
            fixed.append(f"{protocol.lower()} dport {port}{last}")
    return fixed, named


def _resolved(named: Sequence[tuple[str, str]], pod: Pod) -> list[tuple[str, int]]:
    """Protocol and number of a Pod's ports with these names."""
    return [(protocol.lower(), number) for name, protocol, number in pod.ports if (name, protocol) in named]


def _block(block: Object, address: str) -> str:
    """A match for a range without its exceptions; empty for an invalid one, which allows nothing."""
    try:
        network = ipaddress.ip_network(block["cidr"], strict=False)
        excepted = [ipaddress.ip_network(one, strict=False) for one in block.get("except", [])]
    except ValueError:
        return ""
    family = "ip" if network.version == 4 else "ip6"
    match = f"{family} {address} {network}"
    if not excepted:
        return match
    # nft refuses sets with overlapping ranges.
    apart = [str(one) for one in ipaddress.collapse_addresses(excepted)]  # type: ignore[type-var]
    return f"{match} {family} {address} != {{ {', '.join(apart)} }}"


def _family(address: str) -> str:
    return "ip6" if ":" in address else "ip"
