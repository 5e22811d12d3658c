from dataclasses import replace
from typing import Any

import pytest
from service_cluster import node, service

from ccm.controllers.names import CLEANUP_FINALIZER
from ccm.controllers.service.hosts import Host, host_of, hosts_among, names_for_people
from ccm.controllers.service.policy import (
    Abandon,
    Action,
    CachedService,
    Classes,
    Ensure,
    Postpone,
    Release,
    ServiceCache,
    UpdateHosts,
    after_waiting,
    decide,
    needs_cleanup,
    relevant,
    wants_load_balancer,
)
from ccm.controllers.service.syncer import view_of
from ccm.kube.objects import Node, ObjectMeta, Service, ServicePort, ServiceSpec, decode_object

PORT = {"port": 80, "nodePort": 30080, "protocol": "TCP", "targetPort": 8080}


def make(*, metadata: dict[str, Any] | None = None, **spec: Any) -> Service:
    item = service("web", metadata={"uid": "1", **(metadata or {})})
    item["spec"] |= {"ports": [PORT], **spec}
    return decode_object(item, Service)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"type": "ClusterIP"}),
        ({}, {"loadBalancerSourceRanges": ["10.0.0.0/8"]}),
        ({}, {"ports": [PORT, PORT | {"port": 81}]}),
        ({}, {"ports": [PORT | {"name": "web"}]}),
        ({}, {"ports": [PORT | {"protocol": "UDP"}]}),
        ({}, {"ports": [PORT | {"port": 81}]}),
        ({}, {"ports": [PORT | {"nodePort": 30081}]}),
        ({}, {"ports": [PORT | {"targetPort": 8081}]}),
        ({}, {"ports": [PORT | {"targetPort": "web"}]}),
        ({}, {"ports": [PORT | {"appProtocol": "http"}]}),
        ({"ports": [PORT | {"appProtocol": "http"}]}, {"ports": [PORT | {"appProtocol": "h2c"}]}),
        ({}, {"sessionAffinity": "ClientIP"}),
        ({}, {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}),
        ({}, {"loadBalancerIP": "203.0.113.1"}),
        ({}, {"loadBalancerClass": "other.example/lb"}),
        ({}, {"externalIPs": ["203.0.113.1"]}),
        ({"externalIPs": ["203.0.113.1"]}, {"externalIPs": ["203.0.113.2"]}),
        ({}, {"metadata": {"uid": "2"}}),
        ({}, {"metadata": {"annotations": {"any": "thing"}}}),
        ({}, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ({"externalTrafficPolicy": "Cluster"}, {"externalTrafficPolicy": "Local"}),
        ({"healthCheckNodePort": 32000}, {"healthCheckNodePort": 32001}),
        ({"ipFamilies": ["IPv4"]}, {"ipFamilies": ["IPv4", "IPv6"]}),
        ({"ipFamilies": ["IPv4", "IPv6"]}, {"ipFamilies": ["IPv6"]}),
    ],
)
def test_what_matters_to_a_load_balancer(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert relevant(make(**before)) != relevant(make(**after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {}),
        ({"ipFamilies": ["IPv4"]}, {"ipFamilies": ["IPv6"]}),
        ({}, {"ipFamilyPolicy": "PreferDualStack"}),
        ({}, {"clusterIP": "10.43.0.1"}),
        ({}, {"selector": {"app": "web"}}),
        ({}, {"internalTrafficPolicy": "Local"}),
        ({}, {"metadata": {"labels": {"a": "b"}}}),
        ({}, {"metadata": {"finalizers": ["other.example/wait"]}}),
        ({}, {"metadata": {"resourceVersion": "9"}}),
    ],
)
def test_what_does_not(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert relevant(make(**before)) == relevant(make(**after))


@pytest.mark.parametrize(
    ("metadata", "kind", "needed"),
    [
        ({}, "LoadBalancer", False),
        ({"finalizers": [CLEANUP_FINALIZER]}, "NodePort", True),
        ({"finalizers": [CLEANUP_FINALIZER]}, "LoadBalancer", False),
        (
            {"finalizers": [CLEANUP_FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "LoadBalancer",
            True,
        ),
        ({"finalizers": ["other"], "deletionTimestamp": "2026-01-01T00:00:00Z"}, "LoadBalancer", False),
    ],
)
def test_when_cleanup_is_needed(metadata: dict[str, Any], kind: str, *, needed: bool) -> None:
    assert needs_cleanup(make(metadata=metadata, type=kind)) is needed


def test_what_a_cloud_gets_to_see() -> None:
    view = view_of(make(externalTrafficPolicy="Local", healthCheckNodePort=32000, sessionAffinity="ClientIP"))
    assert (view.external_traffic_policy, view.health_check_node_port) == ("Local", 32000)
    assert view.session_affinity == "ClientIP"
    assert view_of(make()).external_traffic_policy == "Cluster"
    assert wants_load_balancer(make())


@pytest.mark.parametrize(
    ("value", "included"),
    [("false", True), ("0", True), ("F", True), ("true", False), ("", False), ("foo", False), ("no", False)],
)
def test_the_exclusion_label_is_read_as_go_does(value: str, *, included: bool) -> None:
    labels = {"node.kubernetes.io/exclude-from-external-load-balancers": value}
    assert (host_of(decode_object(node("a", labels=labels), Node)) is not None) is included


@pytest.mark.parametrize("taint", ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"])
def test_nodes_that_are_drained_to_be_deleted_leave(taint: str) -> None:
    assert hosts_among([decode_object(node("a", taints=(taint,)), Node)]) == []


def test_cordoned_nodes_stay() -> None:
    item = node("a", taints=("node.kubernetes.io/unschedulable",))
    item["spec"]["unschedulable"] = True
    assert len(hosts_among([decode_object(item, Node)])) == 1


def test_names_for_people() -> None:
    nodes = [decode_object(node(f"n{index}"), Node) for index in range(23)]
    assert names_for_people(nodes[:2]) == "n0 n1"
    assert names_for_people(nodes).endswith("n19 <3 more>")


HOST = ("a", "fake://a", {}, ())
OURS = {"finalizers": (CLEANUP_FINALIZER,)}


def known(hosts: tuple[Host, ...] | None = (), **metadata: Any) -> CachedService:
    return CachedService(one(**{**OURS, **metadata}), hosts)


def one(kind: str = "LoadBalancer", port: int = 80, **metadata: Any) -> Service:
    spec = ServiceSpec(type=kind, ports=(ServicePort(port=port),))
    return Service(
        metadata=ObjectMeta(**{"namespace": "shop", "name": "web", "uid": "1", **metadata}), spec=spec
    )


@pytest.mark.parametrize(
    ("cached", "service", "more", "action"),
    [
        (None, None, {}, None),
        (None, one(), {}, Ensure(one(), announced=True, by_owner=True)),
        (None, one(**OURS), {}, Ensure(one(**OURS), announced=False, by_owner=True)),
        (None, one(), {"foreign": True}, None),
        (None, one(), {"rest": 7.0}, Postpone(one(), 7.0, None)),
        (None, one("ClusterIP"), {}, None),
        (None, one("ClusterIP", **OURS), {}, Release(one("ClusterIP", **OURS))),
        (known(), one(**OURS), {}, Ensure(one(**OURS), announced=False, by_owner=False)),
        (known(), one(), {"rest": 7.0}, Ensure(one(), announced=True, by_owner=False)),
        (known(), one(port=81, **OURS), {}, Ensure(one(port=81, **OURS), announced=True, by_owner=True)),
        (known(), one(port=81), {"rest": 7.0}, Postpone(one(port=81), 7.0, None)),
        (known(), one(**OURS), {"hosts": (HOST,)}, UpdateHosts(one(**OURS))),
        (known(), one(), {"hosts": (HOST,)}, Ensure(one(), announced=True, by_owner=False)),
        (known(None), one(**OURS), {"hosts": (HOST,)}, Ensure(one(**OURS), announced=False, by_owner=False)),
        (
            known(),
            one(port=81, **OURS),
            {"hosts": (HOST,), "rest": 7.0},
            Postpone(one(port=81, **OURS), 7.0, UpdateHosts(one(**OURS))),
        ),
        (known(None), one(port=81), {"hosts": (HOST,), "rest": 7.0}, Postpone(one(port=81), 7.0, None)),
        (known(), one("ClusterIP"), {}, Release(one("ClusterIP"))),
        (known(), None, {}, Abandon(one(**OURS), None)),
        (known(), one(uid="2"), {}, Abandon(one(**OURS), one(uid="2"))),
        (known(), one(**OURS), {"foreign": True}, Abandon(one(**OURS), one(**OURS))),
    ],
)
def test_what_is_decided(
    cached: CachedService | None, service: Service | None, more: dict[str, Any], action: Action
) -> None:
    assert decide(cached, service, **{"hosts": (), **more}) == action


ENSURE, RELEASE = Ensure(one(), announced=False, by_owner=False), Release(one("ClusterIP"))


@pytest.mark.parametrize(
    ("before", "now", "action"),
    [
        (ENSURE, replace(ENSURE, announced=True), replace(ENSURE, announced=True)),
        (replace(ENSURE, by_owner=True), ENSURE, replace(ENSURE, by_owner=True)),
        (ENSURE, Ensure(one(port=81), announced=False, by_owner=True), Ensure(one(port=81), False, True)),
        (ENSURE, RELEASE, None),
        (ENSURE, Abandon(one(), None), None),
        (ENSURE, replace(ENSURE, service=one(uid="2")), None),
        (RELEASE, ENSURE, None),
        (RELEASE, RELEASE, RELEASE),
        (RELEASE, None, RELEASE),
        (RELEASE, replace(ENSURE, service=one(uid="2")), RELEASE),
    ],
)
def test_what_is_done_after_waiting(before: Ensure | Release, now: Action, action: Action) -> None:
    assert after_waiting(before, now) == action


def test_a_service_that_waited_is_looked_at_although_its_nodes_changed_meanwhile() -> None:
    cache = ServiceCache(Classes())
    cache.services["shop/web"] = known(())
    decided = cache.decide("shop/web", one(**OURS), (HOST,), before=ENSURE)
    assert decided == Ensure(one(**OURS), announced=False, by_owner=False)
