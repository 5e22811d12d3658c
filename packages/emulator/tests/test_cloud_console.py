"""The console in a browser: its data, its controls, and its layout at three widths."""

import asyncio
import functools
import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from cloud_emulator import TOKEN, Emulator, Start
from playwright.async_api import Browser, Page, async_playwright, expect

from hetzner_emulator.resources.certificates.pem import issue
from sandbox import packages
from tests.child_processes import run

CHROMIUM = next(filter(None, map(shutil.which, packages.BROWSERS)), None)
SECONDS = 60
pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.skipif(
        bool(packages.missing({packages.BROWSER}, packages.on_this_host)),
        reason="no browser, or not all that it needs: './dev test' installs it or says how",
    ),
]
expect.set_options(timeout=SECONDS * 1000)
Open = Callable[..., Awaitable[Page]]


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        # Root has no sandbox of Chromium's; the only page is our own.
        started = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=SECONDS * 1000
        )
        yield started
        await started.close()


@pytest.fixture
async def cloud(start: Start) -> Emulator:
    """Four servers in a network with routes, and a load balancer for three of them."""
    emulator = await start(public_ipv4=IPv4Network("198.18.0.0/20"), rate_limit=3600)
    network = await emulator.make_network("net", "10.0.0.0/24")
    servers = [
        await emulator.make_server(name=name, networks=[network["id"]])
        for name in ("control", "worker-1", "worker-2", "worker-10")
    ]
    for number in range(4):
        route = {"destination": f"10.244.{number}.0/24", "gateway": f"10.0.0.{2 + number}"}
        await emulator.ok("POST", f"{network.path}/actions/add_route", route)
    labels = {"ccm-from-scratch/namespace": "shop", "ccm-from-scratch/service": "web"}
    service = {"protocol": "tcp", "listen_port": 80, "destination_port": 30080}
    behind = (servers[2], servers[0], servers[1])  # as the API keeps them
    targets = [{"type": "server", "server": {"id": one["id"]}, "use_private_ip": True} for one in behind]
    body = {"name": "a0b1c2d3e4f50617a7f1e9e2b6c3d445", "load_balancer_type": "lb11", "location": "fsn1"}
    body |= {"network": network["id"], "labels": labels, "services": [service], "targets": targets}
    await emulator.ok("POST", "/load_balancers", body)
    return emulator


@pytest.fixture
async def visit(cloud: Emulator, browser: Browser) -> Open:
    """Opens the page; whatever a script of it complains about fails the test."""

    async def open_page(width: int = 1000, scheme: Any = "light", token: str = TOKEN) -> Page:
        size: Any = {"width": width, "height": 900}
        page = await browser.new_page(viewport=size, color_scheme=scheme)
        page.on("pageerror", lambda error: pytest.fail(f"the page's script failed: {error}"))
        await page.goto(f"{cloud.server.make_url('/')}#token={token}", timeout=SECONDS * 1000)
        return page

    return open_page


def row(page: Page, table: str, name: str) -> Any:
    return page.locator(f"#{table} tr", has_text=name)


async def test_it_shows_all_objects_and_hides_the_token(visit: Open):
    page = await visit()
    await expect(page.locator("#problems")).to_have_text("✓ none")
    shown = await row(page, "balancers", "shop/web").inner_text()
    assert re.findall("(control|worker-[0-9]+) ✓\u00a080", shown) == ["control", "worker-1", "worker-2"]
    await expect(page.locator("#servers tr:not(.head) b")).to_have_text(
        ["control", "worker-1", "worker-2", "worker-10"]
    )
    await expect(page.locator("#networks")).to_contain_text("10.244.3.0/24 → 10.0.0.5 worker-10")
    assert "token" not in page.url


async def test_the_picture_has_a_line_for_each_target(visit: Open, cloud: Emulator):
    page = await visit()
    await expect(page.locator("#picture path.good")).to_have_count(3)
    await expect(page.locator("#picture")).to_contain_text("subnet 10.0.0.0/24 eu-central")
    await expect(page.locator("#picture text.name")).to_have_text(
        ["shop/web", "control", "worker-1", "worker-2", "worker-10"]
    )
    (balancer,) = await cloud.get("/load_balancers")
    body = {"type": "server", "server": {"id": balancer["targets"][0]["server"]["id"]}}
    await cloud.ok("POST", f"/load_balancers/{balancer['id']}/actions/remove_target", body)
    await expect(page.locator("#picture path.good")).to_have_count(2)


async def test_other_objects_are_shown_with_their_servers(visit: Open, cloud: Emulator):
    servers = await cloud.get("/servers")
    numbers = {one["name"]: one["id"] for one in servers}
    chain, key = issue(["shop.example.com"], 1_700_000_000)
    await cloud.ok("POST", "/certificates", {"name": "shop", "certificate": chain, "private_key": key})
    await cloud.ok("POST", "/volumes", {"name": "data", "size": 20, "server": numbers["worker-2"]})
    rule = {"direction": "in", "protocol": "tcp", "port": "443", "source_ips": ["2001:db8::/32"]}
    applied = [{"type": "server", "server": {"id": numbers["worker-10"]}}]
    await cloud.ok("POST", "/firewalls", {"name": "web", "rules": [rule], "apply_to": applied})
    address = (await cloud.make("/floating_ips", name="mail", type="ipv6", server=numbers["worker-1"]))["ip"]
    page = await visit()
    for table, name, *parts in (
        ("certificates", "shop", "shop.example.com", "uploaded", "✓"),
        ("volumes", "data", "20 GB", "worker-2", "available"),
        ("firewalls", "web", "in tcp 443 2001:db8::/32", "worker-10"),
        ("floating_ips", "mail", address, "worker-1"),
        ("servers", "worker-10", servers[3]["public_net"]["ipv6"]["ip"]),
        ("balancers", "shop/web", "2001:db8:"),
    ):
        for part in parts:
            await expect(row(page, table, name)).to_contain_text(part)


async def test_nothing_moves_when_something_changes(visit: Open, cloud: Emulator):
    page = await visit()
    power = page.get_by_role("button", name=re.compile("Power (on|off) worker-10"))
    for problem in ("worker-10 is off", "none", "worker-10 is off"):
        await power.click()
        await expect(page.locator("#problems")).to_contain_text(problem)
    # Lists of what happened begin with the latest; their titles stay, and so does all else.
    places = """() => Object.fromEntries([...document.querySelectorAll("h2, [data-key]")]
        .filter(one => !one.closest("#actions, #requests"))
        .map(one => [one.id || `${one.closest("table").id} ${one.dataset.key}`, one])
        .map(([name, one]) => [name, one.getBoundingClientRect().y]))"""
    before = await page.evaluate(places)
    assert {"servers-title", "counts POST /networks"} <= before.keys()
    for _ in range(9):  # as many as of no other operation
        await cloud.refused("POST", "/networks", {"name": "without a range"})
    await power.click()
    await expect(page.locator("#problems")).to_have_text("✓ none")
    await expect(row(page, "counts", "POST /networks").first).to_contain_text("10")
    after = await page.evaluate(places)
    assert {name: (y, after.get(name)) for name, y in before.items() if after.get(name) != y} == {}


async def test_many_healthy_targets_share_a_line(visit: Open, cloud: Emulator):
    (network,) = await cloud.get("/networks")
    made = [await cloud.make_server(name=f"big-{n}", networks=[network["id"]]) for n in range(1, 13)]
    body = {"load_balancer_type": "lb11", "location": "fsn1", "network": network["id"]}
    body |= {"services": [{"protocol": "tcp", "listen_port": 80, "destination_port": 30080}]}
    body |= {"targets": [{"type": "server", "server": {"id": one["id"]}} for one in made]}
    for number in range(10):
        await cloud.ok("POST", "/load_balancers", {"name": f"edge-{number}", **body})
    page = await visit()
    shown = row(page, "balancers", "edge-4")
    await expect(shown.locator("summary")).to_have_text("✓\u00a012 of 12 healthy")
    assert "big-11" not in await shown.inner_text()
    await shown.locator("summary").click()
    await expect(shown).to_contain_text("big-11 ✓\u00a080")
    # as with a hundred lines that are all green
    await expect(page.locator("#picture")).to_contain_text("123 lines to healthy targets are not drawn")
    await expect(page.locator("#picture path")).to_have_count(0)
    await page.get_by_role("button", name="Power off big-11").click()
    await expect(shown).to_contain_text("big-11 ✗\u00a080 unhealthy")
    await expect(shown.locator("summary")).to_have_text("✓\u00a011 of 12 healthy")
    await expect(page.locator("#picture path.bad")).to_have_count(10)


async def test_a_fault_rule_is_added_applied_and_removed(visit: Open, cloud: Emulator):
    page = await visit()
    await page.get_by_label("Path").fill("/ssh_keys")
    await page.get_by_label("Effect").select_option(label="423 locked")
    await page.get_by_label("Times").fill("2")
    await page.get_by_role("button", name="Add").click()
    await expect(page.locator("#faults")).to_contain_text("* /ssh_keys")
    await cloud.expect("locked", "GET", "/ssh_keys")
    await expect(page.locator("#problems")).to_contain_text("applied to 1 of 1")
    await page.get_by_role("button", name="Remove fault rule 1").click()
    await expect(page.locator("#faults")).to_contain_text("no fault rules")
    await cloud.ok("GET", "/ssh_keys")


async def test_errors_are_shown(visit: Open):
    page = await visit()
    await page.get_by_label("Path").fill("*")
    await page.get_by_role("button", name="Add").click()
    await expect(page.locator("#faults")).to_contain_text("* *")
    await page.get_by_role("button", name="Reboot control").click()
    await expect(page.locator("#said")).to_have_text("✗ fault injected by the sandbox")


async def test_every_curl_command_does_the_same_as_its_control(visit: Open, cloud: Emulator):
    page = await visit()
    button = functools.partial(page.get_by_role, "button")
    calls, typed = set(), set()

    async def type_the_line_of(control: Any) -> None:
        typed.add(await control.get_attribute("data-call"))
        await control.focus()
        shown = page.locator("[data-call]")
        calls.update(await shown.evaluate_all("all => all.map(one => one.dataset.call)"))
        line = await page.locator("#curl").inner_text()
        command, environment = ["bash", "-c", f"{line} --fail"], {**os.environ, "HCLOUD_TOKEN": TOKEN}
        done = await asyncio.to_thread(run, command, env=environment)
        assert not done.returncode, (line, done)

    await type_the_line_of(button(name="Reboot worker-10"))
    await type_the_line_of(button(name="Power off worker-10"))
    await expect(row(page, "servers", "worker-10")).to_contain_text("✗\u00a0off")
    await type_the_line_of(button(name="Power on worker-10"))
    await expect(row(page, "servers", "worker-10")).to_contain_text("running")
    await page.get_by_label("Path").fill("/servers/{id}")
    await page.get_by_label("Effect").select_option(label="response delayed by 5 s")
    await type_the_line_of(button(name="Add"))
    (added,) = await cloud.get("/_sandbox/faults")
    assert (added["path"], added["latency"]) == ("/servers/{id}", 5)
    await type_the_line_of(button(name="Remove fault rule 1"))
    await expect(page.locator("#faults")).to_contain_text("no fault rules")
    speed = page.get_by_label("Action speed")
    await speed.focus()  # so that the page leaves it at what is chosen
    await speed.select_option("slow")
    await expect(page.locator("#said")).to_contain_text("done")
    await cloud.ok("PUT", "/_sandbox/settings", {"actions": "instant"})
    await type_the_line_of(speed)
    assert (await cloud.ok("GET", "/_sandbox/settings"))["actions"] == "slow"
    assert typed == calls, "this test doesn't use every control of the page"


async def test_every_control_works_with_the_keyboard(visit: Open):
    page = await visit()
    focused = "document.activeElement.ariaLabel ?? document.activeElement.title"
    for _ in range(200):
        await page.keyboard.press("Tab")
        if await page.evaluate(focused) == "Power off worker-10":
            break
    await expect(page.get_by_role("button", name="Power off worker-10")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("#problems")).to_contain_text("worker-10 is off")
    assert (await page.title()).startswith("(1)")
    said = await page.locator("#curl").inner_text()
    assert "$HCLOUD_TOKEN" in said
    assert TOKEN not in said
    await page.get_by_label("Path").focus()
    await page.keyboard.type("/ssh_keys")
    await page.keyboard.press("Enter")
    await expect(page.locator("#faults")).to_contain_text("* /ssh_keys")


async def test_requests_can_be_filtered_opened_and_paused(visit: Open, cloud: Emulator):
    page = await visit()
    await cloud.call("GET", "/servers/77")
    await page.get_by_label("Filter").fill("404")
    entries = page.locator("#requests tr[data-key]")
    await expect(entries).to_have_count(1)
    await entries.locator("summary").click()
    await page.get_by_label("Pause").check()
    await cloud.call("GET", "/servers/78")
    await cloud.ok("POST", "/_sandbox/faults", {"path": "/never", "code": "locked"})
    await expect(page.locator("#faults")).to_contain_text("/never")
    await expect(entries).to_have_count(1)
    await expect(entries).to_contain_text("correlation ID")
    await page.get_by_label("Pause").uncheck()
    await expect(entries).to_have_count(2)
    await expect(entries.nth(1).locator("details")).to_have_attribute("open", "")


async def test_a_focused_button_keeps_the_focus_after_an_update(visit: Open, cloud: Emulator):
    page = await visit()
    button = page.get_by_role("button", name="Reboot control")
    await button.focus()
    await cloud.make_server(name="a-first-one")
    await expect(page.locator("#servers")).to_contain_text("a-first-one")
    await expect(button).to_be_focused()
    await expect(page.locator("#curl")).to_contain_text("/actions/reboot")


async def test_names_are_escaped(visit: Open, cloud: Emulator):
    page = await visit()
    hostile = "<img src=x onerror=document.title='struck'>"
    await cloud.ok("POST", "/networks", {"name": hostile, "ip_range": "10.9.0.0/24"})
    await expect(page.locator("#networks")).to_contain_text(hostile)
    assert await page.locator("#networks img, #picture img").count() == 0


async def test_an_invalid_token_shows_where_to_get_one(visit: Open):
    page = await visit(token="wrong")
    await expect(page.locator("#stale")).to_contain_text("Open the address that './dev status'")
    for part in ("#main", "#speed", "#fault"):
        await expect(page.locator(part)).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1000, 2500])
async def test_the_layout_fits_and_is_accessible(visit: Open, tmp_path: Path, width: int, scheme: str):
    page = await visit(width, scheme)
    await page.get_by_role("button", name="Power off worker-10").click()
    await expect(page.locator("#problems")).to_contain_text("worker-10 is off")
    # continuous integration keeps what lies there
    artefacts = Path(os.environ.get("CCMFS_ARTEFACTS") or tmp_path)
    await page.screenshot(path=artefacts / f"console-{width}-{scheme}.png", full_page=True)
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
    found = await Axe().run(page)
    assert [f"{one['id']}: {one['help']}" for one in found.response["violations"]] == []
