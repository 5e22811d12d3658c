"""Annotations: what is wrong is named with what would be right, and the environment fills in."""

from __future__ import annotations

import pytest
from service_view import view

from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.spec.load_balancer_spec import LoadBalancerSpec, read
from ccm.hetzner.settings import environment

CONTEXT = {"protocol": "https", "certificate-type": "managed"}


def spec(
    annotations: dict[str, str], *ports: int, network: bool = True, **variables: str
) -> LoadBalancerSpec:
    names = {f"HCLOUD_LOAD_BALANCERS_{key}": value for key, value in variables.items()}
    defaults = environment.read({"HCLOUD_TOKEN": "t" * 64, "HCLOUD_NETWORK": "net", **names}).load_balancers
    return read(view("web", *(ports or (80,)), annotations=annotations), defaults, network=network)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("http-cookie-lifetime", "5s"),
        ("http-cookie-lifetime", "29.9s"),
        ("http-cookie-lifetime", "86401.5s"),
        ("http-timeout-idle", "10"),
        ("http-sticky-sessions", "yes"),
        ("protocol", "udp"),
        ("algorithm-type", "random"),
        ("health-check-interval", "2"),
        ("health-check-interval", "never"),
        ("health-check-timeout", "61s"),
        ("health-check-retries", "6"),
        ("health-check-retries", "-1"),
        ("health-check-port", "70000"),
        ("http-status-codes", "20"),
        ("http-status-codes", "2*00"),
        ("http-status-codes", ",".join(["200"] * 1 + [str(code) for code in range(300, 321)])),
        ("private-ipv4", "10.0.0.300"),
        ("private-subnet-ip-range", "10.0.0.0/40"),
        ("hostname", "no spaces here"),
        ("ipv4-rdns", "-"),
        ("node-selector", "pool in edge"),
        ("node-selector", "," * 20_000),
        ("node-selector", ",".join(f"!x{number}" for number in range(33))),
        ("http-managed-certificate-domains", ",".join(f"{number}.example" for number in range(101))),
        ("http-certificates", ",".join(map(str, range(101)))),
        ("labels", ",".join(f"a{number}=b" for number in range(101))),
        ("hostname", "*.example.com"),
        ("hostname", "10.0.0.1"),
        ("hostname", "010.1.2.3"),
        ("share", "a b"),
        ("delete-protection", "maybe"),
        ("name", "x" * 129),
    ],
)
def test_what_is_wrong_is_named_with_key_value_and_what_is_allowed(key: str, text: str) -> None:
    context = CONTEXT if "certificate" in key and key != "http-certificates" else {"protocol": "https"}
    context = context if "certificate" in key else {}
    [problem] = spec({**context, key: text}).problems.values()
    assert problem.startswith(f"{PREFIX}{key}: '{text[:70]}")
    assert " is not " in problem


class TestHealthChecks:
    """As in the official CCM: hcops/load_balancer.go, extractHealthCheck."""

    def test_https_is_http_with_tls(self) -> None:
        check = spec({"health-check-protocol": "https"}).ports[80].check
        assert check is not None
        assert (check.protocol, check.tls) == ("http", True)

    def test_defaults_of_the_environment(self) -> None:
        check = (
            spec({"health-check-retries": "5"}, HEALTH_CHECK_INTERVAL="7s", HEALTH_CHECK_RETRIES="2")
            .ports[80]
            .check
        )
        assert check is not None
        assert (check.interval, check.retries, check.protocol) == (7, 5, "tcp")


class TestEnvironment:
    def test_annotations_win(self) -> None:
        found = spec(
            {
                "type": "LB31",
                "algorithm-type": "round_robin",
                "disable-public-network": "false",
                "location": "hel1",
            },
            TYPE="lb21",
            ALGORITHM_TYPE="least_connections",
            DISABLE_PUBLIC_NETWORK="true",
            NETWORK_ZONE="us-east",
        )
        assert (found.type, found.settings["algorithm"], found.public) == ("lb31", "round_robin", True)
        assert (found.location, found.network_zone) == ("hel1", "")

    def test_it_fills_in(self) -> None:
        found = spec({}, TYPE="lb21", NETWORK_ZONE="us-east", DISABLE_IPV6="true", USE_PRIVATE_IP="true")
        assert (found.type, found.network_zone, found.ipv6, found.use_private_ip) == (
            "lb21",
            "us-east",
            False,
            True,
        )
