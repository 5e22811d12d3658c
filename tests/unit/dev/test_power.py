"""Servers that are off when an environment comes up."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from contextlib import contextmanager

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from hetzner_emulator.address import Address
from hetzner_emulator.app import create_app
from hetzner_emulator.backend import BackendError, RecordsBackend
from hetzner_emulator.config import CloudConfig
from infra.labels import cluster_labels
from sandbox import power
from sandbox.api import Api
from sandbox.errors import SandboxError
from sandbox.overview import powered_off

TOKEN = "t" * 64
SERVER = {"server_type": "cx23", "image": "debian-12", "labels": {"managed-by": "ccm-from-scratch"}}
commands = st.sampled_from([*power.STARTS, *power.STOPS, "attach_to_network", "change_protection"])
actions = st.lists(
    st.builds(lambda c, s: {"command": c, "status": s}, commands, st.sampled_from(["success", "error"]))
)


class Crowded(RecordsBackend):
    """A host with no room for a machine until somebody has made some."""

    room = False

    async def power_on(self, server_id):
        if not self.room:
            raise BackendError("one more machine needs 24 inotify instances")
        await super().power_on(server_id)


@contextmanager
def served(app):
    """The application on a port of its own, in a thread, for callers that block."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    runner = web.AppRunner(app)
    sites = []

    async def begin():
        await runner.setup()
        sites.append(web.TCPSite(runner, "127.0.0.1", 0))
        await sites[0].start()
        ready.set()

    thread = threading.Thread(target=lambda: (loop.run_until_complete(begin()), loop.run_forever()))
    thread.start()
    try:
        assert ready.wait(60)
        port = sites[0]._server.sockets[0].getsockname()[1]
        yield Address(port, TOKEN)
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


@pytest.fixture
def host():
    return Crowded()


@pytest.fixture
def site(host):
    with served(create_app(CloudConfig(tokens={TOKEN: "p"}), host)) as site:
        yield site


def post(site, path, **body):
    request = urllib.request.Request(
        site.endpoint + path, json.dumps(body).encode(), {"Authorization": f"Bearer {TOKEN}"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def status(site, server):
    return Api(site).call("GET", f"/servers/{server['id']}")["server"]["status"]


def test_a_server_whose_start_failed_is_started_by_the_next_up(site, host):
    server = post(site, "/servers", name="a", **SERVER)["server"]
    assert status(site, server) == "off"
    with pytest.raises(SandboxError, match="a is off, and does not start: one more machine needs 24 inotify"):
        power.ensure_on(Api(site), print)
    host.room = True
    told = []
    power.ensure_on(Api(site), told.append)
    assert status(site, server) == "running"
    assert told == ["• server a failed to start; trying again"]


def test_a_server_that_could_not_be_started_with_the_sandbox_is_started_too(site, host):
    host.room = True
    server = post(site, "/servers", name="a", **SERVER)["server"]
    host._events(server["id"], "failed")
    assert status(site, server) == "off"
    power.ensure_on(Api(site), print)
    assert status(site, server) == "running"


def test_what_somebody_powered_off_stays_off_and_is_told_at_once(site, host):
    host.room = True
    server, other = (post(site, "/servers", name=name, **SERVER)["server"] for name in "ab")
    post(site, f"/servers/{server['id']}/actions/poweroff")
    with pytest.raises(SandboxError, match=rf"left so: a\. .*servers/{server['id']}/actions/poweron"):
        power.ensure_on(Api(site), print)
    assert (status(site, server), status(site, other)) == ("off", "running")
    assert powered_off(Api(site)) == {str(server["id"])}
    post(site, f"/servers/{server['id']}/actions/poweron")
    power.ensure_on(Api(site), print)


def test_a_server_that_is_not_the_environments_is_nobodys_business(site):
    post(site, "/servers", name="a", **SERVER | {"labels": {}})
    power.ensure_on(Api(site), print)


def test_a_cloud_that_refuses_to_answer_is_told_and_holds_nothing_up(site):
    stranger = Address(site.port, "x" * 64)
    told = []
    power.ensure_on(Api(stranger), told.append)
    assert "could not be asked (GET /servers?" in told[0]
    assert "the cloud answers 401, the token you have provided is invalid" in told[0]
    assert powered_off(Api(stranger)) == set()


def test_the_label_is_the_programs():
    key, _, value = power.OURS.partition("=")
    assert cluster_labels("c", "local", {})[key] == value


@given(actions)
def test_the_last_thing_that_was_wanted_of_a_servers_power_decides(history):
    newest = next(
        (
            a
            for a in history
            if a["command"] in power.STARTS or (a["command"] in power.STOPS and a["status"] == "success")
        ),
        None,
    )
    failed = newest is not None and newest["command"] in power.STARTS and newest["status"] == "error"
    assert power.start_failed(history) == failed


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"code": "locked"}, "the cloud answers 423, fault injected by the sandbox"),
        ({"code": "unavailable", "raw": True}, "the cloud answers 503, Service Unavailable"),
        ({"drop": "before"}, "no answer of the cloud that can be read"),
        ({"truncated_body": True}, "no answer of the cloud that can be read"),
    ],
    ids=["refused", "a page", "cut", "half an answer"],
)
def test_what_goes_wrong_on_purpose_is_one_clear_error_of_our_own_commands(site, fault, said):
    Api(site).admin("POST", "/faults", {"path": "/servers", **fault})
    with pytest.raises(SandboxError, match=rf"^GET /servers\?\S+: {said}.*'\./dev faults' lists"):
        list(Api(site).list("servers"))
    assert powered_off(Api(site)) == set()
