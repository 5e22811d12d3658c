"""The certificate in the kubeconfig ends: it is read again before, and the cluster is not forgotten."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta

import pytest
import trustme
import yaml

from infra.errors import KubeconfigError
from infra.kubeconfig import KubeconfigProvider, ends_by, expiry
from tests.infra.ssh_lab import lab_of

NOW = datetime(2027, 5, 1, tzinfo=UTC)
PROGRAM = """
from types import SimpleNamespace
from infra.kubeconfig import Kubeconfig

E = os.environ
at = {"address": "127.0.0.1", "private_key": E["KEY"], "host_key": E["HOST_KEY"]}
servers = SimpleNamespace(control_inputs=lambda: {**at, "server_id": "1", "others": {}}, endpoint=None)
Kubeconfig("kubeconfig", "mine", servers, "generation")
"""


class At(KubeconfigProvider):
    """In 2027."""

    now = staticmethod(lambda: NOW)


def kubeconfig(end: datetime) -> str:
    """As k3s writes it: the user's certificate, and its authority's behind it."""
    authority = trustme.CA()
    leaf = authority.issue_cert("admin@example.com", not_after=end)
    chain = b"".join(pem.bytes() for pem in leaf.cert_chain_pems) + authority.cert_pem.bytes()
    data = {"client-certificate-data": base64.b64encode(chain).decode()}
    return yaml.safe_dump(
        {
            "clusters": [{"name": "default", "cluster": {"server": "https://127.0.0.1:6443"}}],
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
    (tmp_path / "bin").mkdir()
    cat = tmp_path / "bin" / "cat"
    cat.write_text(f"#!/bin/sh\nexec /bin/cat {there}\n")
    cat.chmod(0o755)
    monkeypatch.setenv("PATH", f"{cat.parent}:/usr/bin:/bin")
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


async def test_it_is_read_again_and_who_has_to_restart_k3s_is_told(host, file, capsys):
    async def created():
        inputs = {"address": host.address, "private_key": host.private_key, "server_id": "1", "context": "c"}
        return (await asyncio.to_thread(At().create, inputs)).outs["kubeconfig"]

    file.write_text(kubeconfig(NOW + timedelta(days=365)))
    assert expiry(await created()) == NOW + timedelta(days=365)
    assert capsys.readouterr().out == ""
    file.write_text(kubeconfig(NOW + timedelta(days=30)))
    assert expiry(await created()) == NOW + timedelta(days=30)
    said = capsys.readouterr().out
    assert "ends on 2027-05-31" in said
    assert "systemctl restart k3s" in said
    file.write_text(kubeconfig(NOW))
    with pytest.raises(KubeconfigError, match=r"has expired.*systemctl restart k3s.*--refresh=false"):
        await created()


async def test_a_refresh_ends_before_a_cluster_that_is_there_is_forgotten(host, file, capsys):
    def read(text, address=host.address):
        props = state(text, address=address, private_key=host.private_key, host_key=None)
        return asyncio.to_thread(At().read, "1", props)

    young, old = kubeconfig(NOW + timedelta(days=1)), kubeconfig(NOW)
    assert (await read(young)).outs["kubeconfig"] == young
    file.write_text(young)
    with pytest.raises(KubeconfigError) as caught:
        await read(old)
    assert "--refresh=false" in str(caught.value)
    assert "restart" not in str(caught.value)
    file.write_text(old)
    with pytest.raises(KubeconfigError, match="systemctl restart k3s"):
        await read(old)
    file.unlink()
    assert (await read(old)).outs["kubeconfig"] == old
    assert "there is none to be had" in capsys.readouterr().out


@pytest.mark.slow
async def test_in_the_engine_it_is_updated_once(tmp_path, server, pair, file):
    lab = lab_of(tmp_path, PROGRAM, server, pair)

    async def up() -> str:
        done = await asyncio.to_thread(lab.run, "up", "--yes", "--refresh=true")
        assert done.status == 0, done.out + done.err
        return done.out

    now = datetime.now(UTC)
    file.write_text(kubeconfig(now + timedelta(days=60)))
    assert "systemctl restart k3s" in await up()
    file.write_text(kubeconfig(now + timedelta(days=365)))
    assert "updated" in await up()
    quiet = await up()
    assert "updated" not in quiet
    assert "restart" not in quiet
