import ipaddress
import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3s_standin.policies import Pod, World, read_pod, ruleset, selects

WEB = Pod("shop", "web", "one", {"app": "web"}, ("10.244.0.2", "fd00::2"), (("http", "TCP", 8080),))
DATA = Pod("shop", "data", "two", {"app": "data"}, ("10.244.1.2",), (("http", "TCP", 81),))
OTHER = Pod("other", "web", "one", {"app": "web"}, ("10.244.0.9",))
PODS = (WEB, DATA, OTHER)
NAMESPACES = {"shop": {"team": "a"}, "other": {"team": "b"}}
OUTSIDE = ("203.0.113.7", "192.0.2.1")


def policy(namespace="shop", **spec):
    return {"metadata": {"namespace": namespace, "name": "p"}, "spec": {"podSelector": {}, **spec}}


class Rules:
    """What nft would do with the rules that we make: a small reader of just those."""

    def __init__(self, text):
        bodies = re.findall(r"chain (\S+) \{\n(.*?)\n  \}", text, re.DOTALL)
        self.chains = {name: [line.strip() for line in body.splitlines()] for name, body in bodies}

    def rejects(self, source, destination, protocol, port, hook="forward"):
        """Whether a first packet is rejected."""
        for rule in self.chains.get(hook, [])[2:]:
            match, _, chain = rule.rpartition(" jump ")
            if self._matches(match, source, destination, protocol, port):
                for line in self.chains[chain]:
                    if line == "reject":
                        return True
                    found = line.removesuffix("return").strip()
                    if self._matches(found, source, destination, protocol, port):
                        break
        return False

    def _matches(self, text, source, destination, protocol, port):
        found = re.findall(
            r"(ip6?) (saddr|daddr) (!= )?(?:\{ ([^}]*) \}|(\S+))|(\w+) dport (\d+)(?:-(\d+))?"
            r"|meta l4proto (\w+)",
            text,
        )
        assert bool(found) == bool(text)
        for family, side, negated, several, one, with_protocol, first, last, value in found:
            address = ipaddress.ip_address(source if side == "saddr" else destination)
            if family:
                inside = any(address in ipaddress.ip_network(part) for part in (several or one).split(", "))
                good = address.version == (6 if family == "ip6" else 4) and inside != bool(negated)
            elif with_protocol:
                good = with_protocol == protocol and int(first) <= port <= int(last or first)
            else:
                good = value == protocol
            if not good:
                return False
        return True


def rejects(policies, source, destination, port=80, protocol="tcp", *, node=None):
    """Whether the node of either end rejects a connection."""
    nodes = [node] if node else ["one", "two"]
    text = [ruleset(World(PODS, NAMESPACES, policies), name) for name in nodes]
    return any(Rules(one).rejects(source, destination, protocol, port) for one in text)


def address(pod):
    return pod.addresses[0] if isinstance(pod, Pod) else pod


def test_only_a_pods_node_enforces_policies():
    deny = policy(policyTypes=["Ingress"])
    assert rejects([deny], "fd00::9", WEB.addresses[1])
    assert rejects([deny], OUTSIDE[0], address(DATA), node="two")
    assert not rejects([deny], OUTSIDE[0], address(DATA), node="one")


def test_policies_apply_to_traffic_to_the_node_only():
    none = ruleset(World(PODS, NAMESPACES, []), "one")
    assert none == "table inet k3s-network-policy\ndelete table inet k3s-network-policy\n"
    text = ruleset(World(PODS, NAMESPACES, [policy(policyTypes=["Ingress", "Egress"])]), "one")
    assert Rules(text).rejects(address(WEB), "10.0.0.2", "tcp", 10250, hook="input")
    assert "hook output" not in text


def test_a_named_port_is_the_targets_own():
    ingress = policy(policyTypes=["Ingress"], ingress=[{"ports": [{"port": "http", "protocol": "TCP"}]}])
    assert not rejects([ingress], OUTSIDE[0], address(WEB), 8080)
    assert rejects([ingress], OUTSIDE[0], address(WEB), 81)
    rule = {"to": [{"podSelector": {}}], "ports": [{"port": "http"}]}
    egress = policy(policyTypes=["Egress"], egress=[rule])
    assert not rejects([egress], address(WEB), address(DATA), 81)
    assert rejects([egress], address(WEB), address(DATA), 8080)


def test_ranges_of_ports_and_of_addresses_with_exceptions():
    block = {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["192.0.2.0/24", "192.0.0.0/16"]}}
    rule = {"from": [block], "ports": [{"port": 100, "endPort": 200, "protocol": "UDP"}]}
    allow = policy(policyTypes=["Ingress"], ingress=[rule])
    assert not rejects([allow], "203.0.113.7", address(WEB), 200, "udp")
    assert rejects([allow], "203.0.113.7", address(WEB), 200, "tcp")
    assert rejects([allow], "203.0.113.7", address(WEB), 201, "udp")
    assert rejects([allow], "192.0.2.1", address(WEB), 200, "udp")
    unreadable = policy(policyTypes=["Ingress"], ingress=[{"from": [{"ipBlock": {"cidr": "010.0.0.0/8"}}]}])
    assert rejects([unreadable], "10.0.0.1", address(WEB))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "a", "operator": "In", "values": ["1", "2"]}, True),
        ({"key": "a", "operator": "NotIn", "values": ["1"]}, False),
        ({"key": "b", "operator": "NotIn", "values": ["1"]}, True),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "a", "operator": "DoesNotExist"}, False),
        ({"key": "a", "operator": "Gt", "values": ["0"]}, False),
    ],
)
def test_selectors(expression, expected):
    assert selects({"matchExpressions": [expression]}, {"a": "1"}) is expected
    assert selects({"matchLabels": {"a": "1"}, "matchExpressions": [expression]}, {"a": "1"}) is expected
    assert not selects({"matchLabels": {"a": "2"}, "matchExpressions": [expression]}, {"a": "1"})


def test_pods_without_policies():
    pod = {
        "metadata": {"namespace": "a", "name": "b", "labels": {"x": "y"}},
        "spec": {"nodeName": "n", "containers": [{"ports": [{"name": "http", "containerPort": 80}]}]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]},
    }
    assert read_pod(pod) == Pod("a", "b", "n", {"x": "y"}, ("10.0.0.1",), (("http", "TCP", 80),))
    assert read_pod({**pod, "spec": {**pod["spec"], "hostNetwork": True}}) is None
    assert read_pod({**pod, "status": {"phase": "Pending"}}) is None
    assert read_pod({**pod, "status": {**pod["status"], "phase": "Succeeded"}}) is None


selectors = st.sampled_from([{}, {"matchLabels": {"app": "web"}}, {"matchLabels": {"app": "data"}}])
teams = st.sampled_from([{}, {"matchLabels": {"team": "a"}}, {"matchLabels": {"team": "b"}}])
peers = st.one_of(
    st.fixed_dictionaries({"podSelector": selectors}),
    st.fixed_dictionaries({"namespaceSelector": teams}, optional={"podSelector": selectors}),
    st.sampled_from(["203.0.113.0/24", "10.244.0.0/16", "0.0.0.0/0"]).map(
        lambda cidr: {"ipBlock": {"cidr": cidr}}
    ),
)
ports = st.fixed_dictionaries(
    {}, optional={"port": st.sampled_from([80, 81]), "protocol": st.sampled_from(["TCP", "UDP"])}
)


def rules(key):
    return st.lists(
        st.fixed_dictionaries(
            {}, optional={key: st.lists(peers, max_size=2), "ports": st.lists(ports, max_size=2)}
        ),
        max_size=2,
    )


specs = st.fixed_dictionaries(
    {
        "podSelector": selectors,
        "policyTypes": st.sets(st.sampled_from(["Ingress", "Egress"]), min_size=1).map(sorted),
    },
    optional={"ingress": rules("from"), "egress": rules("to")},
)


def allowed_by_specification(policies, pod, other, direction, packet):
    """NetworkPolicySpec's documentation, read aloud."""
    port, protocol = packet
    peer_key = {"Ingress": "from", "Egress": "to"}[direction]
    mine = [
        one
        for one in policies
        if one["metadata"]["namespace"] == pod.namespace
        and direction in one["spec"]["policyTypes"]
        and selects(one["spec"]["podSelector"], pod.labels)
    ]
    if not mine or other == pod:
        return True

    def is_peer(one, namespace):
        if "ipBlock" in one:
            return ipaddress.ip_address(address(other)) in ipaddress.ip_network(one["ipBlock"]["cidr"])
        if not isinstance(other, Pod):
            return False
        chosen = one.get("namespaceSelector")
        near = (
            other.namespace == namespace if chosen is None else selects(chosen, NAMESPACES[other.namespace])
        )
        return near and selects(one.get("podSelector", {}), other.labels)

    def is_port(one):
        return one.get("protocol", "TCP").lower() == protocol and one.get("port", port) == port

    return any(
        (
            not rule.get(peer_key)
            or any(is_peer(one, policy["metadata"]["namespace"]) for one in rule[peer_key])
        )
        and (not rule.get("ports") or any(is_port(one) for one in rule["ports"]))
        for policy in mine
        for rule in policy["spec"].get(direction.lower(), [])
    )


@given(st.lists(specs, min_size=1, max_size=3))
def test_rules_decide_as_the_specification_does(found):
    policies = [{"metadata": {"namespace": "shop", "name": "p"}, "spec": spec} for spec in found]
    for source, destination in product((*PODS, OUTSIDE[0]), repeat=2):
        for port, protocol in ((80, "tcp"), (81, "tcp"), (80, "udp")):
            fine = True
            if isinstance(source, Pod):
                fine &= allowed_by_specification(policies, source, destination, "Egress", (port, protocol))
            if isinstance(destination, Pod):
                fine &= allowed_by_specification(policies, destination, source, "Ingress", (port, protocol))
            said = rejects(policies, address(source), address(destination), port, protocol)
            assert said is not fine, (address(source), address(destination), port, protocol)
