"""Which of Kubernetes' own tests run, and those that no load balancer of Hetzner can pass."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_UDP = "Hetzner's load balancers don't support UDP, so the CCM sends the Event UnsupportedProtocolConfigured"
_AFFINITY = (
    "Hetzner's load balancers can't send all requests of a client to the same Pod (session affinity), so "
    "the CCM sends the Event UnsupportedFieldConfigured"
)

LIMITS: Mapping[str, str] = {
    "LoadBalancers should be able to change the type and ports of a UDP service": _UDP,
    **{
        "LoadBalancers should be able to preserve UDP traffic when server pod cycles for a LoadBalancer "
        f"service on {nodes} nodes": _UDP
        for nodes in ("different", "the same")
    },
    "LoadBalancers should only allow access from service loadbalancer source ranges": (
        "Hetzner's load balancers can't restrict the addresses of clients, so the CCM sends the Event "
        "UnsupportedFieldConfigured"
    ),
    **{
        f"LoadBalancers should {verb} LoadBalancer service with {policy} traffic policy": _AFFINITY
        for verb in ("have session affinity work for", "be able to switch session affinity for")
        for policy in ("Local", "Cluster")
    },
    "LoadBalancers should be able to create LoadBalancer Service without NodePort and change it": (
        "without node ports, no load balancer reaches the Pods, so the CCM sends the Event NodePortMissing"
    ),
    "LoadBalancers ExternalTrafficPolicy: Local should work for type=LoadBalancer": (
        "Pods that don't support the PROXY protocol see the load balancer's address instead of the client's "
        "address, so the CCM sends the Event ClientAddressHidden"
    ),
}
"""Reasons to skip tests. Each key is the name of a test without the labels in brackets.

For each of these tests, tests/unit/load_balancers/test_limits.py checks that the CCM sends the Event that the
reason names.
"""

_PASSED = (
    "LoadBalancers should be able to change the type and ports of a TCP service",
    "LoadBalancers should handle load balancer cleanup finalizer for service",
    "LoadBalancers ExternalTrafficPolicy: Local should only target nodes with endpoints",
    "LoadBalancers ExternalTrafficPolicy: Local should target all nodes with endpoints",
    "LoadBalancers ExternalTrafficPolicy: Local should work from pods",
)
"""The load balancer tests that run by default. The two tests of rolling updates are too slow."""

_NETWORK = (
    r"\[sig-network\] (Services|DNS|Endpoints(Controller)?|EndpointSlice(Mirroring)?|Networking) "
    r".*\[Conformance\]"
)


@dataclass(frozen=True)
class Selection:
    """What is to run."""

    focus: Sequence[str]  # regular expressions of Go; a test runs if its name fits one
    large_images: bool = True  # whether tests are among them that want the large images
    deletes_servers: bool = False  # whether the tests are among them that delete a server


def marked(words: str) -> str:
    """A regular expression for a test's name, which has marks in brackets between its words."""
    return r"(\s+\[[^\]]*\])*\s+".join(map(re.escape, words.split()))


DEFAULT = Selection((_NETWORK, *map(marked, (*_PASSED, *LIMITS))), large_images=False)
ALL = Selection((r"\[Conformance\]",))
DELETION = Selection((marked("Nodes should be deleted on API server"),), False, True)


def focused(expression: str) -> Selection:
    """What fits an expression, except for the tests that delete a server."""
    return Selection((expression,))


def plain(name: str) -> str:
    """A test's name without its marks in brackets, as in ``LIMITS``."""
    return " ".join(re.sub(r"\[[^\]]*\]", " ", name).split())
