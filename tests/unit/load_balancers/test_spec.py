from dataclasses import replace
from typing import Any

import pytest
from desired_cases import NO_DEFAULTS, spec
from service_view import UID, view

from ccm.cloud import ServicePort
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.spec.annotation_table import (
    SETTINGS,
    TABLE,
    CertificateSpec,
    HealthCheckSpec,
    PortSpec,
)
from ccm.hetzner.load_balancers.spec.load_balancer_spec import MAX_PORTS, LoadBalancerSpec, read
from ccm.hetzner.load_balancers.spec.selector import Requirement, Selector
from ccm.hetzner.settings import environment
from tests.annotation_examples import EXAMPLES


def test_nothing() -> None:
    found = spec({}, fields={"uid": "e1b2c3d4"})
    assert found == LoadBalancerSpec(
        service=found.service,
        name="ae1b2c3d4",
        location="",
        network_zone="",
        use_private_ip=False,
        private_ipv4="",
        ip_range="",
        private_ingress=True,
        ipv6=True,
        hostname="",
        nodes=Selector(),
        adopt="",
        share="",
        preserve_foreign=False,
        labels={},
        settings={"algorithm": "round_robin"},
        ports={80: PortSpec()},
        problems={},
        warnings={},
    )
    assert found.service == view("web", 80, uid="e1b2c3d4")
    assert found.asked == frozenset()
    assert not found.has_placement
    assert not found.is_unservable
    assert (found.problems, found.warnings) == ({}, {})


EVERYTHING = {key.name: EXAMPLES[key.name] for key in TABLE if not (key.port or key.inert)} | {"type": "LB21"}


def test_everything() -> None:
    found = spec(EVERYTHING)
    nothing = spec({})
    assert found == replace(
        nothing,
        name="shop",
        location="nbg1",
        use_private_ip=True,
        private_ipv4="10.0.0.9",
        ip_range="10.0.1.0/24",
        private_ingress=False,
        ipv6=False,
        hostname="shop.example.com",
        nodes=Selector((Requirement("pool", "in", frozenset({"edge"})),)),
        adopt="4711",
        share="edge",
        preserve_foreign=True,
        labels={"team": "shop"},
        settings={
            "name": "shop",
            "type": "lb21",
            "algorithm": "least_connections",
            "public": False,
            "ipv4": "four.example.com",
            "ipv6": "six.example.com",
            "protection": True,
        },
        primary_ips={"ipv4": "4711", "ipv6": "shop-v6"},
        warnings=found.warnings,
    )
    assert found.asked == found.settings.keys() == SETTINGS.keys()
    assert found.has_placement


NO_PUBLIC = f"{PREFIX}disable-public-network or HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK"


def test_why_a_status_would_have_no_address() -> None:
    hidden, off = {"disable-private-ingress": "true"}, {"disable-public-network": "true"}
    named = {**hidden, **off, "hostname": "a.example"}
    assert [spec(one).why_no_address(network=True) for one in ({}, hidden, off, named)] == [""] * 4
    for asked, network, other in ((off, False, "HCLOUD_NETWORK"), ({**hidden, **off}, True, "hostname")):
        why = spec(asked).why_no_address(network=network)
        assert (f"because {NO_PUBLIC} " in why, other in why) == (True, True)


def test_primary_ips_that_no_load_balancer_can_have() -> None:
    four, six = f"{PREFIX}public-net-ipv4", f"{PREFIX}public-net-ipv6"
    asked = {"public-net-ipv4": "shop", "public-net-ipv6": "other"}
    assert spec(asked).primary_ip_problems() == {}
    twice = spec({**asked, "public-net-ipv6": "shop"}).primary_ip_problems()
    assert twice == {
        key: f"{key}: 'shop' can't be both an IPv4 address and an IPv6 address" for key in (four, six)
    }
    off = spec({"public-net-ipv4": "shop", "disable-public-network": "true"}).primary_ip_problems()
    assert off == {four: f"{four}: 'shop' needs the public network, which {NO_PUBLIC} disables"}


@pytest.mark.parametrize(
    ("key", "variable"),
    [("delete-protection", "CCM_PROTECTION_NAMESPACES"), ("private-ipv4", "CCM_PRIVATE_IPV4_NAMESPACES")],
)
def test_what_an_operator_allows_some_namespaces(key: str, variable: str) -> None:
    def found(allowed: str) -> LoadBalancerSpec:
        defaults = environment.read({"HCLOUD_TOKEN": "t" * 64, variable: allowed}).load_balancers
        service = view(annotations={key: EXAMPLES[key], "hostname": "a.example"})
        return read(service, defaults, network=True)

    refused, name = found("other"), PREFIX + key
    assert refused.warnings == {name: f"{name}: {variable} doesn't allow this annotation in namespace 'shop'"}
    assert (refused.hostname, refused.private_ipv4, "protection" in refused.settings) == (
        "a.example",
        "",
        False,
    )
    allowed = found("other, shop")
    assert (bool(allowed.private_ipv4 or allowed.settings["protection"]), allowed.warnings) == (True, {})


def test_what_needs_a_network_without_one() -> None:
    found = spec(EVERYTHING, network=False)
    name = f"{PREFIX}use-private-ip"
    assert (found.use_private_ip, found.private_ipv4) == (False, "")
    assert found.problems == {name: f"{name}: 'true' requires a private network. Set HCLOUD_NETWORK"}
    assert not spec({"use-private-ip": "false"}, network=False).problems


@pytest.mark.parametrize(
    ("annotations", "variables", "site"),
    [
        ({"network-zone": "us-east"}, {}, ("", "us-east")),
        ({"network-zone": "us-east"}, {"LOCATION": "fsn1"}, ("fsn1", "")),
        ({}, {"NETWORK_ZONE": "us-east"}, ("", "us-east")),
        ({"location": ""}, {"LOCATION": "fsn1"}, ("", "")),
        ({"location": ""}, {"NETWORK_ZONE": "us-east"}, ("", "us-east")),
        ({"location": "x" * 64}, {"NETWORK_ZONE": "us-east"}, ("", "")),
        ({"location": "x" * 64, "network-zone": "us-east"}, {}, ("", "us-east")),
        ({"location": "nbg1", "network-zone": "us-east"}, {}, ("nbg1", "")),
    ],
)
def test_where_it_is_made(
    annotations: dict[str, str], variables: dict[str, str], site: tuple[str, str]
) -> None:
    found = spec(annotations, **variables)
    assert (found.location, found.network_zone) == site
    assert found.has_placement is any(site)


def test_a_default_of_the_environment_is_asked_for_too() -> None:
    found = spec({}, ALGORITHM_TYPE="least_connections", HEALTH_CHECK_RETRIES="2", USES_PROXYPROTOCOL="true")
    assert found.asked == {"algorithm"}
    assert found.ports == {80: PortSpec(proxyprotocol=True, check=HealthCheckSpec(retries=2, chosen=False))}
    assert found.ports[80].asked == {"proxyprotocol"}
    check = found.ports[80].check
    assert check is not None
    assert check.asked == {"retries"}


class TestPorts:
    def test_only_tcp_and_the_first_so_many_count(self) -> None:
        udp = ServicePort(1, 30_001, "UDP")
        found = spec({}, udp, *range(1000, 1002 + MAX_PORTS))
        assert list(found.ports) == [*range(1000, 1000 + MAX_PORTS)]
        assert not found.is_unservable
        assert spec({}, udp).is_unservable

    def test_http(self) -> None:
        found = spec(
            {
                "protocol": "http",
                "uses-proxyprotocol": "true",
                "http-cookie-name": "MINE",
                "http-cookie-lifetime": "10m",
                "http-timeout-idle": "60",
                "http-sticky-sessions": "true",
                "http-redirect-http": "true",
                "http-certificates": "shop",
            }
        )
        assert found.problems == {}
        assert found.ports == {
            80: PortSpec(
                protocol="http",
                proxyprotocol=True,
                cookie_name="MINE",
                cookie_lifetime=600,
                timeout_idle=60,
                sticky_sessions=True,
            )
        }
        assert found.ports[80].asked == {
            *("protocol", "proxyprotocol", "cookie_name", "cookie_lifetime"),
            *("timeout_idle", "sticky_sessions", "redirect_http"),
        }

    def test_https_with_certificates_that_are_there(self) -> None:
        annotations = {"protocol": "https", "http-redirect-http": "true", "http-certificates": "shop,4711"}
        assert spec(annotations).ports[80] == PortSpec(
            protocol="https", redirect_http=True, certificates=CertificateSpec(uploaded=("shop", "4711"))
        )

    def test_https_with_a_managed_certificate(self) -> None:
        annotations = {"protocol": "https", "certificate-type": "managed", "http-certificates": "shop"}
        domains = {"http-managed-certificate-domains": "b.example,a.example"}
        named = {"http-managed-certificate-name": "mine", "http-managed-certificate-acme-staging": "true"}
        usual = CertificateSpec(domains=("b.example", "a.example"), name=f"ccm-managed-certificate-{UID}")
        assert spec({**annotations, **domains}).ports[80].certificates == usual
        assert spec({**annotations, **domains, **named}).ports[80].certificates == replace(
            usual, name="mine", staging=True
        )
        own = {"port.80.http-timeout-idle": "60"}
        assert spec({**annotations, **domains, **own}).ports[80].certificates == usual
        assert spec({**annotations, **domains}).problems == {}
        name = f"{PREFIX}http-managed-certificate-domains"
        assert spec(annotations).problems == {
            name: f"{name}: '' is missing, but a managed certificate requires domains"
        }


class TestChecks:
    @pytest.mark.parametrize(
        ("annotations", "check", "asked"),
        [
            (
                {"interval": "5", "timeout": "5"},
                HealthCheckSpec(interval=5, timeout=5, chosen=False),
                "interval timeout",
            ),
            ({"timeout": "15"}, HealthCheckSpec(timeout=15, chosen=False), "timeout"),
            ({"interval": "9"}, HealthCheckSpec(interval=9, timeout=9, chosen=False), "interval"),
            ({"retries": "5"}, HealthCheckSpec(retries=5, chosen=False), "retries"),
            ({"port": "8080"}, HealthCheckSpec(port=8080), ""),
            ({"protocol": "tcp"}, HealthCheckSpec(), ""),
            ({"protocol": "http"}, HealthCheckSpec(protocol="http"), ""),
            ({"protocol": "https"}, HealthCheckSpec(protocol="http", tls=True), "tls"),
            (
                {
                    "protocol": "http",
                    "http-domain": "a.example",
                    "http-path": "/up",
                    "http-validate-certificate": "1",
                },
                HealthCheckSpec(protocol="http", domain="a.example", path="/up", tls=True),
                "domain path tls",
            ),
        ],
    )
    def test_of_a_port_that_passes_on(
        self, annotations: dict[str, str], check: HealthCheckSpec, asked: str
    ) -> None:
        found = spec({f"health-check-{key}": text for key, text in annotations.items()})
        assert found.ports == {80: PortSpec(check=check)}
        assert found.ports[80].check.asked == {*asked.split()}  # type: ignore[union-attr]
        assert found.ports[80].asked == frozenset()
        assert found.problems == {}

    def test_status_codes(self) -> None:
        found = spec({"health-check-protocol": "http", "http-status-codes": "204"}).ports[80].check
        assert found == HealthCheckSpec(protocol="http", status_codes=("204",))
        assert found.asked == {"status_codes"}

    def test_a_timeout_that_is_longer_than_the_interval_is_as_long(self) -> None:
        found = spec({"health-check-interval": "5", "port.80.health-check-timeout": "6"})
        assert found.ports[80].check == HealthCheckSpec(interval=5, timeout=5, chosen=False)
        name = f"{PREFIX}port.80.health-check-timeout"
        assert found.problems == {name: f"{name}: '6' is longer than the interval of 5 seconds"}
        assert not spec({"health-check-interval": "5"}, HEALTH_CHECK_TIMEOUT="6s").problems


def warnings_of(annotations: dict[str, str], *ports: int | ServicePort, **more: Any) -> dict[str, str]:
    """What is said, by key, without the prefix."""
    found = spec(annotations, *ports, **more).warnings
    assert all(text.startswith(f"{name}: ") for name, text in found.items())
    return {
        name.removeprefix(PREFIX): text.removeprefix(f"{name}: ").replace(PREFIX, "~")
        for name, text in found.items()
    }


HTTP = "has no effect, because this key requires the protocol http or https"
HTTPS = "has no effect, because this key requires the protocol https"
CHECKED = "has no effect, because this key requires an HTTP health check"
SHARED = "has no effect on a shared load balancer, because all its Services have the same targets"
ADOPTED = "has no effect together with ~adopt, because the load balancer keeps its addresses"
ALONE = "has no effect without a private network. Set HCLOUD_NETWORK"
LOCATED = (
    "has no effect, because HCLOUD_LOAD_BALANCERS_LOCATION is fsn1, and a location takes precedence. To use "
    'the network zone, set the annotation ~location to ""'
)
PRIVATE = {"private-ipv4": "10.0.0.9", "private-subnet-ip-range": "10.0.0.0/24", "hostname": "a.example"}
IN_FSN1 = {"LOCATION": "fsn1"}


class TestWithoutEffect:
    @pytest.mark.parametrize(
        ("key", "text", "why"),
        [
            *((key, "60", HTTP) for key in ("http-cookie-name", "http-cookie-lifetime", "http-timeout-idle")),
            ("http-sticky-sessions", "true", HTTP),
            ("http-redirect-http", "true", HTTPS),
            ("http-certificates", "shop", HTTPS),
            ("certificate-type", "managed", HTTPS),
            ("health-check-http-domain", "a.example", CHECKED),
            ("health-check-http-path", "/up", CHECKED),
            ("health-check-http-validate-certificate", "true", CHECKED),
            ("http-status-codes", "200", CHECKED),
        ],
    )
    def test_what_needs_http(self, key: str, text: str, why: str) -> None:
        assert warnings_of({key: text}) == {key: why}
        assert warnings_of({f"port.80.{key}": text}, 80, 443) == {f"port.80.{key}": why}
        needed = {
            HTTP: {"protocol": "http"},
            HTTPS: {"protocol": "https"},
            CHECKED: {"health-check-protocol": "http"},
        }[why]
        elsewhere = {f"port.443.{one}": value for one, value in needed.items()}
        assert warnings_of({key: text, **elsewhere}, 80, 443) == {}
        assert warnings_of({f"port.80.{key}": text, **elsewhere}, 80, 443) == {f"port.80.{key}": why}
        domains = {"http-managed-certificate-domains": "a.example"} if text == "managed" else {}
        assert warnings_of({f"port.443.{key}": text, **elsewhere, **domains}, 80, 443) == {}

    @pytest.mark.parametrize(
        ("key", "why"),
        [
            ("http-path", "there is no such annotation; did you mean ~health-check-http-path?"),
            ("algorithm", "there is no such annotation; did you mean ~algorithm-type?"),
            ("Algorithm_Type", "there is no such annotation; did you mean ~algorithm-type?"),
            ("zzz", "there is no such annotation"),
            ("x" * 81, "there is no such annotation"),
            ("location" + "x" * 72, "there is no such annotation"),
            (
                "port.80.location",
                "applies to the whole load balancer, so the key can't contain a port. Use ~location",
            ),
            ("port.80.protocl", "there is no such annotation; did you mean ~port.80.protocol?"),
            ("port.81.protocl", "there is no such annotation; did you mean ~port.81.protocol?"),
            ("port.81.protocol", "the Service has no port 81 (its ports: 80, 443)"),
            ("port.x.protocol", "the Service has no port x (its ports: 80, 443)"),
            (
                "port.123456789012345678901.protocol",
                "the Service has no port 12345678901234567890 (its ports: 80, 443)",
            ),
            (
                "port.x.location",
                "applies to the whole load balancer, so the key can't contain a port. Use ~location",
            ),
            ("port.x.protocl", "there is no such annotation; did you mean ~port.x.protocol?"),
        ],
    )
    def test_keys_that_are_none(self, key: str, why: str) -> None:
        assert warnings_of({key: "http"}, 443, 80, 443) == {key: why}

    def test_a_service_without_ports(self) -> None:
        service = replace(view(annotations={"port.80.protocol": "http"}), ports=())
        [text] = read(service, NO_DEFAULTS, network=True).warnings.values()
        assert text == f"{PREFIX}port.80.protocol: the Service has no port 80 (its ports: none)"

    @pytest.mark.parametrize(
        ("annotations", "more", "why"),
        [
            ({"node-selector": "a=b", "share": "edge"}, {}, {"node-selector": SHARED}),
            ({"node-selector": "a=b"}, {}, {}),
            ({"share": "edge"}, {}, {}),
            ({"public-net-ipv4": "shop", "adopt": "4711"}, {}, {"public-net-ipv4": ADOPTED}),
            ({"public-net-ipv4": "shop"}, {}, {}),
            ({"name": "shop", "adopt": "4711"}, {}, {}),
            (PRIVATE, {"network": False}, dict.fromkeys(("private-ipv4", "private-subnet-ip-range"), ALONE)),
            (PRIVATE, {}, {}),
            ({"network-zone": "us-east"}, IN_FSN1, {"network-zone": LOCATED}),
            ({"network-zone": "us-east", "location": ""}, IN_FSN1, {}),
            ({"network-zone": "us-east", "location": "ash"}, IN_FSN1, {}),
            ({"network-zone": "us-east"}, {}, {}),
            ({"type": "lb21"}, IN_FSN1, {}),
        ],
    )
    def test_what_does_not_fit_to_the_rest(
        self, annotations: dict[str, str], more: dict[str, Any], why: dict[str, str]
    ) -> None:
        assert warnings_of(annotations, **more) == why


class TestUnsupported:
    @pytest.mark.parametrize(
        ("ports", "why"),
        [
            (("53/UDP", "80"), "the load balancer doesn't forward these ports: 53/UDP"),
            (("53/UDP", "54/SCTP"), "the CCM creates no load balancer for these ports: 53/UDP, 54/SCTP"),
        ],
    )
    def test_other_protocols(self, ports: tuple[str, ...], why: str) -> None:
        several = [port.partition("/") for port in ports]
        found = spec({}, *(ServicePort(int(one), 30_000, other or "TCP") for one, _, other in several))
        [notice] = found.unsupported
        assert notice.reason == "UnsupportedProtocolConfigured"
        assert notice.message == f"Hetzner load balancers support only TCP, so {why}"

    def test_ports_that_no_node_has(self) -> None:
        found = spec({}, 80, ServicePort(81, 0), ServicePort(53, 0, "UDP"))
        _, notice = found.unsupported
        assert notice.reason == "NodePortMissing"
        assert notice.message == (
            "a load balancer can't reach ports without a node port: 81. Don't set "
            "allocateLoadBalancerNodePorts to false"
        )

    @pytest.mark.parametrize(
        ("fields", "what"),
        [
            (
                {"source_ranges": ("10.0.0.0/8",) * 7},
                f"loadBalancerSourceRanges ({', '.join(['10.0.0.0/8'] * 5)} and 2 more)",
            ),
            ({"load_balancer_ip": "1" * 90}, f"loadBalancerIP ({'1' * 80})"),
            ({"session_affinity": "ClientIP"}, "sessionAffinity (ClientIP)"),
            (
                {"load_balancer_ip": "1.2.3.4", "session_affinity": "ClientIP"},
                "loadBalancerIP (1.2.3.4); sessionAffinity (ClientIP)",
            ),
        ],
    )
    def test_fields(self, fields: dict[str, Any], what: str) -> None:
        self.expect(view(**fields), what)

    def test_source_ranges_in_an_annotation(self) -> None:
        name = "service.beta.kubernetes.io/load-balancer-source-ranges"
        self.expect(
            replace(view(), annotations={name: " 10.0.0.0/8 " + "x" * 90}), f"{name} (10.0.0.0/8 {'x' * 68})"
        )

    def test_an_operator_has_them_refused_rather_than_let_everybody_in(self) -> None:
        given = {"HCLOUD_TOKEN": "t" * 64, "CCM_REFUSE_SOURCE_RANGES": "true"}
        defaults = environment.read(given).load_balancers
        limited = read(view(source_ranges=("10.0.0.0/8",)), defaults, network=True)
        [(name, text)] = limited.problems.items()
        assert (name, "CCM_REFUSE_SOURCE_RANGES is set" in text) == ("loadBalancerSourceRanges", True)
        for service in (view(), view(source_ranges=("0.0.0.0/0",))):
            assert not read(service, defaults, network=True).problems

    @staticmethod
    def expect(service: Any, what: str) -> None:
        found = read(service, NO_DEFAULTS, network=True)
        [notice] = found.unsupported
        assert (notice.reason, found.problems) == ("UnsupportedFieldConfigured", {})
        assert (
            notice.message
            == f"these fields have no effect, because Hetzner load balancers don't support them: {what}"
        )

    def test_the_clients_address(self) -> None:
        def hidden(**annotations: str) -> list[tuple[str, bool]]:
            service = view("web", 81, 80, annotations=annotations, external_traffic_policy="Local")
            found = read(service, NO_DEFAULTS, network=True).unsupported
            assert {one.reason for one in found} <= {"ClientAddressHidden"}
            return [(one.message.partition(",")[0], one.warning) for one in found]

        seen = "For connections to port"
        assert hidden() == [(f"{seen} 80", False)]
        assert hidden(**{"uses-proxyprotocol": "true"}) == hidden(protocol="http") == []
        assert hidden(**{"port.80.protocol": "http"}) == [(f"{seen} 81", False)]

    def test_what_is_usual(self) -> None:
        assert spec({}).unsupported == ()
        assert read(view(ip_families=("IPv6", "IPv4")), NO_DEFAULTS, network=True).unsupported == ()
        [notice] = read(view(ip_families=("IPv6",)), NO_DEFAULTS, network=True).unsupported
        assert (notice.reason, "PreferDualStack" in notice.message) == ("IPFamilyUnsupported", True)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *(("http-cookie-lifetime", text) for text in ("5s", "29.9s", "86401.5s")),
        ("http-timeout-idle", "10"),
        ("algorithm-type", "random"),
        ("health-check-interval", "2"),
        ("health-check-timeout", "61s"),
        ("health-check-retries", "6"),
        ("health-check-port", "70000"),
        ("hostname", "10.0.0.1"),
        ("node-selector", "," * 20_000),
        ("http-certificates", ",".join(map(str, range(101)))),
        ("name", "x" * 129),
    ],
)
def test_bounds_of_each_key(key: str, text: str) -> None:
    context = {"protocol": "https"} if "certificate" in key else {}
    [problem] = spec({**context, key: text}).problems.values()
    assert problem.startswith(f"{PREFIX}{key}: '{text[:70]}")
    assert " is not " in problem
