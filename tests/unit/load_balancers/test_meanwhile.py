import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from balancer_site import LABEL, UID, BalancerSite, number, targets, view

from ccm.cloud import AccessDenied, CloudError, ServicePort, ServiceView
from ccm.hetzner.api import Priority

PATH = "/load_balancers"
OTHER_UID = "66666666-7777-8888-9999-000000000000"
THIRD_UID = "aaaaaaaa-7777-8888-9999-000000000000"


def just_before(site: BalancerSite, path: str, meanwhile: Callable[[], Awaitable[Any]]) -> None:
    """Have something happen just before the next request for a change goes out."""
    api, pending = site.balancers.inventory.api, [meanwhile]
    request = api.request

    async def changing(method: str, where: str, *args: Any, **more: Any) -> Any:
        if (method, where) == ("POST", path) and pending:
            await pending.pop()()
        return await request(method, where, *args, **more)

    api.request = changing  # type: ignore[method-assign]


def having(site: BalancerSite, path: str, service: ServiceView) -> list[asyncio.Task[Any]]:
    """Have another Service want something just before the next request for a change goes out, and get it.

    Returns:
        The one task of that, once it has begun; it may be waiting for its turn.
    """
    tasks: list[asyncio.Task[Any]] = []

    async def begin() -> None:
        tasks.append(asyncio.create_task(site.ensure(service)))
        await asyncio.wait(tasks, timeout=1)  # whoever waits for its turn does not end meanwhile

    just_before(site, path, begin)
    return tasks


async def test_joining_a_shared_one_waits_while_its_only_service_leaves(site: BalancerSite) -> None:
    await site.add_nodes("a")
    await site.ensure(view("third", 82, uid=THIRD_UID, annotations={"share": "yard"}))
    yard = await site.one()
    await site.ensure(view(annotations={"share": "edge"}))
    [edge] = [one for one in await site.all() if one["id"] != yard["id"]]
    joining = view("other", 81, uid=OTHER_UID, annotations={"share": "edge"})
    tasks = having(site, f"/load_balancers/{yard['id']}/actions/add_service", joining)
    await site.ensure(view(annotations={"share": "yard"}))
    await tasks[0]
    _, joined = await site.all()
    assert joined["id"] != edge["id"]
    assert joined["labels"][LABEL] == OTHER_UID
    assert joined["labels"]["ccm-from-scratch/port-81"] == OTHER_UID
    assert [one["listen_port"] for one in joined["services"]] == [81]


async def test_a_service_of_another_process_keeps_the_shared_one(site: BalancerSite) -> None:
    await site.add_nodes("a")
    await site.ensure(view(annotations={"share": "edge"}))
    edge = await site.one()
    await site.ensure(view("third", 82, uid=THIRD_UID, annotations={"share": "yard"}))
    yard = max(one["id"] for one in await site.all())

    async def joins() -> None:
        labels = {**edge["labels"], "ccm-from-scratch/port-81": OTHER_UID}
        await site.sky.call("PUT", f"/load_balancers/{edge['id']}", {"labels": labels})
        await site.balancers.inventory.look(edge["id"])

    just_before(site, f"/load_balancers/{yard}/actions/add_service", joins)
    await site.ensure(view(annotations={"share": "yard"}))
    left = {one["id"]: one for one in await site.all()}[edge["id"]]
    assert left["labels"][LABEL] == OTHER_UID
    assert left["labels"]["ccm-from-scratch/port-81"] == OTHER_UID


@pytest.mark.parametrize("leaves", ["deleted", "alone"])
async def test_leaving_a_shared_one_keeps_the_others_parts(site: BalancerSite, leaves: str) -> None:
    """Labels are written all at once: who writes what it read before takes back what others wrote since."""
    shared = {"share": "edge"}
    await site.ensure(view("is_owner", 80, uid=OTHER_UID, annotations=shared))
    await site.ensure(view("web", 81, annotations=shared))
    edge = await site.one()
    grown = view("is_owner", 80, 82, uid=OTHER_UID, annotations=shared)
    growing = having(site, f"/load_balancers/{edge['id']}/actions/delete_service", grown)
    if leaves == "deleted":
        await site.balancers.delete(view("web", 81))
    else:
        await site.ensure(view("web", 81))
    await growing[0]
    left = {one["id"]: one for one in await site.all()}[edge["id"]]
    assert {key: uid for key, uid in left["labels"].items() if "/port-" in key} == {
        "ccm-from-scratch/port-80": OTHER_UID,
        "ccm-from-scratch/port-82": OTHER_UID,
    }
    assert [one["listen_port"] for one in left["services"]] == [80, 82]
    result = await site.ensure(grown)
    assert (result.steps, result.notices) == ((), ())


async def test_a_service_is_worked_on_by_one_at_a_time_whatever_it_shares_by_then(site: BalancerSite) -> None:
    words = ["edge", "yard", "", "edge", "yard"]
    await asyncio.gather(*(site.ensure(view(annotations={"share": word} if word else {})) for word in words))
    balancer = await site.one()
    assert balancer["labels"]["ccm-from-scratch/share"] == "yard"
    assert (await site.ensure(view(annotations={"share": "yard"}))).steps == ()


@pytest.mark.parametrize(
    "labels",
    [
        {LABEL: UID, "ccm-from-scratch/cluster": "c2", "ccm-from-scratch/namespace": "shop"},
        {"ccm-from-scratch/port-80": UID, LABEL: OTHER_UID},
        {},
    ],
    ids=["of another cluster", "of another Service", "without owner"],
)
async def test_a_name_taken_meanwhile_gives_nothing_away(site: BalancerSite, labels: dict[str, str]) -> None:
    name = ("a" + UID.replace("-", ""))[:32]
    just_before(site, PATH, lambda: site.make(name, labels=labels))
    with pytest.raises(CloudError):
        await site.ensure(view())
    theirs = await site.one()
    assert theirs["labels"] == labels
    assert not theirs["services"]


async def test_a_name_that_is_taken_does_not_make_the_shared_one_the_services_own(site: BalancerSite) -> None:
    await site.ensure(view("other", 81, uid=OTHER_UID, annotations={"share": "edge"}))
    await site.ensure(view(annotations={"share": "edge"}))
    before = await site.one()
    just_before(site, PATH, lambda: site.make("mine"))
    with pytest.raises(CloudError):
        await site.ensure(view(annotations={"name": "mine"}))
    after = {one["id"]: one for one in await site.all()}[before["id"]]
    assert after["labels"] == before["labels"]
    assert after["services"] == before["services"]
    assert after["name"] == before["name"]


async def test_a_name_taken_by_our_own_lost_request_is_found_at_once(site: BalancerSite) -> None:
    await site.add_nodes("a")
    lost = {LABEL: UID, "ccm-from-scratch/cluster": "c1", "ccm-from-scratch/namespace": "shop"}
    just_before(site, PATH, lambda: site.make(("a" + UID.replace("-", ""))[:32], labels=lost))
    await site.ensure(view())
    balancer = await site.one()
    assert [one["listen_port"] for one in balancer["services"]] == [80]
    assert len(balancer["targets"]) == 1


async def test_wrong_annotations_leave_the_shared_one_alone(site: BalancerSite) -> None:
    await site.ensure(view("other", 81, uid=OTHER_UID, annotations={"share": "edge"}))
    await site.ensure(view(annotations={"share": "edge"}))
    before = await site.one()
    with pytest.raises(CloudError, match="share"):
        await site.ensure(view("web", ServicePort(53, 30053, "UDP"), annotations={"share": "ed ge"}))
    after = await site.one()
    assert after["labels"] == before["labels"]
    assert after["services"] == before["services"]


@pytest.mark.parametrize("ours", [True, False])
async def test_a_recreated_network_is_followed_in_the_same_project(site: BalancerSite, *, ours: bool) -> None:
    """As where Terraform replaces it. In another project, one of the same name is a stranger's."""
    servers = [number(node) for node in await site.add_nodes("a", "b")]
    await site.restart()
    private = {"use-private-ip": "true"}
    await site.ensure(view(annotations=private))
    table = await site.cloud.routes.list(accepted_age=0)
    assert len(table.machines) == 2
    await site.sky.call("DELETE", f"/networks/{site.network}")
    other = await site.sky.network("net")
    for server in servers:
        if ours:
            await site.sky.call("POST", f"/servers/{server}/actions/attach_to_network", {"network": other})
        else:
            await site.sky.call("DELETE", f"/servers/{server}")
    await site.balancers.inventory.balancers.read(0.0, Priority.SWEEP)  # half a minute later
    if not ours:
        await site.sky.add_server("a", networks=[other])
        with pytest.raises(AccessDenied):
            await site.cloud.routes.list(accepted_age=0)
        with pytest.raises(AccessDenied):
            await site.ensure(view(annotations={**private, "algorithm-type": "least_connections"}))
        return
    await site.ensure(view(annotations={**private, "algorithm-type": "least_connections"}))
    balancer = await site.one()
    assert [one["network"] for one in balancer["private_net"]] == [other]
    assert targets(balancer) == dict.fromkeys(servers, True)
    assert len((await site.cloud.routes.list(accepted_age=0)).machines) == 2
    assert site.cloud.healthy() is None
