import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler

import pytest
import trustme
import yaml
from fake_programs import programs

from ccm_pulumi.cluster.kubeconfig import KubeconfigProvider, endpoints, ends_by, expiry, wait_for_endpoint
from ccm_pulumi.lib.cloud_api import Patience
from ccm_pulumi.lib.errors import InfraError
from tests.http_server import Json, serving
from tests.ports import free_port

NOW = datetime(2027, 5, 1, tzinfo=UTC)


class At(KubeconfigProvider):
    now = staticmethod(lambda: NOW)


class Refusing(Json, BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(401, None)


@pytest.fixture
def api():
    """The port of something that answers as an API server does."""
    certificate, context = trustme.CA().issue_cert("127.0.0.1"), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    with serving(Refusing, context) as port:
        yield port


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


async def test_it_is_read_again_and_a_required_restart_of_k3s_is_reported(host, file, api, capsys):
    async def created():
        inputs = {"address": host.address, "private_key": host.private_key, "server_id": "1", "context": "c"}
        return (await asyncio.to_thread(At().create, inputs)).outs["kubeconfig"]

    file.write_text(kubeconfig(NOW + timedelta(days=365), api))
    made = await created()
    assert expiry(made) == NOW + timedelta(days=365)
    content = yaml.safe_load(made)
    assert content["clusters"] == [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{api}"}}]
    assert content["contexts"] == [{"name": "c", "context": {"cluster": "c", "user": "c"}}]
    assert content["users"][0]["name"] == content["current-context"] == "c"
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
