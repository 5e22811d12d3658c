import asyncio
import hashlib
import time
from contextlib import contextmanager

import pytest
from cryptography import x509
from test_kubernetes_rendering import FACTS

from k3s_standin.api import ApiError
from k3s_standin.certificates import new_request
from k3s_standin.control_plane import EtcdMember
from k3s_standin.join import Joiner
from k3s_standin.node_controller import FINALIZER, NODES, ORPHAN_SECONDS, NodeController
from k3s_standin.nodepassword import SECRETS, secret_name
from k3s_standin.pki import Pki
from k3s_standin.protocol import NODE_IP, NODE_NAME, NODE_PASSWORD, basic
from k3s_standin.registration import Registration, serve
from k3s_standin.server import server_metadata
from k3s_standin.token import Token, authority_hash
from sandbox.kubernetes.hollow_nodes import HollowNode, HollowNodes
from tests.ports import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(shared_plane):
    """Serves other tests, too: each uses other node names."""
    return shared_plane


@pytest.fixture
def name(request):
    return hashlib.sha256(request.node.name.encode()).hexdigest()[:8]


@contextmanager
def registered(cluster):
    """The registration service; gives the port of the API server that would be beside it."""
    pki = Pki(cluster.directory / "tls")
    port = free_port()
    stop = serve(Registration(pki, "secret", FACTS, cluster.api()), "127.0.0.1", port)
    try:
        yield port - 1
    finally:
        stop()


def joiner(port, folder, name, token="secret", **changes):
    machine = {"folder": folder, "password_file": folder / "password", **changes}
    return Joiner(f"https://127.0.0.1:{port}", Token(token), name, ("10.0.0.3",), **machine)


async def test_a_node_gets_certificates_for_its_own_name(cluster, name, tmp_path):
    with registered(cluster) as port:
        joined = await joiner(port, tmp_path / "a", name).join()
        key = (joined.folder / "client-kubelet.key").read_bytes()
        await joiner(port, tmp_path / "a", name).join()

    assert (joined.folder / "client-kubelet.key").read_bytes() == key
    assert joined.facts == FACTS
    kubelet = x509.load_pem_x509_certificate((joined.folder / "client-kubelet.crt").read_bytes())
    assert kubelet.subject.rfc4514_string() == f"CN=system:node:{name},O=system:nodes"
    serving = x509.load_pem_x509_certificate((joined.folder / "serving-kubelet.crt").read_bytes())
    names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [name, "localhost"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "10.0.0.3"]
    secret = cluster.api().get(f"/api/v1/namespaces/kube-system/secrets/{name}.node-password.k3s")
    assert secret["immutable"] is True


async def test_joining_is_retried_after_a_wrong_token_or_server(cluster, name, tmp_path, capsys):
    with registered(cluster) as port:
        wrong = joiner(port, tmp_path / "a", name, token="wrong")
        await tells(wrong, "401: Unauthorized: the token is wrong", capsys)
        token, url = Token("secret", authority_hash(b"another")), f"https://127.0.0.1:{port}"
        stranger = Joiner(url, token, name, (), tmp_path / "b", tmp_path / "password")
        await tells(stranger, "token CA hash does not match", capsys)


async def tells(node, text, capsys):
    """Wait until a node that tries to join prints a text, and end it: it would try on."""
    attempt = asyncio.create_task(node.join())
    said = ""
    try:
        async with asyncio.timeout(60):
            while True:
                said += capsys.readouterr().err
                if text in said:
                    return
                assert not attempt.done()
                await asyncio.sleep(0.05)
    finally:
        attempt.cancel()
        await asyncio.wait({attempt})


async def test_a_nodes_name_is_protected_by_its_password(cluster, name, tmp_path, capsys):
    api, controller = cluster.api(), NodeController(cluster.api(), dns=False)
    secret = f"{SECRETS}/{secret_name(name)}"
    with registered(cluster) as port:
        await joiner(port, tmp_path / "a", name).join()
        async with HollowNodes(cluster.url, cluster.directory / "tls") as nodes:
            await nodes.power_on(HollowNode(name))
            await tells(joiner(port, tmp_path / "b", name), "Node password rejected", capsys)
            assert not (tmp_path / "b" / "client-kubelet.crt").exists()
            await joiner(port, tmp_path / "a", name).join()
            controller.sync(nodes_of(api))
        assert FINALIZER in api.get(f"/api/v1/nodes/{name}")["metadata"]["finalizers"]
        api.request("DELETE", f"/api/v1/nodes/{name}")
        assert api.get(f"/api/v1/nodes/{name}"), "its deletion waits for k3s"
        controller.sync(nodes_of(api))
        assert api.get(f"/api/v1/nodes/{name}") is None
        await until(api, secret, is_gone)
        await joiner(port, tmp_path / "b", name).join()


async def test_passwords_without_a_node_are_kept_for_ten_minutes(cluster, name, tmp_path, capsys):
    api, secret = cluster.api(), f"{SECRETS}/{secret_name(name)}"
    with registered(cluster) as port:
        await joiner(port, tmp_path / "a", name).join()
        NodeController(api, dns=False, now=lambda: time.time() + ORPHAN_SECONDS - 30).sync(nodes_of(api))
        assert api.get(secret)
        await tells(joiner(port, tmp_path / "b", name), "Node password rejected", capsys)
        NodeController(api, dns=False, now=lambda: time.time() + ORPHAN_SECONDS + 30).sync(nodes_of(api))
        assert api.get(secret) is None
        await joiner(port, tmp_path / "b", name).join()


async def test_a_deleted_servers_node_waits_for_etcd(cluster, name):
    api, path, asked = cluster.api(), f"{NODES}/{name}", []

    def leave(*member):
        asked.append(member)
        if len(asked) == 1:
            assert api.get(path), "the Node waits for its member"
            raise ApiError(503, "unhealthy cluster")

    looking = asyncio.create_task(NodeController(api, dns=False, leave=leave).run())
    try:
        noted = server_metadata(EtcdMember(f"{name}-1", "10.0.0.2"))
        api.request("POST", NODES, {"metadata": {"name": name, **noted}})
        await until(api, path, lambda node: FINALIZER in node["metadata"].get("finalizers", []))
        assert asked == []
        api.request("DELETE", path)
        await until(api, path, is_gone)
        assert len(asked) >= 2
        assert {*asked} == {(f"{name}-1", "10.0.0.2")}
    finally:
        looking.cancel()
        await asyncio.wait({looking})


def nodes_of(api):
    return api.request("GET", NODES)["items"]


def is_gone(content):
    return content is None


async def until(api, path, wanted):
    """Wait for a state of an object, which is None once it is gone."""
    async with asyncio.timeout(60):
        while not wanted(await asyncio.to_thread(api.get, path)):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)


async def test_a_node_trusts_a_recreated_server(cluster, name, tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "server-ca.crt").write_text("another authority")
    with registered(cluster) as port:
        joined = await joiner(port, folder, name).join()
    authority = Pki(cluster.directory / "tls").server_authority.certificate
    assert joined.authority.read_bytes() == authority.read_bytes()


async def test_a_token_holder_gets_no_certificate_for_another_user(cluster, name, tmp_path):
    registration = Registration(Pki(cluster.directory / "tls"), "secret", FACTS, cluster.api())
    headers = {"Authorization": basic("secret"), NODE_NAME: name, NODE_PASSWORD: "p"}
    for common_name, group in [("system:node:other", "system:nodes"), ("admin", "system:masters")]:
        request = new_request(common_name, group, tmp_path / f"{group}.key").encode()
        assert registration.post("/v1-k3s/client-kubelet.crt", headers, request).status == 403
    for request in (b"nonsense", b"\xff"):
        assert registration.post("/v1-k3s/client-kubelet.crt", headers, request).status == 400
    for bad in ("", "é", "a b", "../admin", "a" * 254, "-"):
        assert registration.post("/v1-k3s/client-kubelet.crt", {**headers, NODE_NAME: bad}, b"").status == 400
    assert registration.post("/v1-k3s/client-admin.crt", headers, b"").status == 404
    assert registration.post("/v1-k3s/client-kubelet.crt", {NODE_NAME: name}, b"").status == 401
    assert registration.get("/v1-k3s/config", basic("wrong")).status == 401
    assert registration.get("/cacerts", "").status == 200
    assert registration.get("/nonsense", basic("secret")).status == 404


async def test_a_token_holder_gets_no_serving_certificate_for_other_names(cluster, name, tmp_path):
    registration = Registration(Pki(cluster.directory / "tls"), "secret", FACTS, cluster.api())
    headers = {"Authorization": basic("secret"), NODE_NAME: name, NODE_PASSWORD: "p"}
    request = new_request(name, "", tmp_path / "key").encode()
    for bad in ("kubernetes.default.svc", "10.0.0.3,kubernetes", "10.0.0.0/8", " "):
        answer = registration.post("/v1-k3s/serving-kubelet.crt", {**headers, NODE_IP: bad}, request)
        assert answer.status == 400
        assert answer.body.startswith(b"invalid node IP address")
