from dataclasses import replace
from typing import Any, ClassVar

import pytest
from desired_cases import LARGE, LEADER, OURS, SMALL, balancer, observed, said, server, spec
from service_view import UID

from ccm.cloud import Rejected, ServicePort
from ccm.hetzner.api.models import (
    Algorithm,
    Certificate,
    CertificateStatus,
    HealthCheck,
    HealthCheckHttp,
    LoadBalancer,
    Location,
    PrimaryIp,
    PrivateNet,
    PublicAddress,
    Server,
    ServerPublicNet,
)
from ccm.hetzner.load_balancers.cache import ObservedCertificates
from ccm.hetzner.load_balancers.desired import DesiredState, decide
from ccm.hetzner.load_balancers.desired.annotated_settings import labels_of_annotations, wanted_labels
from ccm.hetzner.load_balancers.desired.decision import InvalidAnnotations
from ccm.hetzner.load_balancers.desired.desired_state import Placement
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.targets import Candidates, Target

SERVERS = {
    1: Server(
        1,
        "n1",
        public_net=ServerPublicNet(PublicAddress("203.0.113.9")),
        private_net=(PrivateNet(7, "10.0.0.2"),),
    )
}
PLACES = (Location("fsn1", "eu-central"), Location("ash", "us-east"))
UDP = ServicePort(53, 30_053, "UDP")
INVALID = "InvalidLoadBalancerAnnotation"
LOCAL: dict[str, Any] = {"external_traffic_policy": "Local", "health_check_node_port": 31_234}


def known(there: LoadBalancer | None = None, **more: Any) -> ObservedState:
    usual = {
        "candidates": Candidates({"a": Target(1)}),
        "servers": SERVERS,
        "nodes": 1,
        "selected": 1,
        "locations": PLACES,
        "network": 7,
        "ours": frozenset({(1, "")}),
    }
    return observed(there, **{**usual, **more})


EVERYTHING = {
    "name": "shop",
    "location": "fsn1",
    "type": "lb21",
    "algorithm-type": "least_connections",
    "disable-public-network": "true",
    "private-ipv4": "10.0.0.9",
    "private-subnet-ip-range": "10.0.0.0/24",
    "ipv4-rdns": "a.example.com",
    "delete-protection": "true",
}


def test_a_new_one_is_all_that_is_asked_for() -> None:
    asked = spec(EVERYTHING, 80, UDP)
    there = known(candidates=Candidates({"a": Target(1, private=True)}))
    found = decide(asked, there)
    assert found == DesiredState(
        "shop",
        wanted_labels(asked, there, [80], labels_of_annotations(asked, there, frozenset())),
        LARGE,
        public=False,
        network=7,
        private_ip="10.0.0.9",
        ip_range="10.0.0.0/24",
        listeners=found.listeners,
        targets=(Target(1, private=True),),
        rdns={"ipv4": "a.example.com"},
        settings={"algorithm": "least_connections", "protection": True},
        reachable=frozenset({1}),
        site=Placement("fsn1"),
        notices=asked.unsupported,
    )
    assert [listener.listen_port for listener in found.listeners] == [80]
    assert found.listeners[0].health_check.port == 30_080


def test_one_that_is_there_and_was_annotated() -> None:
    with_ownership = balancer(
        {f"{OURS}annotated": "public-type", f"{OURS}port-81": "other"}, 81, targets=(server(9),)
    )
    found = decide(spec({"preserve-foreign": "true"}), known(with_ownership))
    assert (found.resets, found.public, found.type) == ({"public", "type"}, True, SMALL)
    assert (found.foreign_ports, found.foreign_targets) == ({81}, {(9, "")})
    assert (found.site, found.exists, found.errors) == (Placement(), True, ())


def test_a_type_that_has_to_stay_is_remembered() -> None:
    with_ownership = balancer({f"{OURS}annotated": "type"}, 80, 81, 82, load_balancer_type=LARGE)
    found = decide(spec({}, 80, 81, 82), known(with_ownership))
    assert (found.type, found.resets, found.labels[f"{OURS}annotated"]) == (None, frozenset(), "type")
    assert [listener.listen_port for listener in found.listeners] == [80, 81, 82]


class TestNoneAtAll:
    def test_for_a_service_that_none_can_serve(self) -> None:
        asked = spec({"type": "lb99", "algorithm": "x"}, UDP)
        assert decide(asked, known()) == DesiredState("", {}, exists=False, notices=asked.unsupported[:1])
        more = spec({}, UDP, fields={"session_affinity": "ClientIP"})
        assert [notice.reason for notice in decide(more, known()).notices] == [
            "UnsupportedProtocolConfigured"
        ]

    def test_and_what_it_leaves_is_not_left_while_annotations_are_wrong(self) -> None:
        wrong = spec({"protocol": "udp"}, UDP)
        assert not decide(wrong, known()).exists
        assert not decide(spec({}, UDP), known(others=(balancer(),))).exists
        with pytest.raises(InvalidAnnotations):
            decide(wrong, known(others=(balancer(),)))


class TestWrong:
    WRONG: ClassVar = {"protocol": "udp", "type": "lb99", "location": "mars", "algorithm": "x"}
    TEXTS = (
        f"{PREFIX}protocol: 'udp' is not tcp or http or https",
        f"{PREFIX}type: 'lb99' is not one of lb11, lb21, old",
        f"{PREFIX}location: 'mars' is not one of ash, fsn1",
        f"{PREFIX}algorithm: there is no such annotation; did you mean {PREFIX}algorithm-type?",
    )

    def test_everything_is_reported_at_once_and_none_is_made(self) -> None:
        with pytest.raises(InvalidAnnotations) as caught:
            decide(spec(self.WRONG), known())
        assert caught.value.message == "; ".join(self.TEXTS)
        assert said(caught.value.notices) == [(INVALID, caught.value.message)]

    def test_one_that_is_there_keeps_its_settings_and_follows_the_nodes(self) -> None:
        there = balancer({"team": "us"}, 80, 443, targets=(server(9),))
        asked = spec({**self.WRONG, "name": "new", "preserve-foreign": "true", "adopt": "x"}, 80, UDP)
        found = decide(asked, known(there))
        assert found == DesiredState(
            "there",
            there.labels,
            targets=(Target(1),),
            foreign_ports=frozenset({80, 443}),
            foreign_targets=frozenset({(9, "")}),
            reachable=frozenset({1}),
            errors=found.errors,
            notices=found.notices,
        )
        [error] = found.errors
        assert isinstance(error, InvalidAnnotations)
        assert error.message == "; ".join((*self.TEXTS[:2], self.TEXTS[3]))
        reasons = [notice.reason for notice in found.notices]
        assert reasons == ["UnsupportedProtocolConfigured", "LoadBalancerNotAdopted"], (
            "the error tells the rest"
        )

    @pytest.mark.parametrize(
        ("annotations", "follows"),
        [
            ({"protocol": "udp"}, True),
            ({"node-selector": "("}, False),
            ({"use-private-ip": "maybe"}, False),
            ({"http-cookie-name": "x" * 40_000}, False),
        ],
    )
    def test_unless_it_is_not_known_which(self, annotations: dict[str, str], follows: bool) -> None:
        found = decide(spec(annotations), known(balancer()))
        assert found.targets == ((Target(1),) if follows else None)


class TestSite:
    def test_somewhere_must_be_said(self) -> None:
        with pytest.raises(Rejected) as caught:
            decide(spec(), known())
        text = (
            f"the load balancer has no location: annotate the Service with {PREFIX}location or "
            f"{PREFIX}network-zone, or set HCLOUD_LOAD_BALANCERS_LOCATION"
        )
        assert said(caught.value.notices) == [("LoadBalancerLocationMissing", text)]
        assert caught.value.message == text
        ip = PrimaryIp(4, "four", "ipv4", "203.0.113.4", PLACES[0])
        on_it = decide(spec({"public-net-ipv4": "four"}), known(primary_ips={"ipv4": ip}))
        assert (on_it.site, on_it.primary_ips) == (Placement("fsn1"), {"ipv4": ip})
        assert decide(spec(), known(zone="eu-central")).site == Placement(network_zone="eu-central")
        assert decide(spec(), known(balancer())).site == Placement()

    def test_none_is_made_without_an_address_for_the_status(self) -> None:
        asked = spec(
            {"disable-public-network": "true", "disable-private-ingress": "true", "location": "fsn1"}
        )
        with pytest.raises(Rejected) as caught:
            decide(asked, known())
        why = asked.why_no_address(network=True)
        assert (caught.value.message, said(caught.value.notices)) == (
            why,
            [("LoadBalancerWithoutAddress", why)],
        )
        assert decide(asked, known(balancer())).exists


class TestCertificates:
    ASKED: ClassVar = {"protocol": "https", "location": "fsn1"}

    def test_a_port_whose_certificate_was_refused_stays_as_it_is(self) -> None:
        managed = {
            **self.ASKED,
            "certificate-type": "managed",
            "http-managed-certificate-domains": "a.example",
        }
        vain = dict.fromkeys(decide(spec(managed, 443), known()).requests.values())
        there = balancer({}, 443, 444)
        held = decide(spec(managed, 443), known(there, certificates=ObservedCertificates(requested=vain)))
        assert (held.listeners, held.foreign_ports, held.requests) == ((), {443}, {})

    def test_none_is_requested_where_there_is_no_room(self) -> None:
        managed = {
            **self.ASKED,
            "certificate-type": "managed",
            **{f"port.{port}.http-managed-certificate-domains": f"x{port}.example" for port in range(80, 84)},
            "http-managed-certificate-domains": "a.example",
        }
        failed = [
            Certificate(
                port,
                f"x{port}",
                type="managed",
                domain_names=(f"x{port}.example",),
                labels={LEADER: UID},
                status=CertificateStatus(issuance="failed"),
            )
            for port in (80, 83)
        ]
        known_ones = ObservedCertificates({one.id: one for one in failed})
        found = decide(spec(managed, 80, 81, 82, 83), known(certificates=known_ones))
        assert [listener.http.certificates for listener in found.listeners if listener.http] == [(80,), (-1,)]
        assert [request.domains for request in found.requests.values()] == [("x81.example",)]
        assert (found.retries, found.managed) == ((failed[0],), {80, 83})

    def test_a_port_whose_certificate_is_not_known_stays_as_it_is(self) -> None:
        asked = spec({"protocol": "https", "port.80.protocol": "http"}, 80, 443)
        found = decide(asked, known(balancer({}, 80, 443, 444)))
        assert [listener.listen_port for listener in found.listeners] == [80]
        assert (found.foreign_ports, len(found.errors)) == ({443}, 1)
        [notice] = [one for error in found.errors for one in error.notices]
        assert notice.reason == "CertificateNotFound"
        assert decide(spec({}, 80), known(balancer({}, 80, 443))).foreign_ports == frozenset()


class TestWhoseItBecomes:
    """The official CCM checks node ports by TCP where we ask kube-proxy: nothing changes by taking over."""

    USUAL = HealthCheck(protocol="tcp", port=30_080)
    HEALTHZ = HealthCheck(
        protocol="http", port=31_234, http=HealthCheckHttp(path="/healthz", status_codes=("200",))
    )

    @pytest.mark.parametrize(
        ("annotations", "labels", "check"),
        [
            ({}, {}, USUAL),
            ({}, {f"{OURS}namespace": "shop"}, HEALTHZ),
            ({"labels": "a=b"}, {}, HEALTHZ),
            ({"share": "edge"}, {}, HEALTHZ),
            ({}, {f"{OURS}share": "edge"}, HEALTHZ),
        ],
    )
    def test_checks(self, annotations: dict[str, str], labels: dict[str, str], check: HealthCheck) -> None:
        there = known(balancer(labels, 80), is_owner="share" not in annotations)
        found = decide(spec(annotations, fields=LOCAL), replace(there, cluster=""))
        assert [listener.health_check for listener in found.listeners] == [check]

    def test_its_labels_are_at_once_those_of_the_next_sync(self) -> None:
        asked = spec({"http-timeout-idle": "90", "algorithm-type": "least_connections", "labels": "a=b"})
        same = {"algorithm": Algorithm("least_connections")}
        labels = decide(asked, known(balancer({}, 80, **same))).labels
        assert decide(asked, known(balancer({**labels}, 80, **same))).labels == labels


class TestNotAdopted:
    TEXT = (
        f"{PREFIX}adopt: 'other' is not adopted, because load balancer there (7) already belongs to this "
        "Service. To adopt 'other', delete there"
    )

    def test_while_it_has_one(self) -> None:
        found = decide(spec({"adopt": "other"}), known(balancer()))
        assert said(found.notices) == [("LoadBalancerNotAdopted", self.TEXT)]

    def test_a_new_one_has_no_conflicts(self) -> None:
        assert decide(spec({"adopt": "other", "location": "fsn1"}), known()).notices == ()

    @pytest.mark.parametrize(
        ("word", "labels", "more"),
        [
            ("7", {}, {}),
            ("there", {}, {}),
            ("other", {f"{OURS}adopted": "true"}, {}),
            ("other", {}, {"adopting": True}),
            ("other", {}, {"is_owner": False}),
        ],
    )
    def test_it_is_or_was(self, word: str, labels: dict[str, str], more: dict[str, Any]) -> None:
        assert decide(spec({"adopt": word}), known(balancer(labels), **more)).notices == ()


def test_notices_of_all_parts_are_in_order() -> None:
    there = balancer(
        {},
        80,
        81,
        load_balancer_type=LARGE,
        location=PLACES[0],
        targets=(server(1), server(2), server(3), server(4)),
    )
    asked = spec({"location": "ash", "adopt": "other", "algorithm": "x"}, 80, 81, 82, 83, 84, UDP)
    found = decide(asked, known(there, candidates=Candidates({"b": Target(77), "a": Target(1)})))
    assert [notice.reason for notice in found.notices] == [
        INVALID,
        "LoadBalancerTypeKept",
        "LoadBalancerNotMoved",
        "ServerNotFound",
        "UnsupportedProtocolConfigured",
        "MaxServicesReached",
        "LoadBalancerNotAdopted",
    ]
