"""Which API server the kubeconfig names, and when it is read again."""

import asyncio
import base64
import contextlib
import ssl
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler

import pytest
import trustme
import yaml
from fake_programs import programs

from ccm_pulumi.cluster.kubeconfig import (
    KubeconfigProvider,
    api_of,
    endpoints,
    ends_by,
    expiry,
    wait_for_endpoint,
)
from ccm_pulumi.lib.cloud_api import Patience
from ccm_pulumi.lib.errors import InfraError
from tests.http_server import Json, serving
from tests.infra.ssh_lab import lab_of
from tests.ports import free_port

NOW = datetime(2027, 5, 1, tzinfo=UTC)
PROGRAM = """
from ccm_pulumi.cluster.kubeconfig import Kubeconfig

E = os.environ
at = {"address": "127.0.0.1", "private_key": E["KEY"], "host_key": E["HOST_KEY"]}
kubeconfig = Kubeconfig(
    "kubeconfig", **at, server_id="1", others={}, context="mine", endpoint=None, generation="generation"
)
if "OBJECT" in E:
    import pulumi_kubernetes as k
    from ccm_pulumi.assembly import HOW_TO_REACH
    p = k.Provider("p", kubeconfig=kubeconfig.kubeconfig, cluster_identifier="1", **HOW_TO_REACH)
    names = {"name": "reached", "labels": {"a": E["OBJECT"]}}
    k.core.v1.ServiceAccount("object", metadata=names, opts=O(provider=p))
"""

_IMPATIENT = """
from ccm_pulumi.lib.cloud_api import Patience
Patience.__init__.__defaults__ = (5.0, 0.2, *Patience.__init__.__defaults__[2:])
"""


class At(KubeconfigProvider):
    """In 2027."""

    now = staticmethod(lambda: NOW)


class Gate:
    """A way to an API server that can be closed."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.port = free_port()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._through, "127.0.0.1", self.port)

    async def close(self) -> None:
        if self._server:
            self._server.close()
            await self._server.wait_closed()

    async def _through(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far, to_far = await asyncio.open_connection("127.0.0.1", self._target)
        await asyncio.gather(self._copy(reader, to_far), self._copy(far, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while block := await reader.read(65536):
                writer.write(block)
                await writer.drain()
        writer.close()


@pytest.fixture
async def api():
    """The port of something that answers as an API server does."""
    certificate, context = trustme.CA().issue_cert("127.0.0.1"), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as listening:
        yield listening.sockets[0].getsockname()[1]


def kubeconfig(end: datetime, port: int = 1) -> str:
    """As k3s writes it: the user's certificate, and its authority's behind it."""
    authority = trustme.CA()
    leaf = authority.issue_cert("admin@example.com", not_after=end)
    chain = b"".join(pem.bytes() for pem in leaf.cert_chain_pems) + authority.cert_pem.bytes()
    data = {"client-certificate-data": base64.b64encode(chain).decode()}
    return yaml.safe_dump(
        {
            "clusters": [{"name": "default", "cluster": {"server": f"https://127.0.0.1:{port}"}}],
            "users": [{"name": "default", "user": data}],
            "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
        }
    )


def state(text: str, **more: object) -> dict[str, object]:
    return {"server_id": "1", "context": "c", "generation": "g", "endpoint": None, "kubeconfig": text, **more}


@pytest.fixture
def file(tmp_path, monkeypatch):
    """What stands on the server in place of k3s's kubeconfig."""
    there = tmp_path / "k3s.yaml"
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", cat=f"exec /bin/cat {there}"))
    return there


@pytest.mark.parametrize(("days", "changes"), [(-1, True), (1, True), (90, True), (91, False), (365, False)])
def test_a_certificate_that_ends_soon_is_a_change_and_replaces_nothing(days, changes):
    olds = state(kubeconfig(NOW + timedelta(days=days)))
    news = {name: value for name, value in olds.items() if name != "kubeconfig"}
    result = At().diff("1", olds, news)
    assert (result.changes, result.replaces) == (changes, [])


@pytest.mark.parametrize("text", [None, "", "K", "users: []", "users: [{user: {token: t}}]", "a: [", "{"])
def test_a_kubeconfig_without_a_certificate_never_ends(text):
    assert expiry(text) is None
    assert not ends_by(NOW, text)


async def test_it_is_read_again_and_who_has_to_restart_k3s_is_told(host, file, api, capsys):
    async def created():
        inputs = {"address": host.address, "private_key": host.private_key, "server_id": "1", "context": "c"}
        return (await asyncio.to_thread(At().create, inputs)).outs["kubeconfig"]

    file.write_text(kubeconfig(NOW + timedelta(days=365), api))
    assert expiry(await created()) == NOW + timedelta(days=365)
    assert capsys.readouterr().out == ""
    file.write_text(kubeconfig(NOW + timedelta(days=30), api))
    assert expiry(await created()) == NOW + timedelta(days=30)
    said = capsys.readouterr().out
    assert "expires on 2027-05-31" in said
    assert "systemctl restart k3s" in said
    file.write_text(kubeconfig(NOW))
    with pytest.raises(InfraError, match=r"has expired.*systemctl restart k3s.*--refresh=false"):
        await created()


async def test_a_refresh_ends_before_a_cluster_that_is_there_is_forgotten(host, file, capsys):
    def read(text, address=host.address):
        props = state(text, address=address, private_key=host.private_key, host_key=None)
        return asyncio.to_thread(At().read, "1", props)

    young, old = kubeconfig(NOW + timedelta(days=1)), kubeconfig(NOW)
    assert (await read(young)).outs["kubeconfig"] == young
    file.write_text(young)
    with pytest.raises(InfraError) as caught:
        await read(old)
    assert "--refresh=false" in str(caught.value)
    assert "restart" not in str(caught.value)
    file.write_text(old)
    with pytest.raises(InfraError, match="systemctl restart k3s"):
        await read(old)
    file.unlink()
    assert (await read(old)).outs["kubeconfig"] == old
    assert "could not read a new kubeconfig" in capsys.readouterr().out


async def test_a_server_that_does_not_answer_is_a_change_until_it_does(host, file, api):
    """And the text is another one, so that Pulumi configures its plugin again."""
    inputs = {"address": host.address, "private_key": host.private_key, "server_id": "1", "context": "c"}
    file.write_text(kubeconfig(NOW + timedelta(days=365), api))
    made = (await asyncio.to_thread(At().create, inputs)).outs
    assert (await asyncio.to_thread(At().read, "1", made)).outs == made
    gone = {**made, "kubeconfig": made["kubeconfig"].replace(f":{api}", ":1")}
    read = (await asyncio.to_thread(At().read, "1", gone)).outs
    assert At().diff("1", read, inputs).changes
    again = (await asyncio.to_thread(KubeconfigProvider().update, "1", read, inputs)).outs
    assert not At().diff("1", again, inputs).changes
    assert yaml.safe_load(again["kubeconfig"]) == yaml.safe_load(made["kubeconfig"])
    assert again["kubeconfig"] != made["kubeconfig"]


@pytest.mark.slow
async def test_a_cluster_that_did_not_answer_costs_nothing_but_time(
    tmp_path, server, pair, file, shared_plane
):
    """One run fails and forgets nothing; the cluster that answers later in a run is asked again in it."""
    gate = Gate(int(api_of(shared_plane.kubeconfig.read_text()).rpartition(":")[2]))
    text = yaml.safe_load(shared_plane.kubeconfig.read_text())
    text["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{gate.port}"
    file.write_text(yaml.safe_dump(text))
    lab = lab_of(tmp_path, PROGRAM, server, pair, OBJECT="1")
    with (lab.project / "sitecustomize.py").open("a") as customize:
        customize.write(_IMPATIENT)
    path = "/api/v1/namespaces/default/serviceaccounts/reached"

    async def up(status: int = 0, **more: str) -> str:
        done = await asyncio.to_thread(lab.run, "up", "--yes", "--refresh=true", **more)
        assert done.status == status, done.out + done.err
        return done.out

    def live() -> dict[str, object]:
        return shared_plane.api().get(path)["metadata"]

    await gate.open()
    await up()
    before, kept = live(), lab.resources()["object"]
    await gate.close()
    said = await up(status=1)
    assert "ccm-from-scratch:sshAllowedCidrs" in said
    assert lab.resources()["object"] == kept
    await gate.open()
    assert "created" not in await up()
    await gate.close()
    running = lab.start("up", "--yes", "--refresh=true", OBJECT="2")
    while "the Kubernetes API doesn't respond" not in await asyncio.to_thread(running.stdout.readline):
        assert running.poll() is None
    await gate.open()
    out, _ = await asyncio.to_thread(running.communicate)
    assert running.returncode == 0, out
    assert (live()["uid"], live()["labels"]) == (before["uid"], {"a": "2"})
    assert "unchanged" in await up(OBJECT="2")
    # the stack can be destroyed after its cluster is gone, in the way that the message names
    await gate.close()
    done = await asyncio.to_thread(lab.run, "destroy", "--yes")
    assert done.status == 1
    assert "PULUMI_K8S_DELETE_UNREACHABLE=true" in done.out
    done = await asyncio.to_thread(lab.run, "destroy", "--yes", PULUMI_K8S_DELETE_UNREACHABLE="true")
    assert done.status == 0, done.out + done.err


class Refusing(Json, BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(401, None)


def test_a_refusal_is_an_answer_and_silence_is_none():
    with serving(Refusing) as port:
        url = f"http://127.0.0.1:{port}"
        silent = f"http://127.0.0.1:{free_port()}"
        assert wait_for_endpoint([silent, url], Patience(seconds=0)) == url
    seconds = iter(range(100))
    pauses = []
    with pytest.raises(InfraError, match="refused"):
        wait_for_endpoint([url], Patience(3, now=lambda: next(seconds), sleep=pauses.append))
    assert pauses == [1.0, 1.0]


def test_without_a_load_balancer_any_control_server_does():
    other = {"address": "203.0.113.8", "host_key": "k", "server_id": "2"}
    props = {"address": "203.0.113.7", "private_key": "p", "server_id": "1", "others": {"control-2": other}}
    original = "clusters: [{cluster: {server: 'https://127.0.0.1:6444'}}]"
    assert endpoints(original, props) == ["https://203.0.113.7:6444", "https://203.0.113.8:6444"]
    assert endpoints("", props)[0] == "https://203.0.113.7:6443"
    assert endpoints(original, {**props, "endpoint": "203.0.113.9"}) == ["https://203.0.113.9:6443"]
