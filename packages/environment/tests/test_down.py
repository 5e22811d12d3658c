import asyncio
import io

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from rich.console import Console

from ccm_pulumi.config import labels
from ccm_pulumi.lib import ownership
from hetzner_emulator.app import create_app
from hetzner_emulator.backend import RecordsBackend
from hetzner_emulator.config import CloudConfig
from sandbox import console, leftovers
from sandbox.commands.down import agree_to_lose, refuse_leftovers
from sandbox.errors import SandboxError
from sandbox.leftovers import CloudObject, cloud_object

MINE = [CloudObject("load_balancers", 1, "web", ours=False), CloudObject("servers", 2, "box", ours=False)]
OURS = {labels.MANAGED_BY: labels.MANAGER}
BY_CCM = {ownership.SERVICE_UID: "u1"}


@pytest.fixture
def steps():
    return console.Steps(Console(file=io.StringIO(), width=200))


def said(steps):
    return steps._console.file.getvalue()


@pytest.mark.parametrize(
    ("marks", "protected", "ours"),
    [
        (OURS, False, True),
        (OURS, True, True),
        (BY_CCM, False, True),
        # 'pulumi destroy' leaves these two, and the CCM does
        (BY_CCM, True, False),
        ({**BY_CCM, ownership.ADOPTED: "true"}, False, False),
        ({}, False, False),
        ({labels.MANAGED_BY: "terraform"}, False, False),
    ],
)
def test_resources_of_the_environment(marks, protected, ours):
    item = {"id": 7, "name": "lb", "labels": marks, "protection": {"delete": protected}}
    assert cloud_object("load_balancers", item) == CloudObject("load_balancers", 7, "lb", ours)


@pytest.mark.parametrize("marks", [BY_CCM, {**BY_CCM, ownership.CLUSTER: "dev"}])
def test_certificates_of_the_ccm(marks):
    item = {"id": 7, "name": "shop", "labels": marks}
    assert cloud_object("certificates", item).ours is (ownership.CLUSTER in marks)


def test_other_resources_need_a_confirmation(steps):
    agree_to_lose([], steps, question=lambda _: pytest.fail("asked"))
    assert said(steps) == ""
    agree_to_lose(MINE, steps, question=lambda _: True)
    assert "load balancer web, server box" in said(steps)
    with pytest.raises(SandboxError, match="nothing was removed"):
        agree_to_lose(MINE, steps, question=lambda _: False)
    agree_to_lose(MINE, steps, question=None)
    assert said(steps).count("load balancer web") == 3


@pytest.mark.parametrize(
    ("typed", "yes"), [("y\n", True), ("YES\n", True), ("\n", False), ("ja\n", False), ("", False)]
)
def test_only_yes_is_yes(monkeypatch, typed, yes):
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert console.question("Delete these objects, too?") is yes


def test_resources_left_by_the_environment_are_a_failure():
    refuse_leftovers(MINE, MINE)
    left = CloudObject("networks", 1, "dev", ours=True)
    with pytest.raises(SandboxError, match=r"still in the cloud: network dev\. "):
        refuse_leftovers([*MINE, left], MINE)


async def test_all_pages_are_read(site):
    """Beyond a page, and without the addresses that servers bring along."""
    app = create_app(
        CloudConfig(tokens={site.token: "default"}, rate_limit=0, limits={"placement_groups": 51}),
        RecordsBackend(),
    )
    async with TestServer(app, port=site.port) as server:
        headers = {"Authorization": f"Bearer {site.token}"}
        async with aiohttp.ClientSession(headers=headers, raise_for_status=True) as session:

            async def make(kind, **body):
                await session.post(server.make_url(f"/v1/{kind}"), json=body)

            box = {"server_type": "cpx22", "image": "ubuntu-24.04", "location": "fsn1"}
            await make("servers", name="box", **box)
            await make("servers", name="c--burst-1", labels={"hcloud/node-group": "c--burst"}, **box)
            await make("primary_ips", name="kept", type="ipv4", location="fsn1", auto_delete=False)
            for number in range(51):
                await make("placement_groups", name=f"group-{number}", type="spread", labels=OURS)
        found = await asyncio.to_thread(leftovers.in_cloud, site)
    assert [str(item) for item in found if not item.ours] == ["server box", "primary ip kept"]
    assert sum(item.ours for item in found) == 52
