import asyncio
from contextlib import nullcontext

import pytest
from emulated_cloud import OTHER_TOKEN, TOKEN, EmulatedCloud
from prometheus_client import CollectorRegistry

from ccm.cloud import AccessDenied, CloudBusy, CloudUnavailable, Rejected
from ccm.hetzner.api import Budget, HetznerApi, Priority
from ccm.hetzner.api.api_errors import (
    ApiError,
    NotFound,
    RateLimited,
    Refused,
    TokenChanged,
    Unauthorized,
    Unavailable,
    api_error,
)
from ccm.hetzner.api.models import Network, Server
from ccm.version import VERSION

NODES = Priority.NODES


async def servers(api: HetznerApi):
    return await api.list("/servers", "servers", Server, priority=NODES)


async def test_a_list_has_all_pages(sky: EmulatedCloud, api: HetznerApi) -> None:
    await asyncio.gather(*(sky.add_server(f"s{number}") for number in range(120)))
    await sky.forget_requests()
    listing = await servers(api)
    assert {server.name for server in listing.items} == {f"s{number}" for number in range(120)}
    assert await sky.counts() == {"GET /servers": 3}


@pytest.mark.parametrize("times", [1, 3])
async def test_a_truncated_list_is_read_again(sky: EmulatedCloud, api: HetznerApi, times: int) -> None:
    await asyncio.gather(*(sky.add_server(f"s{number}") for number in range(6)))
    await sky.fault(path="/servers", truncated_page=True, times=times)
    assert len((await servers(api)).items) == 6


async def test_a_list_that_stays_truncated_is_an_error(sky: EmulatedCloud, api: HetznerApi) -> None:
    await asyncio.gather(*(sky.add_server(f"s{number}") for number in range(6)))
    await sky.fault(path="/servers", truncated_page=True)
    with pytest.raises(Unavailable, match="the API returned only 3 of 6 items"):
        await servers(api)


@pytest.mark.parametrize(
    "fault",
    [{"code": "server_error"}, {"code": "unavailable"}, {"code": "timeout"}, {"status": 502, "raw": True},
     {"drop": "before"}, {"drop": "after"}, {"truncated_body": True}, {"code": "rate_limit_exceeded"}],
    ids=str,
)  # fmt: skip
async def test_a_read_survives_a_failure(sky: EmulatedCloud, fault: dict[str, object], monkeypatch) -> None:
    monkeypatch.setattr("ccm.hetzner.api.client.asyncio.sleep", no_sleep)
    api = sky.api(budget=Budget(limit=360_000))
    made = await sky.add_server("a")
    await sky.fault(method="GET", path="/servers/*", times=1, **fault)
    server = await api.get(f"/servers/{made['id']}", "server", Server, priority=NODES)
    assert server.name == "a"
    await api.close()


async def no_sleep(_: float) -> None:
    """The pauses are tested elsewhere."""


@pytest.mark.parametrize(("drop", "made"), [("before", 0), ("after", 1)])
async def test_a_change_is_never_repeated(sky: EmulatedCloud, api: HetznerApi, drop: str, made: int) -> None:
    await sky.fault(method="POST", path="/networks", drop=drop)
    await sky.forget_requests()
    body = {"name": "n", "ip_range": "10.0.0.0/8"}
    with pytest.raises(Unavailable):
        await api.request("POST", "/networks", body=body, priority=NODES)
    assert (await sky.counts())["POST /networks"] == 1
    await sky.heal()
    listing = await api.list("/networks", "networks", Network, priority=NODES)
    assert len(listing.items) == made


async def test_no_answer_in_time_is_an_error_and_repeats_no_change(sky: EmulatedCloud) -> None:
    api = sky.api(timeout=(1, 0.2))
    await sky.fault(method="POST", path="/networks", latency=1.0)
    await sky.forget_requests()
    with pytest.raises(Unavailable, match="no answer in time"):
        await api.request("POST", "/networks", body={"name": "n", "ip_range": "10.0.0.0/8"}, priority=NODES)
    while not (counts := await sky.counts()):  # noqa: ASYNC110 - it counts when it has ended
        await asyncio.sleep(0.02)
    assert counts == {"POST /networks": 1}
    await api.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [("unauthorized", AccessDenied), ("token_readonly", AccessDenied), ("forbidden", AccessDenied),
     ("locked", CloudBusy), ("conflict", CloudBusy), ("not_found", Rejected), ("invalid_input", Rejected),
     ("uniqueness_error", Rejected), ("resource_limit_exceeded", Rejected),
     ("server_error", CloudUnavailable), ("maintenance", CloudUnavailable), ("a_new_code", Rejected)],
)  # fmt: skip
async def test_the_error_of_each_code(
    sky: EmulatedCloud, api: HetznerApi, code: str, kind: type[Exception]
) -> None:
    status = 400 if code == "a_new_code" else 0
    await sky.fault(method="POST", path="/networks", code=code, status=status, message="because")
    with pytest.raises(kind, match=rf"POST /networks: because \({code}\)") as error:
        await api.request("POST", "/networks", body={"name": "n", "ip_range": "10.0.0.0/8"}, priority=NODES)
    assert isinstance(error.value, ApiError)
    assert error.value.code == code
    assert error.value.operation == "POST /networks"
    assert error.value.status >= 400


def test_a_used_up_quota_is_for_the_object_that_waits() -> None:
    error = api_error("GET /servers", 429, "rate_limit_exceeded", "limit of 3600 requests reached")
    assert isinstance(error, RateLimited)
    assert [notice.reason for notice in error.notices] == ["RateLimited"]
    assert "limit of 3600 requests reached" in error.notices[0].message


async def test_a_rejection_names_the_fields(api: HetznerApi) -> None:
    with pytest.raises(Refused, match="ip_range"):
        await api.request("POST", "/networks", body={"name": "n", "ip_range": "nonsense"}, priority=NODES)


async def test_a_wrong_token_is_reported_without_its_text(sky: EmulatedCloud) -> None:
    token = "w" * 64
    api = sky.api(token=token)
    with pytest.raises(Unauthorized) as error:
        await servers(api)
    assert token not in str(error.value)
    assert api.last_error is error.value
    await api.close()


async def test_an_api_that_is_not_there(sky: EmulatedCloud, monkeypatch) -> None:
    monkeypatch.setattr("ccm.hetzner.api.client.asyncio.sleep", no_sleep)
    api = HetznerApi(
        token=lambda: "t" * 64, endpoint="http://127.0.0.1:9/v1", metrics=sky.api()._metrics, budget=Budget()
    )
    with pytest.raises(Unavailable, match="could not connect, or the connection broke"):
        await servers(api)
    await api.close()


@pytest.mark.looptime
async def test_actions_are_awaited_together(sky: EmulatedCloud, api: HetznerApi) -> None:
    made = await asyncio.gather(*(sky.add_server(f"s{number}") for number in range(30)))
    await sky.admin("PUT", "/settings", {"actions": "realistic"})
    await sky.forget_requests()
    paths = [f"/servers/{server['id']}/actions/reboot" for server in made]
    actions = await asyncio.gather(*(api.act(path, priority=NODES) for path in paths))
    await asyncio.gather(*(api.wait(action, priority=NODES) for action in actions))
    counts = await sky.counts()
    assert counts["POST /servers/{id}/actions/reboot"] == 30
    assert counts["GET /actions"] <= 12
    assert set(counts) == {"POST /servers/{id}/actions/reboot", "GET /actions"}


@pytest.mark.looptime
@pytest.mark.parametrize("holds", [True, False])
async def test_waiting_with_a_former_token_fails(sky: EmulatedCloud, api: HetznerApi, *, holds: bool) -> None:
    """The other project would never tell how its action ends."""
    ours, theirs = await sky.add_server("ours"), sky.api(token=OTHER_TOKEN)
    body = {"name": "theirs", "server_type": "cpx22", "image": "debian-12", "location": "fsn1"}
    other = (await theirs.request("POST", "/servers", body=body, priority=NODES))["server"]
    await theirs.close()
    await sky.admin("PUT", "/settings", {"actions": "realistic"})
    path = "/servers/{}/actions/reboot"

    api.token.read = lambda: OTHER_TOKEN
    with api.token.hold() if holds else nullcontext():
        former = asyncio.create_task(
            api.wait(await api.act(path.format(other["id"]), priority=NODES), priority=NODES)
        )
        await asyncio.sleep(0)
    api.token.read = lambda: TOKEN
    with api.token.hold():
        await api.wait(await api.act(path.format(ours["id"]), priority=NODES), priority=NODES)
    with pytest.raises(TokenChanged):
        await asyncio.wait_for(former, 30)


async def test_every_request_is_counted(sky: EmulatedCloud) -> None:
    registry = CollectorRegistry()
    api = sky.api(registry=registry)
    with pytest.raises(NotFound):
        await api.get("/servers/999", "server", Server, priority=NODES)
    await servers(api)
    names = {"method": "get", "api_endpoint": "/servers/", "code": "404"}
    assert registry.get_sample_value("hcloud_api_requests_total", names) == 1
    ours = {"operation": "GET /servers/{id}", "code": "not_found"}
    assert registry.get_sample_value("ccm_hetzner_api_requests_total", ours) == 1
    ours = {"operation": "GET /servers", "code": "ok"}
    assert registry.get_sample_value("ccm_hetzner_api_requests_total", ours) == 1
    assert registry.get_sample_value("hcloud_api_in_flight_requests") == 0
    await api.close()


async def test_the_quota_metric_follows_the_budget(sky: EmulatedCloud) -> None:
    registry, now = CollectorRegistry(), 0.0
    sky.api(registry=registry, budget=(budget := Budget(clock=lambda: now)))

    def shown() -> list[float | None]:
        names = ("ccm_hetzner_api_quota_remaining", "ccm_hetzner_api_quota_limit")
        return [registry.get_sample_value(name) for name in names]

    assert shown() == [3600, 3600]
    budget.observe(7200, 100)
    assert shown() == [100, 7200]
    now = 10.0
    assert shown() == [120, 7200], "it fills up again without requests"


async def test_the_user_agent_is_our_own(sky: EmulatedCloud, api: HetznerApi) -> None:
    await sky.forget_requests()
    await servers(api)
    (request,) = (await sky.admin("GET", "/requests"))["requests"]
    assert request["user_agent"].startswith(f"ccm-from-scratch/{VERSION} ")


async def test_who_cancels_a_change_waits_until_it_has_happened(sky: EmulatedCloud) -> None:
    """Otherwise the next leader could look before the last one's change is there."""
    registry = CollectorRegistry()
    api = sky.api(registry=registry)
    body = {"name": "n", "ip_range": "10.0.0.0/8"}
    await sky.fault(method="POST", path="/networks", latency=0.3)
    changing = asyncio.create_task(api.request("POST", "/networks", body=body, priority=Priority.ROUTES))
    while not registry.get_sample_value("hcloud_api_in_flight_requests"):  # noqa: ASYNC110 - a metric
        await asyncio.sleep(0.01)
    changing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await changing
    assert [one["name"] for one in (await sky.call("GET", "/networks"))["networks"]] == ["n"]
    await api.close()
