import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client import CollectorRegistry

from ccm.hetzner.api import ApiMetrics, Budget, HetznerApi, Priority
from ccm.hetzner.api.api_errors import ApiError, RateLimited, Refused, Unavailable
from ccm.hetzner.api.models import Server

NODES = Priority.NODES


@dataclass
class Stranger:
    """Something that answers at the API's address."""

    answer: Callable[[], web.Response] = web.Response
    asked: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(request.method)
        return self.answer()

    def says(self, status: int, body: object, **headers: str) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        self.answer = lambda: web.Response(
            status=status, text=text, content_type="application/json", headers=headers
        )


@pytest.fixture
async def stranger() -> Stranger:
    return Stranger()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def api(
    stranger: Stranger, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[HetznerApi]:
    monkeypatch.setattr("ccm.hetzner.api.client.PAUSE", 0.0)
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", stranger.handle)
    server = TestServer(application)
    await server.start_server()
    metrics, budget = ApiMetrics(registry), Budget(limit=3_600_000)
    api = HetznerApi(
        token=lambda: "t" * 64, endpoint=str(server.make_url("/v1")), metrics=metrics, budget=budget
    )
    yield api
    await api.close()
    await server.close()


async def servers(api: HetznerApi):
    return await api.list("/servers", "servers", Server, priority=NODES)


async def change(api: HetznerApi):
    return await api.act("/load_balancers/1/actions/add_target", {}, priority=NODES)


ODD = ["<html>", [1], "null", '"text"', "7", {"error": "no"}, {"error": None}, {"error": {}}, '"error"', ""]


@pytest.mark.parametrize("do", [servers, change])
@pytest.mark.parametrize("body", [*ODD, "[" * 100_000], ids=lambda body: f"{body!s:.30}")
@pytest.mark.parametrize("status", [200, 201, 502, 400, 404])
async def test_any_response_is_an_expected_error(
    stranger: Stranger, api: HetznerApi, do, body: object, status: int
) -> None:
    """A success that can't be read may have had its effect; a 404 like this is no proof of absence."""
    stranger.says(status, body)
    with pytest.raises(ApiError) as caught:
        await do(api)
    assert type(caught.value) is (Refused if 400 <= status < 500 else Unavailable)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("body", ["", "<html>", {"load_balancer": {"id": 1}}], ids=str)
async def test_a_redirect_is_not_followed(
    stranger: Stranger, api: HetznerApi, status: int, body: object
) -> None:
    """As a GET it would succeed, and what is there still would be taken for deleted."""

    def answer() -> web.Response:
        if len(stranger.asked) > 1:
            return web.json_response({"load_balancer": {"id": 1, "name": "a"}})
        stranger.says(status, body, Location="/v1/load_balancers/1")
        first, stranger.answer = stranger.answer(), answer
        return first

    stranger.answer = answer
    with pytest.raises(Unavailable, match=f"HTTP status {status}.*HCLOUD_ENDPOINT"):
        await api.request("DELETE", "/load_balancers/1", priority=NODES)
    assert stranger.asked == ["DELETE"]


async def test_a_proxys_status_429(
    stranger: Stranger, api: HetznerApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.budget, "exhausted", lambda: None)
    stranger.says(429, "<html>slow down</html>")
    with pytest.raises(RateLimited):
        await servers(api)


async def test_pages_that_never_end_are_an_error(stranger: Stranger, api: HetznerApi) -> None:
    stranger.says(200, {"servers": [], "meta": {"pagination": {"page": 1, "next_page": 1}}})
    with pytest.raises(Unavailable, match="page 1 can't be the next page after page 1"):
        await servers(api)


async def test_endless_pages_end(
    stranger: Stranger, api: HetznerApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ccm.hetzner.api.client.MAX_PAGES", 3)

    def answer() -> web.Response:
        page = len(stranger.asked)
        item, pagination = {"id": page, "name": "a"}, {"page": page, "next_page": page + 1}
        return web.json_response({"servers": [item], "meta": {"pagination": pagination}})

    stranger.answer = answer
    async with asyncio.timeout(60):
        with pytest.raises(Unavailable, match="page 4 can't be the next page after page 3"):
            await servers(api)


async def test_an_odd_id_costs_nothing_but_its_item(stranger: Stranger, api: HetznerApi) -> None:
    odd = [{"id": [], "name": "a"}, {"id": {}, "name": "b"}, {"name": "c"}]
    stranger.says(200, {"servers": [*odd, {"id": 7, "name": "d"}]})
    listing = await servers(api)
    assert [item.name for item in listing.items] == ["d"]
    assert [one.name for one in listing.undecodable] == ["a", "b", "c"]


async def test_unknown_codes_share_one_series(
    stranger: Stranger, api: HetznerApi, registry: CollectorRegistry
) -> None:
    for number in range(5):
        stranger.says(400, {"error": {"code": f"no {number}", "message": ""}})
        with pytest.raises(Refused, match=f"no {number}"):
            await change(api)
    labels = {"operation": "POST /load_balancers/{id}/actions/add_target", "code": "odd"}
    assert registry.get_sample_value("ccm_hetzner_api_requests_total", labels) == 5


@pytest.mark.parametrize("number", ["9" * 5000, "-1", "1.5", "\xb2", ""])
async def test_odd_headers_tell_nothing(stranger: Stranger, api: HetznerApi, number: str) -> None:
    stranger.says(200, {"servers": []}, **{"RateLimit-Limit": number, "RateLimit-Remaining": number})
    await servers(api)
    assert api.budget.limit == 3_600_000


@pytest.mark.parametrize(
    ("limit", "remaining"),
    [("ratelimit-limit", "ratelimit-remaining"), ("RATELIMIT-LIMIT", "RateLimit-Remaining")],
)
async def test_header_names_have_no_case(
    stranger: Stranger, api: HetznerApi, limit: str, remaining: str
) -> None:
    """Names of headers have no case: the API sends them in small letters, its documents have capitals."""
    stranger.says(200, {"servers": []}, **{limit: "7200", remaining: "7"})
    await servers(api)
    assert api.budget.limit == 7200
    assert 7 <= api.budget.remaining < 100


async def test_a_token_that_can_not_be_sent_is_an_error_without_the_token(api: HetznerApi) -> None:
    """A file with one may appear while we run."""
    api.token.read = lambda: "\u20ac"
    with pytest.raises(Unavailable, match="can't be sent") as caught:
        await servers(api)
    assert "\u20ac" not in str(caught.value)
