import itertools
from dataclasses import replace

import pytest
from balancer_site import LABEL, BalancerSite, view
from test_certificates import MANAGED, certificates

from ccm.cloud import CloudError, ServiceView

ADDRESS = "203.0.113.250"


async def with_status(site: BalancerSite, service: ServiceView) -> ServiceView:
    """The Service with the addresses that its status has by now."""
    return replace(service, addresses=tuple(entry.ip for entry in (await site.ensure(service)).ingress))


async def unlabel(site: BalancerSite) -> None:
    number = (await site.one())["id"]
    await site.sky.call("PUT", f"/load_balancers/{number}", {"labels": {"team": "shop"}})


class TestAfterAFailure:
    @pytest.mark.parametrize("restarted", [False, True])
    @pytest.mark.parametrize("kind", ["protected", "adopted", "deleted"])
    async def test_certificates_that_can_not_be_listed(
        self, site: BalancerSite, kind: str, *, restarted: bool
    ) -> None:
        if kind == "adopted":
            await site.make("theirs")
        annotations = {"protected": {"delete-protection": "true"}, "adopted": {"adopt": "theirs"}}
        service = await with_status(site, view("web", annotations=annotations.get(kind)))
        await site.sky.fault(method="GET", path="/certificates", code="service_error", times=1)
        with pytest.raises(CloudError, match="service_error"):
            await site.balancers.delete(service)
        if restarted:
            await site.restart()
        assert (await site.balancers.delete(service)).steps == ()
        assert [LABEL in one["labels"] for one in await site.all()] == [False] * (kind != "deleted")

    async def test_a_certificate_that_can_not_be_deleted_is_tried_again(self, site: BalancerSite) -> None:
        service = await with_status(site, view("web", 443, annotations=MANAGED))
        await site.sky.fault(method="DELETE", path="/certificates/*", code="service_error", times=1)
        with pytest.raises(CloudError, match="service_error"):
            await site.balancers.delete(service)
        assert await site.all() == []
        assert (await site.balancers.delete(service)).steps[0].startswith("delete managed certificate")
        assert await certificates(site) == []


class TestLabelsThatSomebodyTookAway:
    @pytest.mark.parametrize("restarted", [False, True])
    @pytest.mark.parametrize("network", [False, True])
    async def test_it_stays_without_the_service(
        self, site: BalancerSite, *, restarted: bool, network: bool
    ) -> None:
        await site.restart(network=network)
        service = await with_status(site, view())
        await unlabel(site)
        before = await site.one()
        if restarted:
            await site.restart(network=network)
        result = await site.balancers.delete(service)
        assert result.steps == ()
        [notice] = result.notices
        assert notice.reason == "LoadBalancerReleased"
        assert f"({before['id']}) is not deleted, because the labels" in notice.message
        assert await site.one() == before

    async def test_a_list_that_lacks_it_for_a_moment_leaves_nothing_behind(self, site: BalancerSite) -> None:
        service = await with_status(site, view())
        site.balancers.inventory.invalid.add(service.uid)
        await site.sky.fault(method="GET", path="/load_balancers", empty_listing=True, times=2)
        assert (await site.balancers.delete(service)).steps
        assert await site.all() == []

    async def test_an_unused_address_proves_nothing(self, site: BalancerSite) -> None:
        """Without a network only what was seen tells that this is the right project."""
        await site.restart(network=False)
        with pytest.raises(CloudError, match="another project"):
            await site.balancers.delete(view(addresses=(ADDRESS,)))


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("many", [False, True], ids=["few others", "several pages of others"])
async def test_it_takes_the_official_ccms_requests(
    site: BalancerSite, *, restarted: bool, many: bool
) -> None:
    """Its: two lists and a deletion. The controller looks before it deletes; here its list is always old."""
    service = await with_status(site, view("web", 80, annotations={"location": "fsn1"}))
    for index in range(60 if many else 0):
        await site.make(f"other-{index}")
    if restarted:
        await site.restart()
    ticks = itertools.count()  # a busy machine must not make the controller's look an old one
    site.balancers.inventory.balancers._clock = lambda: next(ticks) / 1000
    site.balancers.inventory.balancers._taken_at = None
    await site.sky.forget_requests()
    assert await site.balancers.find(service) is not None
    assert len((await site.balancers.delete(service)).steps) == 1
    assert await site.requests() <= 3 + many
