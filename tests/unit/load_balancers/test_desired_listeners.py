from typing import Any, ClassVar

import msgspec
import pytest
from desired_cases import LARGE, OURS, SMALL, balancer, observed, said, spec, timed

from ccm.cloud import ServicePort
from ccm.hetzner.api.models import (
    HealthCheck,
    HealthCheckHttp,
    LoadBalancer,
    LoadBalancerService,
    ServiceHttp,
)
from ccm.hetzner.load_balancers.desired.listener_choice import ListenerChoice, choose_listeners, with_checks
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.spec.annotation_table import HealthCheckSpec
from ccm.hetzner.load_balancers.spec.load_balancer_spec import LoadBalancerSpec

HTTPS = {"protocol": "https", "http-certificates": "1"}
CONFLICT, TOO_MANY = "LoadBalancerPortConflict", "MaxServicesReached"
NOTHING: dict[int, tuple[int, ...]] = {}


def chosen(asked: LoadBalancerSpec, there: ObservedState | None = None, **more: Any) -> ListenerChoice:
    usual = {"limits": LARGE, "certificates": NOTHING, "taken": {}}
    return choose_listeners(asked, there or observed(), **{**usual, **more})


def ports(found: ListenerChoice) -> list[int]:
    return [listener.listen_port for listener in found.listeners]


class TestNew:
    def test_one_for_each_tcp_port_with_a_node_port(self) -> None:
        asked = spec({}, 443, 80, ServicePort(53, 30_053, "UDP"), ServicePort(81, 0))
        found = chosen(asked)
        assert found == ListenerChoice(
            (LoadBalancerService("tcp", 80, 30_080), LoadBalancerService("tcp", 443, 30_443)),
            {number: HealthCheckSpec(chosen=False) for number in (80, 81, 443)},
            (),
        )

    def test_http_with_all_its_settings(self) -> None:
        asked = spec(
            {
                "protocol": "http",
                "uses-proxyprotocol": "true",
                "http-cookie-name": "MINE",
                "http-cookie-lifetime": "600",
                "http-timeout-idle": "60",
                "http-sticky-sessions": "true",
                "health-check-port": "8080",
            }
        )
        http = ServiceHttp("MINE", 600, timeout_idle=60, sticky_sessions=True)
        found = chosen(asked, certificates={80: (1,)})
        assert found.listeners == (LoadBalancerService("http", 80, 30_080, proxyprotocol=True, http=http),)
        assert found.checks == {80: HealthCheckSpec(protocol="http", port=8080)}

    def test_https_needs_certificates_and_has_them_in_order(self) -> None:
        asked = spec({**HTTPS, "port.80.protocol": "http", "http-redirect-http": "true"}, 80, 443, 444)
        found = chosen(asked, certificates={443: (2, 1)})
        assert ports(found) == [80, 443]
        assert found.listeners[1].http == ServiceHttp(certificates=(1, 2))
        assert said(found.notices) == [
            (CONFLICT, "port 443 can't get the redirects from port 80, because the Service uses port 80")
        ]

    def test_a_redirect_that_was_there_ends_with_https(self) -> None:
        there = LoadBalancerService("https", 443, 30_443, http=ServiceHttp(redirect_http=True))
        found = chosen(spec({"protocol": "http"}, 443), observed(balancer(services=(there,))))
        assert [listener.http for listener in found.listeners] == [ServiceHttp()]

    def test_port_80_redirects_to_the_first(self) -> None:
        asked = spec({**HTTPS, "http-redirect-http": "true"}, 445, 443, 444)
        found = chosen(asked, certificates=dict.fromkeys((443, 444, 445), (1,)))
        assert [listener.http.redirect_http for listener in found.listeners if listener.http] == [
            True,
            False,
            False,
        ]
        assert said(found.notices) == [
            (
                CONFLICT,
                (
                    "port 444 can't get the redirects from port 80, because port 443 already gets them; "
                    "port 445 can't get the redirects from port 80, because port 443 already gets them"
                ),
            )
        ]


class TestRoom:
    def test_the_first_ports_have_it(self) -> None:
        asked = spec({}, 83, 82, 81, 80)
        assert (ports(chosen(asked)), chosen(asked).notices) == ([80, 81, 82, 83], ())
        found = chosen(asked, limits=SMALL)
        assert ports(found) == [80, 81]
        assert said(found.notices) == [
            (
                TOO_MANY,
                (
                    "type lb11 supports 2 ports. The CCM doesn't configure these ports on the load balancer: "
                    "82, 83. Set the annotation load-balancer.hetzner.cloud/type to a larger type"
                ),
            )
        ]

    def test_those_of_others_take_it(self) -> None:
        there = observed(balancer({}, 22, 23, 80))
        found = chosen(spec({}, 80, 81, 82), there, taken={22: "someone else", 23: "someone else", 99: "x"})
        assert ports(found) == [80, 81]
        assert said(found.notices)[0][0] == TOO_MANY
        full = chosen(spec({}, 80), there, taken=dict.fromkeys((22, 23), "x"), limits=SMALL)
        assert ports(full) == []

    def test_ports_beyond_any_type_are_counted(self) -> None:
        several = [*range(1000, 1253), ServicePort(1, 30_001, "UDP"), ServicePort(2, 0)]
        [(_, text)] = said(chosen(spec({}, *several), limits=SMALL).notices)
        assert text.startswith(
            "type lb11 supports 2 ports. The CCM doesn't configure these ports on the load balancer: 1002, "
        )
        assert text.endswith(
            " and 227 more. Even the largest type can't support 4 of the Service's ports. Set the annotation "
            "load-balancer.hetzner.cloud/type to a larger type"
        )

    def test_a_port_that_others_have_is_left_to_them(self) -> None:
        found = chosen(
            spec(
                {
                    **HTTPS,
                    "port.443.http-redirect-http": "true",
                    "port.90.protocol": "tcp",
                    "port.91.protocol": "tcp",
                },
                443,
                90,
                91,
            ),
            certificates={443: (1,)},
            taken={80: "someone else", 90: "the Service with UID u", 7: "x"},
        )
        assert ports(found) == [91]
        assert said(found.notices) == [
            (
                CONFLICT,
                (
                    "on the shared load balancer port 80 belongs to someone else; "
                    "port 90 belongs to the Service with UID u"
                ),
            )
        ]


class TestWhatStays:
    """A setting without an annotation stays, unless an annotation set it before."""

    THERE = LoadBalancerService(
        "http",
        80,
        30_999,
        proxyprotocol=True,
        http=ServiceHttp("THEIRS", 900, timeout_idle=99),
        health_check=timed(20, 8, protocol="http", port=1, retries=4, http=HealthCheckHttp(path="/up")),
    )

    def there(self, labels: dict[str, str] | None = None) -> LoadBalancer:
        return balancer(labels, services=(self.THERE,))

    def test_what_was_annotated_goes_with_its_annotation(self) -> None:
        there = observed(self.there({f"{OURS}annotated-proxyprotocol": "", f"{OURS}annotated-interval": ""}))
        found = chosen(spec({}), there)
        assert not found.listeners[0].proxyprotocol
        assert (found.checks[80].interval, found.checks[80].timeout) == (15, 8)

    @pytest.mark.parametrize(
        ("annotations", "times"),
        [
            ({}, (20, 8)),
            ({"health-check-interval": "5"}, (5, 5)),
            ({"health-check-interval": "9"}, (9, 8)),
            ({"health-check-timeout": "12"}, (20, 12)),
            ({"health-check-interval": "5", "health-check-timeout": "4"}, (5, 4)),
        ],
    )
    def test_a_kept_time_gives_way(self, annotations: dict[str, str], times: tuple[int, int]) -> None:
        check = chosen(spec(annotations), observed(self.there())).checks[80]
        assert (check.interval, check.timeout) == times

    @pytest.mark.parametrize(
        ("timeout", "times"), [("12", (12, 12)), ("6", (6, 6)), ("5", (5, 5)), ("4", (5, 4))]
    )
    def test_an_interval_that_is_kept_does_so_too(self, timeout: str, times: tuple[int, int]) -> None:
        quick = LoadBalancerService("tcp", 80, 30_080, health_check=HealthCheck(interval=5))
        check = chosen(spec({"health-check-timeout": timeout}), observed(balancer(services=(quick,)))).checks[
            80
        ]
        assert (check.interval, check.timeout) == times


class TestChecks:
    LOCAL: ClassVar[dict[str, Any]] = {"external_traffic_policy": "Local", "health_check_node_port": 31_234}
    HEALTHZ = HealthCheck(
        protocol="http", port=31_234, http=HealthCheckHttp(path="/healthz", status_codes=("200",))
    )

    @staticmethod
    def check(asked: LoadBalancerSpec, *, ours: bool = True) -> HealthCheck:
        [listener] = with_checks(asked.service, chosen(asked), ours=ours)
        assert (listener.listen_port, listener.destination_port) == (80, 30_080)
        return listener.health_check

    def test_one_by_http(self) -> None:
        asked = spec(
            {
                "health-check-protocol": "https",
                "health-check-port": "8080",
                "health-check-interval": "9",
                "health-check-timeout": "8",
                "health-check-retries": "5",
                "health-check-http-domain": "a.example",
                "health-check-http-path": "/up",
                "http-status-codes": "204",
            }
        )
        http = HealthCheckHttp(domain="a.example", path="/up", status_codes=("204",), tls=True)
        wanted = timed(9, 8, protocol="http", port=8080, retries=5, http=http)
        assert self.check(asked) == wanted
        bare = self.check(spec({"health-check-protocol": "http"})).http
        assert bare == HealthCheckHttp(status_codes=("2??", "3??"))

    def test_local_traffic_asks_kube_proxy(self) -> None:
        asked = spec(
            {"health-check-interval": "9", "health-check-http-domain": "a.example"}, fields=self.LOCAL
        )
        found = self.check(asked)
        assert (found.interval, found.timeout) == (9, 9)
        assert found.http == self.HEALTHZ.http
        assert self.check(spec({}, fields=self.LOCAL)) == self.HEALTHZ
        tls = spec(
            {"health-check-retries": "3", "health-check-http-validate-certificate": "1"}, fields=self.LOCAL
        )
        assert self.check(tls) == self.HEALTHZ

    @pytest.mark.parametrize(
        ("annotations", "fields"),
        [
            ({"health-check-protocol": "http"}, LOCAL),
            ({"health-check-protocol": "http", "health-check-port": "8080"}, LOCAL),
            ({"health-check-protocol": "http", "http-status-codes": "204"}, LOCAL),
            ({"protocol": "http", "health-check-interval": "10"}, {}),
            ({"protocol": "http", "health-check-retries": "5"}, {}),
            ({"health-check-protocol": "https"}, {}),
        ],
    )
    def test_kube_proxys_check_is_not_kept(self, annotations: dict[str, str], fields: dict[str, Any]) -> None:
        before = spec({"protocol": "http"}, fields=self.LOCAL)
        local = with_checks(before.service, chosen(before), ours=True)
        asked = spec(annotations, fields=fields)
        now = chosen(asked, observed(balancer({f"{OURS}namespace": "shop"}, services=local)))
        [listener] = with_checks(asked.service, now, ours=True)
        assert listener.health_check == self.check(asked)

    @pytest.mark.parametrize(
        ("changed", "annotations"),
        [
            ({"port": 30_080}, {"health-check-protocol": "http"}),
            ({"port": 10_256}, {"health-check-port": "10256", "health-check-protocol": "http"}),
            ({"http": HealthCheckHttp(path="/up", status_codes=("200",))}, {"health-check-protocol": "http"}),
            ({"http": HealthCheckHttp(path="/healthz")}, {"health-check-protocol": "http"}),
        ],
        ids=["node port", "the port asked for", "another path", "other answers"],
    )
    def test_another_clients_check_stays(self, changed: dict[str, Any], annotations: dict[str, str]) -> None:
        there = msgspec.structs.replace(self.HEALTHZ, **changed)
        listener = LoadBalancerService("tcp", 80, 30_080, health_check=there)
        asked = spec(annotations)
        now = chosen(asked, observed(balancer({f"{OURS}namespace": "shop"}, services=(listener,))))
        [found] = with_checks(asked.service, now, ours=True)
        assert found.health_check.http == there.http

    def test_unless_the_owner_or_the_official_ccm_said_otherwise(self) -> None:
        usual = HealthCheck(protocol="tcp", port=30_080)
        assert self.check(spec({"health-check-protocol": "tcp"}, fields=self.LOCAL)) == usual
        assert self.check(spec({}, fields=self.LOCAL), ours=False) == usual
        assert self.check(spec({}, fields={**self.LOCAL, "health_check_node_port": 0})) == usual
        cluster = {**self.LOCAL, "external_traffic_policy": "Cluster"}
        assert self.check(spec({}, fields=cluster)) == usual
