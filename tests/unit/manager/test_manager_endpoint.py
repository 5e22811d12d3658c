import asyncio
import json
import os
import socket
import ssl
from functools import partial
from pathlib import Path

import aiohttp
import pytest
import trustme
from manager_flags import parsed
from prometheus_client import CollectorRegistry, Counter

from ccm.errors import ConfigurationError
from ccm.kube.errors import Forbidden
from ccm.manager.serving import Connections, Endpoint, Health
from ccm.manager.serving.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS
from ccm.manager.serving.tls import ServerTls, load_from_memory, make_certificate
from ccm.testing.memory_transport import MemoryTransport
from tests.ports import free_port

CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server() -> MemoryTransport:
    memory = MemoryTransport()

    def token_review(body):
        known = body["spec"]["token"] in {"prometheus", "nobody"}
        return {"status": {"authenticated": known, "user": {"username": body["spec"]["token"]}}}

    memory.answer(TOKEN_REVIEWS, token_review)
    memory.answer(ACCESS_REVIEWS, lambda body: {"status": {"allowed": body["spec"]["user"] == "prometheus"}})
    return memory


@pytest.fixture
def certificate(authority, tmp_path) -> tuple[str, str]:
    return _issue(authority, tmp_path, "server", "127.0.0.1", "localhost")


@pytest.fixture
def tls_flags(certificate) -> list[str]:
    return [f"--tls-cert-file={certificate[0]}", f"--tls-private-key-file={certificate[1]}"]


def _issue(authority: trustme.CA, directory: Path, name: str, *identities: str, **more) -> tuple[str, str]:
    issued = authority.issue_cert(*identities, **more)
    paths = directory / f"{name}.crt", directory / f"{name}.key"
    issued.cert_chain_pems[0].write_to_path(paths[0])
    issued.private_key_pem.write_to_path(paths[1])
    return str(paths[0]), str(paths[1])


def _endpoint(server: MemoryTransport, health: Health | None = None, *arguments: str) -> Endpoint:
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc()
    flags = parsed("--bind-address=127.0.0.1", f"--secure-port={free_port()}", *arguments)
    assert flags.problems == ()
    connections = Connections(server, server, server, server)
    return Endpoint(flags, health or Health(), registry, connections, {"ACME_FILE": "machines.json"})


def _trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def _get(endpoint: Endpoint, path: str, context: ssl.SSLContext, token: str = "", method: str = "GET"):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"https://127.0.0.1:{endpoint.port}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, ssl=context, headers=headers) as answer,
    ):
        return answer.status, await answer.text()


@pytest.fixture
async def get(server, authority, tls_flags):
    health = Health()
    health.add("node", lambda: "not yet")
    async with _endpoint(server, health, *tls_flags) as endpoint:
        yield partial(_get, endpoint, context=_trusting(authority))


async def test_probes_need_no_token(get):
    assert await get("/livez") == (200, "ok")
    status, text = await get("/readyz")
    assert (status, text) == (500, "[+]ping ok\n[-]node failed: reason withheld\nreadyz check failed\n")
    status, text = await get("/healthz?verbose&exclude=node")
    assert status == 200
    assert "[+]node excluded: ok" in text


@pytest.mark.parametrize("path", ["/metrics", "/configz", "/metrics/slis", "/healthz/ping", "/nowhere"])
async def test_everything_else_needs_one(get, path):
    status, text = await get(path)
    assert status == 403
    assert f'User \\"system:anonymous\\" cannot get path \\"{path}\\"' in text
    assert (await get(path, token="unknown"))[0] == 401
    assert (await get(path, token="nobody"))[0] == 403


async def test_metrics_and_configuration(get):
    status, text = await get("/metrics", token="prometheus")
    assert status == 200
    assert "things_total 1.0" in text
    status, text = await get("/configz", token="prometheus")
    assert '"CloudProvider": {"Name": "fake"' in text
    # As k8s.io/cloud-provider 0.37 has it (config/types.go); in 0.36 the period was among KubeCloudShared.
    shown = json.loads(text)["cloudcontrollermanager.config.k8s.io"]
    assert shown["NodeLifecycleController"] == {"NodeMonitorPeriod": "5s", "ConcurrentNodeLifecycleSyncs": 1}
    assert "NodeMonitorPeriod" not in shown["KubeCloudShared"]
    assert '"environment": {"ACME_FILE": "machines.json"}' in text
    status, text = await get("/metrics/slis", token="prometheus")
    assert 'kubernetes_healthcheck{name="node",type="readyz"} 0' in text
    assert await get("/healthz/ping", token="prometheus") == (200, "ok")
    assert await get("/readyz/node", token="prometheus") == (500, "not yet\n")
    assert (await get("/nowhere", token="prometheus"))[0] == 404


async def test_nothing_can_be_written(get):
    assert (await get("/livez", method="POST"))[0] == 405


async def test_an_unreachable_server_means_no_access(get, server):
    server.fail(Forbidden(403, message="the manager may not ask"), times=100)
    assert (await get("/metrics", token="prometheus"))[0] == 500


@pytest.mark.parametrize("from_file", [False, True])
async def test_client_certificates_of_the_cluster_count(server, authority, tls_flags, tmp_path, from_file):
    """A bundle of authorities may have text of any letters between them, as Mozilla's has."""
    clients, trusted = trustme.CA(), tmp_path / "clients.pem"
    bundle = "F\u0151tan\u00fas\u00edtv\u00e1ny\n=====\n" + clients.cert_pem.bytes().decode()
    trusted.write_text(bundle, encoding="utf-8")
    config = {"metadata": {"name": "extension-apiserver-authentication"}, "data": {"client-ca-file": bundle}}
    server.put(CONFIG_MAPS, config)
    server.answer(ACCESS_REVIEWS, lambda body: {"status": {"allowed": body["spec"]["user"] == "me"}})
    arguments = tls_flags + ([f"--client-ca-file={trusted}"] if from_file else [])
    context, stranger = _trusting(authority), _trusting(authority)
    context.load_cert_chain(*_issue(clients, tmp_path, "client", common_name="me"))
    stranger.load_cert_chain(*_issue(trustme.CA(), tmp_path, "stranger", common_name="me"))
    async with _endpoint(server, None, *arguments) as endpoint, asyncio.timeout(60):
        while (await _get(endpoint, "/metrics", context))[0] != 200:  # noqa: ASYNC110 - it learns by itself
            await asyncio.sleep(0.01)
        assert (await _get(endpoint, "/metrics", _trusting(authority)))[0] == 403
        with pytest.raises(aiohttp.ClientError):
            await _get(endpoint, "/metrics", stranger)


async def test_a_rotated_client_authority_is_not_trusted(server, authority, tls_flags, tmp_path, monkeypatch):
    monkeypatch.setattr("ccm.manager.serving.endpoint._LOOK_AGAIN", 0.02)
    old, new = trustme.CA(), trustme.CA()
    trusted = tmp_path / "clients.pem"
    trusted.write_bytes(old.cert_pem.bytes() + new.cert_pem.bytes())
    server.answer(ACCESS_REVIEWS, lambda body: {"status": {"allowed": body["spec"]["user"] == "me"}})
    before, after = _trusting(authority), _trusting(authority)
    before.load_cert_chain(*_issue(old, tmp_path, "before", common_name="me"))
    after.load_cert_chain(*_issue(new, tmp_path, "after", common_name="me"))

    async def status(context: ssl.SSLContext) -> int | None:
        try:
            return (await _get(endpoint, "/metrics", context))[0]
        except aiohttp.ClientError:
            return None

    async with (
        _endpoint(server, None, *tls_flags, f"--client-ca-file={trusted}") as endpoint,
        asyncio.timeout(60),
    ):
        while await status(before) != 200:  # noqa: ASYNC110 - it learns by itself
            await asyncio.sleep(0.01)
        trusted.write_bytes(new.cert_pem.bytes())
        while await status(before) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await status(after) == 200
        trusted.write_text("")
        while await status(after) == 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await status(_trusting(authority)) == 403


def test_authorities_that_make_no_sense_leave_those_in_use(authority, certificate):
    tls = ServerTls(*certificate)
    assert tls.trust_clients(authority.cert_pem.bytes().decode())
    context = tls.context
    with pytest.raises(OSError):
        tls.trust_clients("nonsense")
    assert tls.context is context
    assert not tls.trust_clients(authority.cert_pem.bytes().decode())


async def test_without_a_certificate_one_is_made_for_localhost(server):
    async with _endpoint(server) as endpoint:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        assert (await _get(endpoint, "/livez", context)) == (200, "ok")


async def test_port_in_use_is_one_clear_error(server):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"--secure-port: can't listen on 127.0.0.1 port {port}"):
            async with _endpoint(server, None, f"--secure-port={port}"):
                pass


async def test_port_zero_serves_nothing(server):
    async with _endpoint(server, None, "--secure-port=0") as endpoint:
        assert not endpoint.started.is_set()


def test_certificate_that_changes_to_nonsense_is_an_error(authority, tmp_path):
    pair = _issue(authority, tmp_path, "server", "localhost")
    tls = ServerTls(*pair)
    assert not tls.reload()
    Path(pair[1]).write_text("nonsense")
    os.utime(pair[1], ns=(1, 1))
    with pytest.raises(ConfigurationError, match="can't be used"):
        tls.reload()


def test_made_certificate_is_kept_in_its_directory(tmp_path):
    directory = str(tmp_path / "certificates")
    ServerTls(directory=directory)
    files = {path.name: path.stat() for path in (tmp_path / "certificates").iterdir()}
    assert set(files) == {"cloud-controller-manager.crt", "cloud-controller-manager.key"}
    assert files["cloud-controller-manager.key"].st_mode & 0o777 == 0o600
    ServerTls(directory=directory)
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "certificates").iterdir()} == {
        name: stat.st_mtime_ns for name, stat in files.items()
    }


def test_directory_that_can_not_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="--cert-dir"):
        ServerTls(directory=str(tmp_path / "file" / "x"))


def test_made_certificate_is_good_for_localhost(tmp_path):
    """A client that trusts it accepts it by name and by address."""
    made = make_certificate()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_from_memory(server, made)
    client = ssl.create_default_context(cadata=made.certificate.decode())
    for name in ("localhost", "127.0.0.1"):
        _handshake(client, server, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(client, server, "example.com")


def _handshake(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=name)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (near, far):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


def test_versions_and_ciphers():
    ciphers = ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",)
    context = ServerTls(minimum=ssl.TLSVersion.TLSv1_3, cipher_suites=ciphers).context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    old = [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    assert old == ["ECDHE-RSA-AES128-GCM-SHA256"]


async def test_a_certificate_that_changes_is_get(server, authority, tls_flags, tmp_path, monkeypatch):
    monkeypatch.setattr("ccm.manager.serving.endpoint._LOOK_AGAIN", 0.02)
    later = trustme.CA()
    async with _endpoint(server, None, *tls_flags) as endpoint:
        assert (await _get(endpoint, "/livez", _trusting(authority)))[0] == 200
        _issue(later, tmp_path, "server", "127.0.0.1", "localhost")
        async with asyncio.timeout(60):
            while True:
                try:
                    answer = await _get(endpoint, "/livez", _trusting(later))
                except aiohttp.ClientError:
                    await asyncio.sleep(0.01)  # it learns by itself
                else:
                    break
        assert answer == (200, "ok")
