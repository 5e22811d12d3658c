from dataclasses import replace
from typing import Any

import pytest
from service_view import UID, view

from ccm.cloud import CloudError
from ccm.hetzner.api.models import (
    Certificate,
    LoadBalancer,
    LoadBalancerService,
    LoadBalancerType,
    PrimaryIp,
    ServiceHttp,
)
from ccm.hetzner.load_balancers.cache import ObservedCertificates
from ccm.hetzner.load_balancers.desired.desired_state import DesiredState, Placement
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.ownership_labels import may_delete
from ccm.hetzner.load_balancers.plan import plan, plan_release
from ccm.hetzner.load_balancers.plan.listener_changes import service_body
from ccm.hetzner.load_balancers.plan.planner import changes
from ccm.hetzner.load_balancers.plan.steps import NOTHING, Create, DeleteCertificates, create, creation_body
from ccm.hetzner.load_balancers.plan.target_changes import target_body
from ccm.hetzner.load_balancers.spec.annotation_table import CertificateSpec
from ccm.hetzner.load_balancers.targets import Target

SERVICE = view()
LISTENER = LoadBalancerService("tcp", 80, 30080)
KIND = LoadBalancerType(1, "lb11", max_services=5, max_targets=25)
PUBLIC, PRIVATE, IP = Target(1), Target(2, private=True), Target(ip="10.1.0.1")
ON_FOUR = {"ipv4": PrimaryIp(4, "four", "ipv4", "203.0.113.4")}
MADE = DesiredState("shop", {"a": "1"}, KIND, site=Placement("fsn1"), listeners=(LISTENER,))


def https(port: int, *certificates: int) -> LoadBalancerService:
    return LoadBalancerService("https", port, 30_000 + port, http=ServiceHttp(certificates=certificates))


def certificate(number: int, uid: str = UID, cluster: str = "c1") -> Certificate:
    labels = {"hcloud-ccm/service-uid": uid, "ccm-from-scratch/cluster": cluster}
    return Certificate(number, f"cert-{number}", type="managed", labels=labels)


def observed(*certificates: Certificate, **more: Any) -> ObservedState:
    known = {one.id: one for one in certificates}
    ours = tuple(one for one in certificates if may_delete(one, SERVICE, "c1"))
    return ObservedState(SERVICE, cluster="c1", certificates=ObservedCertificates(known, ours), **more)


def texts(desired: DesiredState, there: ObservedState) -> list[str]:
    return [str(one) for one in plan(desired, there)]


def body_of(desired: DesiredState) -> dict[str, Any]:
    return creation_body(desired, changes(desired, NOTHING))


def creation(desired: DesiredState) -> Create:
    return create(desired, changes(desired, NOTHING))


class TestBodies:
    def test_in_a_location(self) -> None:
        assert body_of(MADE) == {
            "name": "shop",
            "load_balancer_type": "lb11",
            "labels": {"a": "1"},
            "public_interface": True,
            "services": [service_body(LISTENER)],
            "location": "fsn1",
        }

    def test_in_a_zone_with_all_that_there_is(self) -> None:
        desired = replace(
            MADE,
            settings={"algorithm": "least_connections", "protection": True},
            labels={},
            public=True,
            network=7,
            primary_ips=ON_FOUR,
            targets=(PUBLIC, PRIVATE, IP),
            site=Placement(network_zone="us-east"),
        )
        assert body_of(desired) == {
            "name": "shop",
            "load_balancer_type": "lb11",
            "algorithm": {"type": "least_connections"},
            "labels": {},
            "public_interface": True,
            "public_net": {"ipv4": 4},
            "services": [service_body(LISTENER)],
            "targets": [target_body(PUBLIC), target_body(PRIVATE), target_body(IP)],
            "network_zone": "us-east",
            "network": 7,
        }

    @pytest.mark.parametrize(
        ("more", "network", "targets"),
        [
            ({"network": None}, None, [PUBLIC]),
            ({"private_ip": "10.0.0.9"}, None, [PUBLIC]),
            ({"ip_range": "10.0.0.0/24"}, None, [PUBLIC]),
            ({"public": False}, 7, [PRIVATE, IP]),
            ({"public": None}, 7, [PUBLIC, PRIVATE, IP]),
        ],
    )
    def test_only_reachable_targets(
        self, more: dict[str, Any], network: int | None, targets: list[Target]
    ) -> None:
        desired = replace(MADE, **{"network": 7, "targets": (PUBLIC, PRIVATE, IP), **more})
        body = body_of(desired)
        assert body.get("network") == network
        assert body["targets"] == [target_body(target) for target in targets]
        assert body["public_interface"] is (more.get("public") is not False)

    def test_what_is_refused_is_left_out_bit_by_bit(self) -> None:
        full = replace(MADE, targets=(PUBLIC,))
        keys = [{"targets", "services"} & body.keys() for body in creation(full).bodies]
        assert keys == [{"targets", "services"}, {"services"}, set()]
        assert creation(full).bodies[0] == body_of(full)
        assert [{*body} for body in creation(MADE).bodies] == [
            {*body_of(MADE)},
            {*body_of(MADE)} - {"services"},
        ]
        assert len(creation(replace(MADE, listeners=())).bodies) == 1
        assert len(creation(replace(full, listeners=())).bodies) == 2
        assert all(body["location"] == "fsn1" for body in creation(full).bodies)
        assert creation(full).desired is full


class TestTexts:
    def test_creation(self) -> None:
        full = replace(MADE, targets=(PUBLIC, IP), listeners=(LISTENER, https(443, 1)))
        assert str(creation(full)) == "create load balancer shop (lb11) in fsn1, ports: 80, 443, targets: 2"
        assert str(creation(replace(full, primary_ips=ON_FOUR))).endswith(", on 203.0.113.4 (Primary IP 4)")
        least = replace(MADE, type=None, listeners=(), site=Placement(network_zone="us-east"))
        assert str(creation(least)) == "create load balancer shop () in us-east, ports: none, targets: 0"


class TestPlan:
    def test_certificates_come_first_and_go_last(self) -> None:
        asked = CertificateSpec(domains=("a.example", "b.example"), name="mine")
        other = LoadBalancer(8, "old")
        desired = replace(
            MADE,
            listeners=(https(443, 1),),
            requests={-1: asked},
            retries=(certificate(5),),
            managed=frozenset({2}),
        )
        there = observed(
            *(certificate(1), certificate(2), certificate(3), certificate(4)),
            *(certificate(6, uid="other"), certificate(7, cluster="c2")),
            others=(other,),
        )
        there = replace(there, certificates=replace(there.certificates, spared=frozenset({4})))
        steps = plan(desired, there)
        assert [str(step) for step in steps] == [
            "request managed certificate cert-5 (5) again",
            "request a managed certificate for a.example, b.example",
            "create load balancer shop (lb11) in fsn1, ports: 443, targets: 0",
            "delete managed certificate cert-3 (3)",
            "leave load balancer old (8)",
        ]
        assert steps[3] == DeleteCertificates((certificate(3),), frozenset({2, 4}))
        assert [step.last for step in steps] == [False, False, False, True, True]
        assert not any(step.needs for step in steps)

    def test_what_can_not_be_all_that_is_asked_for_takes_nothing_away(self) -> None:
        desired = replace(MADE, errors=(CloudError("no"),))
        there = observed(certificate(1), others=(LoadBalancer(8, "old"),))
        assert texts(desired, there) == [str(creation(MADE))]

    def test_certificates_come_before_changes_too(self) -> None:
        balancer = LoadBalancer(7, "shop", labels={"a": "1"}, services=(https(444),))
        desired = DesiredState("shop", {"a": "1"}, retries=(certificate(5),))
        assert texts(desired, observed(balancer=balancer)) == [
            "request managed certificate cert-5 (5) again",
            "stop listening on port 444",
        ]

    def test_what_others_serve_with_stays(self) -> None:
        balancer = LoadBalancer(7, "shop", labels={"a": "1"}, services=(https(443, 1), https(444, 2)))
        desired = DesiredState("shop", {"a": "1"}, foreign_ports=frozenset({443}))
        assert texts(desired, observed(certificate(1), certificate(2), balancer=balancer)) == [
            "stop listening on port 444",
            "delete managed certificate cert-2 (2)",
        ]

    def test_none_is_made_that_should_not_exist(self) -> None:
        nothing = DesiredState("", {}, exists=False)
        assert texts(nothing, observed()) == []
        assert texts(nothing, observed(certificate(1), others=(LoadBalancer(8, "old"),))) == [
            "delete managed certificate cert-1 (1)",
            "leave load balancer old (8)",
        ]

    def test_a_service_that_goes_leaves_everything(self) -> None:
        leaves = plan_release(
            observed(certificate(1), others=(LoadBalancer(8, "old"), LoadBalancer(9, "older")))
        )
        assert [str(leave) for leave in leaves] == [
            "leave load balancer old (8)",
            "leave load balancer older (9)",
            "delete managed certificate",
        ]
        assert leaves[2] == DeleteCertificates()
