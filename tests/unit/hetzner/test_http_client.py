import os
import ssl
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import requests
import trustme
from packaging.requirements import Requirement
from prometheus_client import CollectorRegistry

from ccm.cloud import CloudUnavailable
from ccm.hetzner.api import ApiMetrics, Budget, HetznerApi, Priority
from ccm.hetzner.api.api_errors import Unavailable
from ccm.hetzner.robot.client import RobotClient
from ccm.hetzner.settings import Secret
from ccm.http_client import EnvironmentAdapter, proxy_for
from tests.http_server import Json, serving


class _Answer(Json, BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(200, None)


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with serving(_Answer, context) as port:
        yield f"https://localhost:{port}"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("no_proxy", raising=False)


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as one:
        one.mount("https://", EnvironmentAdapter())
        yield one


@pytest.fixture
def bundle(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What REQUESTS_CA_BUNDLE names."""
    path = tmp_path / "authorities.pem"
    authority.cert_pem.write_to_path(path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(path))
    return path


def put_authority(authority: trustme.CA, folder: Path, variable: str) -> str:
    """Write the authority as a ConfigMap or a person would, and return the variable's value."""
    folder.mkdir()
    (folder / "README").write_text("not a certificate \xfc")
    (folder / "corporate.crt").write_bytes(authority.cert_pem.bytes())
    return str(folder if variable == "SSL_CERT_DIR" else folder / "corporate.crt")


@pytest.mark.parametrize(
    "variable", ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", None]
)
async def test_variables_mean_the_same_for_all_clients(
    variable: str | None, authority: trustme.CA, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv(variable, put_authority(authority, tmp_path / "ca", variable))
    # No proxy for the loopback, whatever is set.
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    trusted: dict[str, bool] = {}
    api = open_api(server)
    with pytest.raises(Unavailable) as error:
        await api.request("POST", "/x", priority=Priority.NODES)  # is not repeated
    trusted["cloud"] = "TLS" not in str(error.value)
    robot = RobotClient(server, Secret("me"), Secret("secret"))
    with pytest.raises(CloudUnavailable) as refusal:
        await robot.server(7)
    trusted["robot"] = "can't be decoded" in str(refusal.value)
    await robot.close()
    await api.close()
    assert trusted == dict.fromkeys(trusted, variable is not None)


def open_api(endpoint: str) -> HetznerApi:
    metrics = ApiMetrics(CollectorRegistry())
    return HetznerApi(
        token=lambda: "t" * 64, endpoint=endpoint, metrics=metrics, budget=Budget(), jitter=lambda: 0.0
    )


async def test_the_proxy_is_asked_for_by_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = set()

    class Proxy(Json, BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            asked.add(self.path)
            self.send_error(502)

    with serving(Proxy) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        robot = RobotClient("https://robot.example", Secret("me"), Secret("secret"))
        with pytest.raises(CloudUnavailable):
            await robot.server(7)
        await robot.close()
        api = open_api("https://api.example/v1")
        with pytest.raises(Unavailable):
            await api.request("POST", "/x", priority=Priority.NODES)  # is not repeated
        await api.close()
    assert asked == {"robot.example:443", "api.example:443"}


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("https://a.example", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.example", {"https_proxy": "p:1"}, "http://p:1"),
        ("http://a.example", {"HTTPS_PROXY": "http://p:1"}, None),
        ("http://a.example", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("http://a.example", {"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, None),
        ("https://a.example", {"ALL_PROXY": "http://p:1"}, None),
        ("https://localhost:8443", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://[::1]:8443", {"HTTPS_PROXY": "http://p:1"}, None),
    ],
)
def test_the_proxy_of_an_address(url: str, environment: dict[str, str], proxy: str | None) -> None:
    assert proxy_for(url, environment) == proxy


@pytest.mark.parametrize(
    ("url", "no_proxy", "excepted"),
    [
        ("https://api.hetzner.cloud/v1", "*", True),
        ("https://api.hetzner.cloud/v1", "hetzner.cloud", True),
        ("https://api.hetzner.cloud/v1", "x, .hetzner.cloud", True),
        ("https://api.hetzner.cloud/v1", "*.hetzner.cloud", True),
        ("https://hetzner.cloud/v1", ".hetzner.cloud", False),
        ("https://nothetzner.cloud/v1", "hetzner.cloud", False),
        ("https://API.hetzner.cloud/v1", "Hetzner.Cloud:443", True),
        ("https://api.hetzner.cloud/v1", "hetzner.cloud:8443", False),
        ("https://10.1.2.3/", "10.0.0.0/8", True),
        ("https://10.1.2.3/", "10.1.2.3", True),
        ("https://10.1.2.3/", "10.1.2.0/255.255.255.0,10.1.2.3/99,1,", False),
        ("https://[fd00::1]/", "fd00::/8", True),
        ("https://[fd00::1]:444/", "[fd00::1]:444", True),
        ("https://[::ffff:10.1.2.3]/", "10.0.0.0/8", True),
    ],
)
def test_no_proxy_as_in_go(url: str, no_proxy: str, *, excepted: bool) -> None:
    """As golang.org/x/net/http/httpproxy of 0.58.0 answers for these."""
    environment = {"HTTPS_PROXY": "http://p:1", "NO_PROXY": no_proxy}
    assert (proxy_for(url, environment) is None) is excepted


@pytest.mark.usefixtures("bundle")
def test_a_certificate_for_another_name_is_refused(session: requests.Session, server: str) -> None:
    with pytest.raises(requests.exceptions.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        session.get(server.replace("localhost", "127.0.0.1"), timeout=60)


def test_the_bundle_is_read_only_once(session: requests.Session, server: str, bundle: Path) -> None:
    stamp = bundle.stat()
    assert session.get(server, headers={"Connection": "close"}, timeout=60).ok
    # A second read would find no trusted authority.
    bundle.write_bytes(trustme.CA().cert_pem.bytes())
    os.utime(bundle, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert session.get(server, headers={"Connection": "close"}, timeout=60).ok


def test_a_changed_bundle_takes_effect_at_once(session: requests.Session, server: str, bundle: Path) -> None:
    assert session.get(server, timeout=60).ok
    bundle.write_bytes(trustme.CA().cert_pem.bytes())
    os.utime(bundle, ns=(1, 1))
    with pytest.raises(requests.exceptions.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        session.get(server, timeout=60)


def test_a_missing_bundle_is_an_error_of_tls(session: requests.Session, server: str, bundle: Path) -> None:
    bundle.write_text("no certificate")
    with pytest.raises(requests.exceptions.SSLError, match="NO_CERTIFICATE"):
        session.get(server, timeout=60)


def test_no_requests_is_accepted_that_would_never_ask_whom_we_trust() -> None:
    """2.32.3 is the first that asks; with an older one, which hcloud takes, no bundle would count."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    named = {one.name: one.specifier for one in map(Requirement, project["dependencies"])}
    assert not named["requests"].contains("2.32.2")
