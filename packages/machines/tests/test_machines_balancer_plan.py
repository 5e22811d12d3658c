import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import HealthCheck as Health
from hypothesis import given, settings
from hypothesis import strategies as st

from hetzner_emulator.backend import HealthCheck, LoadBalancerService, LoadBalancerSpec, LoadBalancerTarget
from hetzner_machines.balancer import config, health

PLACES = config.Places("/run/s", "/state/health", "/state/certificates")

words = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
names = st.text(alphabet="abcXYZ019'\"#$%\\{}/.-_", min_size=1, max_size=20)
checks = st.builds(
    HealthCheck,
    st.sampled_from(["tcp", "http"]),
    st.integers(1, 65535),
    st.integers(3, 60),
    st.integers(1, 60),
    st.integers(1, 5),
    st.none() | names,
    names.map(lambda text: "/" + text),
    st.just("") | words,
    st.lists(st.text(alphabet="012345?*", min_size=1, max_size=3), min_size=1, max_size=4).map(tuple),
    st.booleans(),
)
services = st.builds(
    LoadBalancerService,
    st.sampled_from(["tcp", "http"]),
    st.integers(1, 65535),
    st.integers(1, 65535),
    st.booleans(),
    checks,
    st.booleans(),
    st.text(alphabet="abcXYZ019_-", min_size=1, max_size=100),
    st.integers(30, 86400),
    st.integers(30, 300),
    st.booleans(),
)
targets = st.lists(st.ip_addresses(v=4).map(str), unique=True, max_size=4).map(
    lambda found: tuple(LoadBalancerTarget(address, True, None) for address in found)
)
specs = st.builds(
    LoadBalancerSpec,
    st.just(1),
    names,
    st.booleans(),
    st.just("203.0.113.9"),
    st.just(""),
    st.just(()),
    st.sampled_from(["round_robin", "least_connections"]),
    st.just(10000),
    st.lists(services, max_size=3, unique_by=lambda s: s.listen_port).map(tuple),
    targets,
)


def one(service: LoadBalancerService, *addresses: str) -> str:
    members = tuple(LoadBalancerTarget(address, True, 1) for address in addresses)
    spec = LoadBalancerSpec(1, "lb", True, "203.0.113.9", "", (), "round_robin", 10000, (service,), members)
    return config.render(spec, PLACES, 5000)


TCP = LoadBalancerService("tcp", 80, 30080, False, HealthCheck("tcp", 30080, 15, 10, 3))


@pytest.mark.slow  # by then ./dev test has installed haproxy
@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")
@settings(suppress_health_check=[Health.function_scoped_fixture])
@given(spec=specs)
def test_haproxy_accepts_all_configurations_of_the_api(spec, tmp_path):
    file = tmp_path / "haproxy.cfg"
    (tmp_path / "health").touch()
    places = config.Places(str(tmp_path / "s"), str(tmp_path / "health"), str(tmp_path))
    file.write_text(config.render(spec, places, 1000))
    done = subprocess.run(["haproxy", "-c", "-q", "-f", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + file.read_text()


@pytest.mark.parametrize(("port", "words"), [(30080, "send-proxy check-send-proxy"), (30081, "send-proxy")])
def test_checks_of_the_services_port_use_the_proxy_protocol(port, words):
    check = HealthCheck("tcp", port, 15, 10, 3)
    service = LoadBalancerService("tcp", 80, 30080, proxyprotocol=True, health_check=check)
    assert one(service, "10.0.0.2").rstrip().endswith(words)


def secure(listen: int, **changes) -> LoadBalancerService:
    check = HealthCheck("tcp", 1, 15, 10, 3)
    return LoadBalancerService("https", listen, 1, False, check, certificates=("a", "b"), **changes)


def test_https_has_its_certificates_and_redirects_http():
    text = one(secure(443, redirect_http=True))
    crt = "crt '/state/certificates/443-0.pem' crt '/state/certificates/443-1.pem'"
    assert f"bind *:443 ssl alpn h2,http/1.1 {crt}\n" in text
    assert "redirect scheme https code 301" in text
    assert "redirect" not in one(secure(443))
    assert "%[var(txn.host)]:8443" in one(secure(8443, redirect_http=True))
    assert "frontend" not in one(replace(secure(443), certificates=())), "it waits for a certificate"


def test_a_service_at_port_80_is_not_covered_by_a_redirect():
    both = (TCP, secure(443, redirect_http=True))
    spec = LoadBalancerSpec(1, "lb", True, "203.0.113.9", "", (), "round_robin", 10, both)
    assert "redirect" not in config.render(spec, PLACES, 5000)
    assert config.certificates(spec) == {"443-0.pem": "a", "443-1.pem": "b"}


STAT = """\
# pxname,svname,status,check_status,check_code,
port-80,FRONTEND,OPEN,,,
service-80,target-10.0.0.2,UP,L4OK,,
service-80,target-10.0.0.3,DOWN,* L4CON,,
service-80,target-10.0.0.4,UP,INI,,
service-80,target-10.0.0.5,UP 1/3,L7OK,200,
service-81,target-10.0.0.2,DOWN,L7STS,503,
service-81,target-10.0.0.3,DOWN 1/3,L7OK,200,
service-80,BACKEND,UP,,,
"""


def test_health_of_checked_targets():
    seen = health.parse(STAT)
    assert health.by_target(seen, ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"], [80, 81]) == {
        ("10.0.0.2", 80): "healthy",
        ("10.0.0.3", 80): "unhealthy",
        ("10.0.0.5", 80): "healthy",
        ("10.0.0.2", 81): "unhealthy",
        ("10.0.0.3", 81): "unhealthy",
    }
    assert health.by_target(health.failures(STAT), ["10.0.0.2", "10.0.0.3", "10.0.0.5"], [80, 81]) == {
        ("10.0.0.3", 80): ("layer4_no_connection", None),
        ("10.0.0.2", 81): ("unexpected_http_status", 503),
        ("10.0.0.3", 81): ("unspecified", None),
    }
    assert health.parse("") == health.failures("") == {}
