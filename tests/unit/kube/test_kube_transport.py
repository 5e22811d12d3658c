import asyncio
import base64
import ipaddress
import json
import ssl
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime, timedelta

import pytest
import trustme
import yaml
from api_over_http import ApiOverHttp, hang_on, hang_up, raw, refuse
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from ccm.errors import ConfigurationError
from ccm.kube.errors import Conflict, ConnectionFailed, NotFound, Unauthorized
from ccm.kube.http import Call, Transfer
from ccm.kube.objects import Node
from ccm.kube.transport import KubernetesTransport

NODES = "/api/v1/nodes"


@pytest.fixture
async def api():
    server = ApiOverHttp()
    await server.start()
    yield server
    await server.server.close()


@pytest.fixture
async def seen() -> list[Call | Transfer]:
    return []


@pytest.fixture
def calls(seen) -> Callable[[], list[Call]]:
    """The requests so far."""
    return lambda: [one for one in seen if isinstance(one, Call)]


@pytest.fixture
async def connect():
    """Makes transports, and closes them at the end."""
    async with AsyncExitStack() as stack:

        async def connect(**options) -> KubernetesTransport:
            made = await KubernetesTransport.connect(**{"environment": {}, **options})
            stack.push_async_callback(made.close)
            return made

        yield connect


@pytest.fixture
async def transport(api, connect, seen):
    return await connect(master=api.url, user_agent="ccm/test", observe=seen.append, grace=60)


@pytest.fixture
async def impatient(api, connect, seen):
    """For watches that stay silent."""
    return await connect(master=api.url, observe=seen.append, grace=0.05)


@pytest.fixture
async def serve():
    """Starts API servers with a Node, and stops them at the end."""
    async with AsyncExitStack() as stack:

        async def serve(context: ssl.SSLContext) -> ApiOverHttp:
            api = ApiOverHttp()
            await api.start(context)
            stack.push_async_callback(api.server.close)
            api.memory.put(NODES, {"metadata": {"name": "a"}})
            return api

        yield serve


def _issued_by(authority, *, clients=False) -> ssl.SSLContext:
    """A server's certificate that an authority issued; ``clients`` need one of it, too."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    if clients:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def _watch(transport: KubernetesTransport, since: str = "1", timeout: float = 0.05):
    return [event async for event in transport.watch(NODES, Node, since, timeout=timeout)]


async def test_every_verb(api, transport, calls):
    node = await transport.create(NODES, {"metadata": {"name": "a"}}, Node)
    assert node.metadata.uid
    node = await transport.patch(f"{NODES}/a", {"spec": {"providerID": "x"}}, Node)
    assert node.spec.provider_id == "x"
    node = await transport.patch(
        f"{NODES}/a",
        {"spec": {"providerID": None}},
        Node,
        content_type="application/strategic-merge-patch+json",
    )
    assert node.spec.provider_id == ""
    body = api.memory.read(f"{NODES}/a") | {"spec": {"podCIDR": "10.244.0.0/24"}}
    assert (await transport.update(f"{NODES}/a", body, Node)).spec.pod_cidr == "10.244.0.0/24"
    assert (await transport.get(f"{NODES}/a", Node)).metadata.name == "a"
    with pytest.raises(Conflict):
        await transport.delete(f"{NODES}/a", uid="another")
    await transport.delete(f"{NODES}/a", uid=node.metadata.uid)
    with pytest.raises(NotFound):
        await transport.get(f"{NODES}/a", Node)
    assert [(call.verb, call.status) for call in calls()][:3] == [
        ("POST", "200"),
        ("PATCH", "200"),
        ("PATCH", "200"),
    ]
    assert api.seen[0].headers["User-Agent"] == "ccm/test"
    assert api.seen[1].headers["Content-Type"] == "application/merge-patch+json"
    assert "Authorization" not in api.seen[0].headers


async def test_sizes_are_those_of_the_bodies(api, impatient, seen):
    await impatient.create(NODES, {"metadata": {"name": "a"}}, Node)
    text = await impatient.text(f"{NODES}/a")
    with pytest.raises(NotFound):
        await impatient.get(f"{NODES}/b", Node)
    with pytest.raises(ConnectionFailed):
        await _watch(impatient)
    transfers = [one for one in seen if isinstance(one, Transfer)]
    assert [transfer.verb for transfer in transfers] == ["POST", "GET", "GET"]  # none of the watch
    assert transfers[0].sent == len(json.dumps({"metadata": {"name": "a"}}))
    assert [transfer.sent for transfer in transfers[1:]] == [0, 0]
    assert transfers[1].received == len(text)
    assert transfers[2].received > 0


async def test_lists_by_pages(api, transport):
    for number in range(7):
        api.memory.put(NODES, {"metadata": {"name": f"n{number}"}})
    api.memory.put(NODES, {"metadata": {"name": "odd"}, "status": {"addresses": 17}})
    pages = [page async for page in transport.list_pages(NODES, Node, limit=3)]
    assert [len(page.items) for page in pages] == [3, 3, 1]
    assert [metadata.name for page in pages for metadata in page.undecodable] == ["odd"]


async def test_watch_streams_and_ends(api, transport):
    api.memory.put(NODES, {"metadata": {"name": "a"}})
    api.memory.put(NODES, {"metadata": {"name": "odd"}, "spec": 5})
    events = await _watch(transport, timeout=1)  # the server ends it
    assert [(event.type, event.metadata.name, event.object is None) for event in events] == [
        ("ADDED", "a", False),
        ("ADDED", "odd", True),
    ]
    query = api.seen[-1].query
    assert (query["watch"], query["allowWatchBookmarks"], query["timeoutSeconds"]) == ("true", "true", "1")


async def test_events_in_odd_pieces(api, transport):
    line = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "ä" * 100}}}).encode()
    api.override = raw(line[:7], line[7:150], line[150:] + b"\n" + line, b"\n")
    assert [event.metadata.name for event in await _watch(transport)] == ["ä" * 100] * 2


async def test_dropped_watch_is_a_lost_connection_and_its_half_line_is_not_believed(api, transport):
    line = json.dumps({"type": "DELETED", "object": {"metadata": {"name": "a"}}}).encode()
    api.override = raw(line + b"\n", line[:20], then=hang_up)
    seen = []
    with pytest.raises(ConnectionFailed):  # noqa: PT012 - what came before the error counts
        async for event in transport.watch(NODES, Node, "1", timeout=60):
            seen.append(event.metadata.name)  # noqa: PERF401 - what came before the error counts
    assert seen == ["a"]


async def test_half_open_watch_is_noticed(api, impatient):
    api.override = raw(b"\n", then=hang_on)
    with pytest.raises(ConnectionFailed, match="timed out"):
        await _watch(impatient)


async def test_dropped_connection(api, transport, calls):
    async def drop(request):
        await hang_up(request)
        return await raw()(request)

    api.override = drop
    with pytest.raises(ConnectionFailed):
        await transport.patch(f"{NODES}/a", {}, Node)
    assert [call.status for call in calls()] == ["<error>"]


async def test_a_refused_connection(connect):
    transport = await connect(master="http://127.0.0.1:1")
    with pytest.raises(ConnectionFailed):
        await transport.get(f"{NODES}/a", Node)


def _kubeconfig(path, api, cluster=(), **user):
    cluster = {"server": api.url, **dict(cluster)}
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    return str(path)


async def test_refused_token_is_read_again_once(api, connect, tmp_path, seen, calls):
    api.memory.put(NODES, {"metadata": {"name": "a"}})
    path = tmp_path / "config"
    transport = await connect(kubeconfig=_kubeconfig(path, api, token="old"), observe=seen.append)

    async def only_new(request):
        if request.headers["Authorization"] != "Bearer new":
            return await refuse(401, "Unauthorized")(request)
        return await api.handle(request)

    api.override = only_new
    with pytest.raises(Unauthorized):
        await transport.get(f"{NODES}/a", Node)
    assert len(api.seen) == 1
    _kubeconfig(path, api, token="new")
    assert (await transport.get(f"{NODES}/a", Node)).metadata.name == "a"
    assert len(api.seen) == 3
    assert [(call.status, call.retry) for call in calls()] == [("401", False), ("401", False), ("200", True)]


async def test_requests_that_are_refused_together_are_all_sent_again(api, connect, tmp_path):
    """Only one of them finds the token changed by its own look."""
    api.memory.put(NODES, {"metadata": {"name": "a"}})
    path, both = tmp_path / "config", asyncio.Event()
    transport = await connect(kubeconfig=_kubeconfig(path, api, token="old"))
    _kubeconfig(path, api, token="new")

    async def only_new(request):
        if request.headers["Authorization"] == "Bearer new":
            return await api.handle(request)
        if len(api.seen) == 2:
            both.set()
        await both.wait()
        return await refuse(401, "Unauthorized")(request)

    api.override = only_new
    found = await asyncio.gather(*(transport.get(f"{NODES}/a", Node) for _ in range(2)))
    assert [node.metadata.name for node in found] == ["a", "a"]
    assert len(api.seen) == 4


async def test_no_key_of_a_kubeconfig_stays_on_the_disk(serve, connect, tmp_path, monkeypatch):
    """Whoever is killed can't clean up, so there must be nothing to clean up."""
    authority, scratch, path = trustme.CA(), tmp_path / "scratch", tmp_path / "config"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    api = await serve(_issued_by(authority, clients=True))
    cluster, user = _trusting(api, authority), _known_as("ccm@example.com", authority)
    transport = await connect(kubeconfig=_kubeconfig(path, api, cluster, token="old", **user))
    await transport.get(f"{NODES}/a", Node)
    assert list(scratch.iterdir()) == []
    _kubeconfig(path, api, cluster, token="new", **user)
    assert await transport._connection.renew(transport._connection.version)
    await transport.get(f"{NODES}/a", Node)
    assert api.seen[1].headers["Authorization"] == "Bearer new"
    assert list(scratch.iterdir()) == []


def _pod(api):
    """The environment of a Pod in the API server's cluster."""
    return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(api.server.port)}


def _trusting(api, authority):
    """The cluster of a kubeconfig."""
    return {
        "server": f"https://127.0.0.1:{api.server.port}",
        "certificate-authority-data": _base64(authority.cert_pem.bytes()),
    }


def _known_as(name, authority):
    """The user of a kubeconfig."""
    ours = authority.issue_cert(name)
    return {
        "client-certificate-data": _base64(ours.cert_chain_pems[0].bytes()),
        "client-key-data": _base64(ours.private_key_pem.bytes()),
    }


def _base64(data):
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("content", ["", "[]", "clusters: 5", "{", "current-context: x"])
async def test_broken_kubeconfig_is_one_clear_error(connect, tmp_path, content):
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match=str(path)):
        await connect(kubeconfig=str(path))


async def test_neither_kubeconfig_nor_pod(connect, tmp_path):
    for kubeconfig in ("", str(tmp_path / "none")):
        with pytest.raises(ConfigurationError, match="kubeconfig"):
            await connect(kubeconfig=kubeconfig)


async def test_service_account_over_tls(serve, connect, tmp_path):
    authority = trustme.CA()
    api = await serve(_issued_by(authority))
    (tmp_path / "token").write_text("sesame\n")
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    transport = await connect(environment=_pod(api), service_account=tmp_path)
    await transport.get(f"{NODES}/a", Node)
    # The kubelet has replaced the token; a minute later we use it.
    (tmp_path / "token").write_text("open\n")
    transport._connection._loaded -= 61
    await transport.get(f"{NODES}/a", Node)
    # A token that can't be read costs nothing while the old one is accepted.
    (tmp_path / "token").unlink()
    transport._connection._loaded -= 61
    await transport.get(f"{NODES}/a", Node)
    tokens = [request.headers["Authorization"].lower() for request in api.seen]
    assert tokens == ["bearer sesame", "bearer open", "bearer open"]


@pytest.fixture
async def in_a_pod(serve, connect, tmp_path):
    """A transport in a Pod, and an API server behind each of two authorities; the Pod trusts the first."""
    authorities = [trustme.CA(), trustme.CA()]
    servers = [await serve(_issued_by(authority)) for authority in authorities]
    (tmp_path / "token").write_text("sesame")
    authorities[0].cert_pem.write_to_path(tmp_path / "ca.crt")
    environment = _pod(servers[0])
    transport = await connect(environment=environment, service_account=tmp_path)

    def move():
        """From now on the second server answers."""
        environment.update(_pod(servers[1]))
        transport._connection._loaded -= 61

    return transport, servers, authorities, move


async def test_an_authority_that_is_replaced_is_trusted(in_a_pod, tmp_path):
    transport, servers, authorities, move = in_a_pod
    await transport.get(f"{NODES}/a", Node)
    (tmp_path / "ca.crt").write_text("half of it")
    await transport.get(f"{NODES}/a", Node)
    move()
    with pytest.raises(ConnectionFailed, match=r"(?i)certificate"):
        await transport.get(f"{NODES}/a", Node)
    assert servers[1].seen == []
    authorities[1].cert_pem.write_to_path(tmp_path / "ca.crt")
    # At once, whenever it was read last.
    assert (await transport.get(f"{NODES}/a", Node)).metadata.name == "a"
    assert len(servers[1].seen) == 1


async def test_a_watch_outlives_the_authority_that_it_began_with(in_a_pod, tmp_path):
    transport, servers, authorities, move = in_a_pod
    async with aclosing(transport.watch(NODES, Node, "0", timeout=60)) as changes:
        assert (await anext(changes)).metadata.name == "a"
        authorities[1].cert_pem.write_to_path(tmp_path / "ca.crt")
        move()
        await transport.get(f"{NODES}/a", Node)
        servers[0].memory.put(NODES, {"metadata": {"name": "b"}})
        assert (await anext(changes)).metadata.name == "b"


async def test_a_client_certificate_that_is_renewed_is_used(serve, connect, tmp_path):
    authority, path, names = trustme.CA(), tmp_path / "config", []
    api = await serve(_issued_by(authority, clients=True))

    async def only_new(request):
        subject = request.transport.get_extra_info("peercert")["subjectAltName"]
        names.append(subject[0][1])
        if names[-1] != "new@example.com":
            return await refuse(401, "Unauthorized")(request)
        return await api.handle(request)

    def give(name):
        return _kubeconfig(path, api, _trusting(api, authority), **_known_as(name, authority))

    api.override = only_new
    transport = await connect(kubeconfig=give("old@example.com"))
    with pytest.raises(Unauthorized):
        await transport.get(f"{NODES}/a", Node)
    give("new@example.com")
    assert (await transport.get(f"{NODES}/a", Node)).metadata.name == "a"
    assert names == ["old@example.com", "old@example.com", "new@example.com"]


async def test_certificates_of_older_clusters_are_accepted(serve, connect, tmp_path):
    """They lack the key identifiers that newer Pythons ask for; clients in Go never did."""
    (tmp_path / "token").write_text("sesame")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority = _without_identifiers(tmp_path / "server.pem")
    (tmp_path / "ca.crt").write_bytes(authority)
    context.load_cert_chain(tmp_path / "server.pem")
    api = await serve(context)
    transport = await connect(environment=_pod(api), service_account=tmp_path)
    assert (await transport.get(f"{NODES}/a", Node)).metadata.name == "a"


def _without_identifiers(path):
    """Write a server's key and certificate; the certificate of its authority."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("ca", "server")]
    now = datetime.now(UTC)
    made = []
    for key, name in zip(keys, names, strict=True):
        builder = x509.CertificateBuilder(names[0], name, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        if made:
            address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
            builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        else:
            builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        made.append(builder.sign(keys[0], hashes.SHA256()).public_bytes(Encoding.PEM))
    private = keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(private + made[1])
    return made[0]
