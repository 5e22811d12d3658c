from typing import Any

import pytest
from desired_cases import LEADER, OTHER, OURS, balancer, observed, said, spec
from service_view import UID

from ccm.cloud import CloudError, Rejected
from ccm.hetzner.api.models import (
    ActionError,
    Certificate,
    CertificateStatus,
    LoadBalancer,
    LoadBalancerService,
    ServiceHttp,
)
from ccm.hetzner.load_balancers.cache import ObservedCertificates
from ccm.hetzner.load_balancers.desired.certificate_choice import CertificateChoice, choose_certificates
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.spec.annotation_table import CertificateSpec

HTTPS = {"protocol": "https"}
MANAGED = {**HTTPS, "certificate-type": "managed"}
ASKED = CertificateSpec(domains=("b.example", "a.example"), name=f"ccm-managed-certificate-{UID}")
DOMAINS = {"http-managed-certificate-domains": "b.example,a.example"}


def there(*several: Certificate, balancer: LoadBalancer | None = None, **more: Any) -> ObservedState:
    known = {one.id: one for one in several}
    return observed(balancer, certificates=ObservedCertificates(known, **more))


def managed(
    number: int, *domains: str, uid: str = UID, staging: str | None = None, **more: Any
) -> Certificate:
    labels = {LEADER: uid, **({"HC-Use-Staging-CA": staging} if staging else {})}
    return Certificate(number, f"cert-{number}", type="managed", domain_names=domains, labels=labels, **more)


def uploaded(number: int, name: str, **labels: str) -> Certificate:
    return Certificate(number, name, labels={OURS + key: value for key, value in labels.items()})


def messages(errors: tuple[CloudError, ...]) -> list[str]:
    assert all(isinstance(error, Rejected) for error in errors)
    assert [said(error.notices) for error in errors] == [
        [("CertificateNotFound", error.message)] for error in errors
    ]
    return [error.message for error in errors]


class TestUploaded:
    def test_what_is_not_there_is_named_and_the_rest_serves(self) -> None:
        asked = spec({**HTTPS, "http-certificates": "shop,lost,7"}, 443)
        found = choose_certificates(asked, there(uploaded(9, "shop")))
        assert (found.by_port, found.refused) == ({443: (9,)}, False)
        assert messages(found.errors) == [
            (
                "port 443 needs a certificate, http-certificates: this project has no certificate with id or "
                "name 'lost', '7'"
            )
        ]

    def test_without_any_the_port_can_not_be_served(self) -> None:
        found = choose_certificates(spec(HTTPS, 443, 444), there())
        assert found.by_port == {}
        assert messages(found.errors) == [
            f"port {port} needs a certificate, list one in http-certificates" for port in (443, 444)
        ]
        lost = choose_certificates(spec({**HTTPS, "http-certificates": "lost"}, 443), there())
        assert (lost.by_port, len(lost.errors)) == ({}, 1)

    def test_those_of_others_are_refused_unless_they_serve_already(self) -> None:
        theirs = uploaded(9, "theirs", namespace="them")
        asked = spec({**HTTPS, "http-certificates": "theirs,shop"}, 443)
        found = choose_certificates(asked, there(theirs, uploaded(5, "shop")))
        assert found.by_port == {443: (5,)}
        [message] = messages(found.errors)
        assert message.startswith(
            "port 443 needs a certificate, http-certificates: this namespace isn't allowed to "
            "use the certificates 'theirs'"
        )
        serving = LoadBalancerService("https", 443, 30_443, http=ServiceHttp(certificates=(9,)))
        found = choose_certificates(
            asked, there(theirs, uploaded(5, "shop"), balancer=balancer(services=(serving,)))
        )
        assert found == CertificateChoice({443: (9, 5)})

    def test_one_of_this_namespace_and_cluster(self) -> None:
        asked = spec({**HTTPS, "http-certificates": "mine"}, 443)
        mine = uploaded(9, "mine", namespace="shop", cluster="c1")
        assert choose_certificates(asked, there(mine)).by_port == {443: (9,)}
        for labels in ({"namespace": "shop", "cluster": "c2"}, {"namespace": "them", "cluster": "c1"}):
            assert choose_certificates(asked, there(uploaded(9, "mine", **labels))).by_port == {}

    def test_one_of_this_service_and_none_of_another(self) -> None:
        asked = spec({**HTTPS, "http-certificates": "one"}, 443)
        mine, theirs = (Certificate(9, "one", labels={LEADER: uid}) for uid in (UID, OTHER))
        assert choose_certificates(asked, there(mine)).by_port == {443: (9,)}
        assert choose_certificates(asked, there(theirs)).by_port == {}


class TestManaged:
    def test_one_that_is_there(self) -> None:
        asked = spec({**MANAGED, **DOMAINS}, 443)
        strangers = (
            managed(3, "a.example"),
            managed(4, "a.example", "b.example", uid=OTHER),
            managed(5, "a.example", "b.example", staging="true"),
        )
        found = choose_certificates(asked, there(*strangers, managed(6, "a.example", "b.example")))
        assert found == CertificateChoice({443: (6,)}, frozenset({6}))
        staged = spec({**MANAGED, **DOMAINS, "http-managed-certificate-acme-staging": "true"}, 443)
        assert choose_certificates(staged, there(*strangers)).by_port == {443: (5,)}
        not_staged = managed(7, "a.example", "b.example", staging="false")
        assert choose_certificates(asked, there(not_staged)).by_port == {443: (7,)}

    def test_one_that_is_not_is_requested_once_for_all_ports(self) -> None:
        asked = spec(
            {**MANAGED, **DOMAINS, "port.445.http-managed-certificate-domains": "c.example"}, 443, 444, 445
        )
        other = CertificateSpec(domains=("c.example",), name=ASKED.name)
        found = choose_certificates(asked, there())
        by_port = {443: (-1,), 444: (-1,), 445: (-2,)}
        assert found == CertificateChoice(by_port, requests={-1: ASKED, -2: other})

    def test_one_that_was_requested_just_now_serves_whatever_its_domains(self) -> None:
        asked = spec({**MANAGED, **DOMAINS}, 443)
        found = choose_certificates(asked, there(managed(8, "odd.example"), requested={ASKED: 8}))
        assert found == CertificateChoice({443: (8,)}, frozenset({8}))

    def test_one_that_was_requested_in_vain_is_not_again(self) -> None:
        asked = spec({**MANAGED, **DOMAINS, "port.80.protocol": "http"}, 80, 443)
        found = choose_certificates(asked, there(requested={ASKED: None}))
        assert found == CertificateChoice(refused=True)

    def test_and_none_for_others_then(self) -> None:
        other = {"port.444.http-managed-certificate-domains": "c.example"}
        asked = spec({**MANAGED, **DOMAINS, **other}, 443, 444)
        assert choose_certificates(asked, there(requested={ASKED: None})) == CertificateChoice(refused=True)
        issued = choose_certificates(asked, there(managed(7, "c.example"), requested={ASKED: None}))
        assert issued == CertificateChoice({444: (7,)}, frozenset({7}), refused=True)

    @pytest.mark.parametrize(
        ("status", "why"),
        [
            (CertificateStatus(issuance="failed"), "no reason given"),
            (
                CertificateStatus(renewal="failed", error=ActionError("caa", "CAA forbids it")),
                "CAA forbids it",
            ),
        ],
    )
    def test_one_that_failed_is_reported_and_retried(self, status: CertificateStatus, why: str) -> None:
        asked = spec({**MANAGED, **DOMAINS}, 443)
        failed = managed(6, "a.example", "b.example", status=status)
        found = choose_certificates(asked, there(failed))
        assert (found.by_port, found.managed, found.retries) == ({443: (6,)}, {6}, (failed,))
        text = f"Hetzner could not issue the managed certificate cert-6 (a.example, b.example): {why}"
        assert said(found.notices) == [("ManagedCertificateFailed", text)]
        again = choose_certificates(asked, there(failed, retried=frozenset({6})))
        assert (again.retries, len(again.notices)) == ((), 1)

    def test_one_that_is_issued_is_not_reported(self) -> None:
        good = managed(6, "a.example", "b.example", status=CertificateStatus("completed", "scheduled"))
        found = choose_certificates(spec({**MANAGED, **DOMAINS}, 443), there(good))
        assert (found.retries, found.notices) == ((), ())


def test_where_they_are_not_known_nothing_is_decided() -> None:
    error = CloudError("the list is not complete")
    for one in ({**HTTPS, "http-certificates": "1"}, {**MANAGED, **DOMAINS}):
        found = choose_certificates(spec(one, 443), there(uploaded(1, "x"), error=error))
        assert found == CertificateChoice(errors=(error,))
    none = choose_certificates(spec(HTTPS, 443), there(error=error))
    assert (none.errors[0], len(none.errors), none.refused) == (error, 2, False)
    assert choose_certificates(spec(), there(error=error)) == CertificateChoice(errors=(error,))
