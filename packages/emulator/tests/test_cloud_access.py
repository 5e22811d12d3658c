import asyncio
import re
from contextlib import nullcontext
from io import BytesIO
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request
from cloud_emulator import OTHER_TOKEN, READ_TOKEN, TOKEN, Emulator
from hypothesis import given
from hypothesis import strategies as st

from hetzner_emulator.admin import calls, console
from hetzner_emulator.app import create_app
from hetzner_emulator.backend import RecordsBackend
from hetzner_emulator.config import CloudConfig
from hetzner_emulator.errors import ApiError
from hetzner_emulator.http import access

GIVEN_OUT = "n" * 64
OPEN = {("GET", path) for path in ("/_sandbox/health", "/_sandbox/console", "/_sandbox/console/{name}", "/")}
GUESTS = CloudConfig(tokens={TOKEN: "default"})


def admin_calls(emulator: Emulator) -> list[tuple[str, str]]:
    """Every method and path that the admin calls answer, but those that need no token."""
    routes = calls.routes(emulator.cloud)
    paths = [(route.method, re.sub(r"\{id:.*?\}\}", "1", route.path)) for route in routes]
    return [(method, path.replace("{state}", "off")) for method, path in paths if (method, path) not in OPEN]


@pytest.mark.parametrize("token", [None, "wrong", "", "\udcff", READ_TOKEN, GIVEN_OUT])
async def test_admin_calls_need_a_token_from_the_start(emulator: Emulator, token):
    await emulator.make_server()
    await emulator.ok("PUT", "/_sandbox/tokens", {"token": GIVEN_OUT, "project": "default"})
    before = emulator.cloud.store.export(), dict(emulator.cloud.tokens)
    calls = admin_calls(emulator)
    assert len(calls) > 15
    for method, path in calls:
        error = await emulator.refused(method, path, {"token": TOKEN}, token=token)
        assert (error["status"], error["code"]) == (401, "unauthorized"), (method, path)
    assert (emulator.cloud.store.export(), dict(emulator.cloud.tokens)) == before


async def test_tokens_from_the_start_are_valid_for_admin_calls_also_if_they_are_revoked(emulator: Emulator):
    for token in (TOKEN, OTHER_TOKEN):
        await emulator.ok("GET", "/_sandbox/settings", token=token)
    await emulator.ok("DELETE", "/_sandbox/tokens", {"token": TOKEN})
    await emulator.expect("unauthorized", "GET", "/servers")
    await emulator.ok("PUT", "/_sandbox/tokens", {"token": TOKEN, "project": "default"})
    await emulator.ok("GET", "/servers")


async def test_health_and_the_console_need_no_token(emulator: Emulator):
    for _method, path in OPEN:
        url = emulator.server.make_url(path.replace("{name}", "console.css"))
        async with emulator.session.get(url) as response:
            assert response.status == 200
            assert path != "/" or response.url.path == "/_sandbox/console"


@pytest.mark.parametrize(("peer", "allowed"), [("127.0.0.1", True), ("::1", True), ("203.0.113.4", False)])
def test_servers_cannot_send_admin_calls(peer, allowed):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    request = make_mocked_request("GET", "/_sandbox/state", headers=headers).clone(remote=peer)
    with nullcontext() if allowed else pytest.raises(ApiError, match="forbidden"):
        access.check_operator(request, GUESTS)


OWN = "localhost LOCALHOST:80 127.0.0.1:8520 127.8.9.1 [::1]:8520 169.254.169.254"
FOREIGN = """
evil.example evil.example:8520 127.0.0.1.evil.example localhost.evil.example evil.example@127.0.0.1
127.0.0.1/evil.example 127.0.0.1# 203.0.113.4 0.0.0.0 [::] ::1 169.254.169.253 127.0.0.1:99999999
"""


def test_own_and_foreign_names():
    assert [host for host in OWN.split() if not access.is_own_name(host)] == []
    foreign = ["", " 127.0.0.1", "\uff11\uff12\uff17.0.0.1", *FOREIGN.split()]
    assert [host for host in foreign if access.is_own_name(host)] == []


@given(st.text(max_size=30))
def test_any_text_can_be_a_host_name(text):
    assert not access.is_own_name(text + ".example")
    assert access.is_own_name(text) in {True, False}


async def test_foreign_host_names_are_refused(emulator: Emulator):
    headers = {"Host": "evil.example:8520", "Authorization": f"Bearer {TOKEN}"}
    sandbox = [f"/_sandbox/{name}" for name in ("health", "console", "state")]
    for path in ("/", "/v1/servers", "/hetzner/v1/metadata", *sandbox):
        async with emulator.session.get(emulator.server.make_url(path), headers=headers) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (403, "forbidden"), path


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1", "https://{}", "http://{}.evil"]
)
async def test_foreign_origins_are_refused(emulator: Emulator, origin):
    await emulator.make_server()
    own = f"{emulator.server.host}:{emulator.server.port}"
    headers = {"Origin": origin.format(own), "Authorization": f"Bearer {TOKEN}", "Content-Type": "text/plain"}
    for path in ("/_sandbox/reset", "/v1/servers"):
        url = emulator.server.make_url(path)
        async with emulator.session.post(url, data=b"{}", headers=headers) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (403, "forbidden")
    assert len(emulator.cloud.store.export()["server"]) == 1


async def test_the_console_page_has_access(emulator: Emulator):
    origin = f"http://{emulator.server.host}:{emulator.server.port}"
    headers = {"Origin": origin, "Authorization": f"Bearer {TOKEN}"}
    async with emulator.session.get(f"{origin}/_sandbox/overview", headers=headers) as response:
        assert response.status == 200


async def test_the_console_page_is_complete_and_loads_nothing_else(emulator: Emulator):
    response = await emulator.call("GET", "/_sandbox/console", token=None)
    page = await response.text()
    parts = re.findall(r'(?:src|href)="(console/[^"]+)"', page)
    assert len(parts) == 2
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.findall(r"<script>|<style|\sstyle=|\son\w+=", page), "the policy would not let it work"
    for name in console.FILES:
        part = await emulator.call("GET", f"/_sandbox/console/{name}", token=None)
        text = await part.text()
        assert part.headers["X-Content-Type-Options"] == "nosniff"
        assert not re.search(r"https?:|(?<!c)url\(|@import", text), "it asks elsewhere"
        for imported in re.findall(r'from "\./([^"]+)"', text):
            assert imported in console.FILES
        assert TOKEN not in text
    assert (await emulator.call("GET", "/_sandbox/console/../calls.py", token=None)).status == 404
    assert (await emulator.call("GET", "/_sandbox/console/console.py", token=None)).status == 404


@pytest.mark.parametrize(
    "path", ["/_sandbox", "/_sandbox/", "/_sandbox/nothing", "/favicon.ico", "/v2/servers"]
)
async def test_unknown_paths_name_the_console(emulator: Emulator, path):
    async with emulator.session.get(emulator.server.make_url(path)) as response:
        assert response.status == 404
        assert "/_sandbox/console" in (await response.json())["error"]["message"]


async def test_invalid_methods_and_bodies_of_admin_calls(emulator: Emulator):
    await emulator.expect("method_not_allowed", "PATCH", "/_sandbox/faults")
    url, headers = emulator.server.make_url("/_sandbox/faults"), {"Authorization": f"Bearer {TOKEN}"}
    for body, status in ((b"\xff", 400), (b"[" * 100_000, 400), (b"x" * 3_000_000, 400)):
        async with emulator.session.post(url, data=BytesIO(body), headers=headers) as response:
            assert response.status == status, await response.text()
            assert "error" in await response.json()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 2**70) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
FIELDS = {
    "/tokens": "token project read_only",
    "/settings": "actions rate_limit rate_limit_remaining limits sold_out vswitches",
    "/faults": "method path command times skip probability seed latency hold status code message after drop",
    "/robot/servers": "number name ip ipv6_net product dc operating_status",
}
PARAMETERS = {"/requests": "limit since method", "/requests/counts": "since path", "/state": "kind"}
CALLS = [(method, re.sub(r"\{.*?\}\}?", "{}", path)) for method, path, _handler in calls._CALLS]


def asked(call: tuple[str, str]) -> st.SearchStrategy[Any]:
    """Calls with fields and parameters of their own, and one that they don't have."""
    fields, parameters = ([*known.get(call[1], "").split(), "x"] for known in (FIELDS, PARAMETERS))
    return st.tuples(
        st.just(call),
        st.sampled_from(["1", "0", "x", "9" * 18, "9" * 3000, "\u0663"]),
        st.dictionaries(st.sampled_from(fields), VALUES, max_size=4) | VALUES,
        st.dictionaries(st.sampled_from(parameters), st.text(max_size=4), max_size=2),
    )


@given(st.lists(st.sampled_from(CALLS).flatmap(asked), max_size=8))
def test_random_admin_calls_are_no_internal_errors(script):
    async def run() -> None:
        app = create_app(GUESTS, RecordsBackend())
        async with TestClient(TestServer(app), headers={"Authorization": f"Bearer {TOKEN}"}) as client:
            for (method, path), text, body, query in script:
                url = calls.PREFIX + path.replace("{}", text)
                async with client.request(method, url, params=query, json=body) as response:
                    assert response.status < 500, (method, url, body, await response.text())
                    assert await response.json() is not None

    asyncio.run(run())
