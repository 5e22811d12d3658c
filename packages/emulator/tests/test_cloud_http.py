import json
from io import BytesIO

import pytest
from cloud_emulator import OTHER_TOKEN, READ_TOKEN, TOKEN, Emulator, Start

from hetzner_emulator.traffic.limiter import RateLimiter


async def test_requests_need_a_known_token_and_method(emulator: Emulator):
    for method in ("GET", "PATCH"):
        await emulator.expect((401, "unauthorized"), method, "/servers", token=None)
    await emulator.expect("method_not_allowed", "PATCH", "/servers")
    wrong = await emulator.refused("GET", "/servers", token="x" * 64)
    assert wrong["message"] == "the token you have provided is invalid"
    assert wrong["details"] == {}


async def test_unknown_paths_are_refused_before_the_token_is_checked(emulator: Emulator):
    response = await emulator.call("GET", "/nothing", token=None)
    assert response.status == 404
    assert response.headers["Content-Type"] == "application/json; charset=UTF-8"
    text = await response.text()
    assert json.loads(text)["error"]["message"] == "api route not found"
    assert "\n" in text


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe{}", b"[" * 100_000, b'"' + b"x" * 3_000_000 + b'"'])
async def test_broken_json(emulator: Emulator, body):
    url = f"{emulator.endpoint}/ssh_keys"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with emulator.session.post(url, data=BytesIO(body), headers=headers) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (400, "json_error")


@pytest.mark.parametrize("body", [[], "text", 7])
async def test_bodies_must_be_objects(emulator: Emulator, body):
    await emulator.expect("invalid_input", "POST", "/networks", body)


async def test_all_wrong_fields_are_reported_at_once(emulator: Emulator):
    error = await emulator.refused("POST", "/networks", {"ip_range": "10.0.0.1/8", "labels": {"-": "x"}})
    assert [field["name"] for field in error["details"]["fields"]] == ["name", "labels", "ip_range"]
    assert error["message"] == "invalid input in fields 'name', 'labels', 'ip_range'"
    body = {"server_type": "cx23", "public_net": {"enable_ipv4": 0}, "firewalls": [{}], "volumes": ["x"]}
    error = await emulator.refused("POST", "/servers", body)
    wrong = {"name", "image", "public_net.enable_ipv4", "firewalls.0.firewall", "volumes"}
    assert {field["name"] for field in error["details"]["fields"]} == wrong


async def test_a_read_only_token_cannot_write(emulator: Emulator):
    await emulator.ok("GET", "/servers", token=READ_TOKEN)
    body = {"name": "n", "ip_range": "10.0.0.0/8"}
    await emulator.expect((403, "forbidden"), "POST", "/networks", body, token=READ_TOKEN)


async def test_projects_do_not_see_each_other_and_invalid_ids_are_not_found(emulator: Emulator):
    for identity in ("0", "abc", "99999999999999999999999", "-1"):
        await emulator.expect("not_found", "GET", f"/servers/{identity}")
    server = await emulator.make_server()
    assert await emulator.get("/servers", token=OTHER_TOKEN) == []
    error = await emulator.refused("GET", server.path, token=OTHER_TOKEN)
    assert error["message"] == f"server with ID '{server['id']}' not found"


async def test_every_answer_has_a_correlation_id_and_the_quota(start: Start):
    emulator = await start(rate_limit=3600)
    first, second = await emulator.call("GET", "/servers"), await emulator.call("GET", "/servers")
    assert first.headers["X-Correlation-Id"] != second.headers["X-Correlation-Id"]
    assert (first.headers["RateLimit-Limit"], first.headers["RateLimit-Remaining"]) == ("3600", "3599")
    assert int(second.headers["RateLimit-Reset"]) >= int(emulator.cloud.now())


async def test_an_exhausted_quota(start: Start):
    emulator = await start(rate_limit=3)
    for _ in range(3):
        await emulator.ok("GET", "/servers")
    response = await emulator.call("GET", "/servers")
    assert response.status == 429
    assert (await response.json())["error"]["code"] == "rate_limit_exceeded"
    assert response.headers["RateLimit-Remaining"] == "0"
    await emulator.ok("GET", "/servers", token=OTHER_TOKEN)


def test_the_quota_refills_gradually():
    limiter = RateLimiter(3600)
    assert all(limiter.take("p", 0.0) for _ in range(3600))
    assert not limiter.take("p", 0.5)
    assert limiter.take("p", 1.6)
    assert limiter.headers("p", 1.6)["RateLimit-Remaining"] == "0"
    assert limiter.remaining("p", 10_000) == 3600


async def test_data_centers_were_removed_and_storage_boxes_are_refused(emulator: Emulator):
    for path in ("/datacenters", "/datacenters/1"):
        error = await emulator.refused("GET", path)
        assert (error["status"], error["code"]) == (410, "deprecated_api_endpoint")
        assert error["details"]["announcement"].startswith("https://docs.hetzner.cloud/changelog")
    for method, path in (
        ("POST", "/storage_boxes"),
        ("POST", "/storage_boxes/1/subaccounts/2/actions/reset_subaccount_password"),
        ("GET", "/storage_box_types/1"),
    ):
        await emulator.expect((501, "unsupported_error"), method, path)
    await emulator.expect("not_found", "GET", "/storage_boxes/1/2/3/4/5/6")


async def test_images_by_architecture_and_deprecation(emulator: Emulator):
    arm = await emulator.get("/images?name=debian-12&architecture=arm")
    assert [image["architecture"] for image in arm] == ["arm"]
    assert await emulator.get("/images?name=debian-11") == []
    assert len(await emulator.get("/images?name=debian-11&include_deprecated=true")) == 1
    assert await emulator.get("/images?type=snapshot") == []
    assert await emulator.get("/images/114690387/actions") == []
