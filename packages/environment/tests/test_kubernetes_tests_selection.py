import re

import pytest

from sandbox.kubernetes_tests.selection import ALL, DEFAULT, DELETION, LIMITS, focused, plain

LOAD_BALANCERS = "[sig-network] LoadBalancers [Feature:LoadBalancer]"
AFFINITY = "should have session affinity work for LoadBalancer service with Local traffic policy"
LOCAL = "[sig-network] LoadBalancers ExternalTrafficPolicy: Local [Feature:LoadBalancer] [Slow]"


def fits(chosen, name):
    """As ginkgo: the suite's name comes before the test's."""
    return any(re.search(expression, f"Kubernetes e2e suite {name}") for expression in chosen.focus)


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("[sig-network] Services should serve a basic endpoint from pods [Conformance]", True),
        ("[sig-network] Networking Granular Checks: Pods [LinuxOnly] [NodeConformance] [Conformance]", True),
        ("[sig-network] EndpointsController should create Endpoints for Pods [Conformance]", True),
        ("[sig-network] Services should be rejected when no endpoints exist", False),
        ("[sig-apps] Deployment deployment should support rollover [Conformance]", False),
        ("[sig-network] Proxy version v1 A set of valid responses [Conformance]", False),
        (f"{LOAD_BALANCERS} should handle load balancer cleanup finalizer for service [Slow]", True),
        (f"{LOAD_BALANCERS} should be able to change the type and ports of a TCP service [Slow]", True),
        (f"{LOCAL} should only target nodes with endpoints", True),
        (f"{LOCAL} should target all nodes with endpoints", True),
        (f"{LOCAL} should work from pods", True),
        (f"{LOCAL} should never work from pods", False),
        (f"{LOAD_BALANCERS} should not have connectivity disruption during rolling update [Slow]", False),
        # skipped with a reason, so they are chosen
        (f"{LOCAL} should work for type=LoadBalancer", True),
        (f"{LOAD_BALANCERS} {AFFINITY} [Slow] [LinuxOnly]", True),
    ],
)
def test_the_default_selection(name, runs):
    assert fits(DEFAULT, name) is runs


def test_servers_are_deleted_only_on_request():
    name = (
        "[sig-cloud-provider] [Feature:CloudProvider] [Disruptive] Nodes should be deleted on API server if "
        "it doesn't exist in the cloud provider"
    )
    assert fits(DELETION, name)
    assert DELETION.deletes_servers
    assert not fits(DEFAULT, name)
    assert not any(chosen.deletes_servers for chosen in (DEFAULT, ALL, focused("Nodes")))


def test_limits():
    name = f"{LOAD_BALANCERS} should be able to change the type and ports of a UDP service [Slow]"
    assert plain(name) in LIMITS
    assert plain(f"{LOCAL} should work for type=LoadBalancer") in LIMITS
    assert plain(f"{LOCAL} should work from pods") not in LIMITS
    assert all(plain(words) == words for words in LIMITS)
