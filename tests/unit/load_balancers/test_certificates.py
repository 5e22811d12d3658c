import asyncio
from typing import Any

import pytest
from balancer_site import LABEL, UID, BalancerSite, upload, view

from ccm.cloud import CloudError

MANAGED = {
    "protocol": "https",
    "certificate-type": "Managed",
    "http-managed-certificate-domains": "shop.example.com, www.shop.example.com",
}
OTHER_DOMAINS = {"port.8443.http-managed-certificate-domains": "other.example.com"}


async def certificates(site: BalancerSite) -> list[dict[str, Any]]:
    return (await site.sky.call("GET", "/certificates"))["certificates"]


async def managed(site: BalancerSite, name: str, labels: dict[str, str], *domains: str) -> int:
    """One that somebody else had issued."""
    body = {
        "name": name,
        "type": "managed",
        "domain_names": list(domains) or ["a.example.com"],
        "labels": labels,
    }
    return (await site.sky.call("POST", "/certificates", body))["certificate"]["id"]


def used(balancer: dict[str, Any]) -> dict[int, list[int]]:
    return {one["listen_port"]: one.get("http", {}).get("certificates", []) for one in balancer["services"]}


class TestUploaded:
    async def test_of_two_that_fail_for_one_reason_each_has_its_own_address(self, site: BalancerSite) -> None:
        """One list of certificates serves all who wait for it, and so does its failure."""
        https = {"port.443.protocol": "https", "port.443.http-certificates": "one"}
        in_part = view("part", 80, 443, annotations=https)
        not_at_all = view("none", 443, uid=UID[::-1], annotations=https)
        await site.sky.fault(method="GET", path="/certificates", code="forbidden", status=403, times=99)
        failed = await asyncio.gather(site.ensure(in_part), site.ensure(not_at_all), return_exceptions=True)
        [serving] = [one for one in await site.all() if one["services"]]
        some, none = (one.ingress for one in failed if isinstance(one, CloudError))
        assert serving["public_net"]["ipv4"]["ip"] in {one.ip for one in some}
        assert none == ()


class TestManaged:
    async def test_requested_once_and_used(self, site: BalancerSite) -> None:
        service = view("web", 443, annotations=MANAGED)
        await site.ensure(service)
        [certificate] = await certificates(site)
        assert certificate["name"] == f"ccm-managed-certificate-{UID}"
        assert certificate["labels"][LABEL] == UID
        assert certificate["domain_names"] == ["shop.example.com", "www.shop.example.com"]
        assert used(await site.one()) == {443: [certificate["id"]]}
        assert (await site.ensure(service)).steps == ()
        await site.restart()
        assert (await site.ensure(service)).steps == ()

    async def test_where_one_of_two_is_refused_the_other_serves(self, site: BalancerSite) -> None:
        service = view("web", 443, 8443, annotations=MANAGED | OTHER_DOMAINS)
        await site.sky.fault(method="POST", path="/certificates", code="invalid_input", times=1)
        with pytest.raises(CloudError):
            await site.ensure(service)
        [certificate] = await certificates(site)
        assert used(await site.one()) == {8443: [certificate["id"]]}
        assert (await site.sky.counts())["POST /load_balancers"] == 1
        await site.ensure(service)
        assert used(await site.one()).keys() == {443, 8443}

    async def test_one_that_is_refused_is_no_reason_to_request_the_next(self, site: BalancerSite) -> None:
        ports = range(1000, 1020)
        domains = {f"port.{port}.http-managed-certificate-domains": f"x{port}.example.com" for port in ports}
        await site.sky.fault(
            method="POST", path="/certificates", code="resource_limit_exceeded", status=403, times=99
        )
        with pytest.raises(CloudError):
            await site.ensure(view("web", *ports, annotations={**MANAGED, **domains}))
        assert (await site.sky.counts())["POST /certificates"] == 5
        assert used(await site.one()) == {}

    async def test_it_follows_its_domains_and_the_old_one_goes(self, site: BalancerSite) -> None:
        await site.ensure(view("web", 443, annotations=MANAGED))
        [old] = await certificates(site)
        changed = view(
            "web", 443, annotations={**MANAGED, "http-managed-certificate-domains": "new.example.com"}
        )
        planned = await site.balancers.plan(changed, [])
        assert [step.split()[0] for step in planned] == ["request", "change", "delete"]
        await site.ensure(changed)
        [new] = await certificates(site)
        assert new["id"] != old["id"]
        assert new["domain_names"] == ["new.example.com"]
        assert used(await site.one()) == {443: [new["id"]]}
        assert (await site.ensure(changed)).steps == ()

    @pytest.mark.parametrize("drop", ["before", "after"])
    async def test_a_request_whose_answer_is_lost_is_not_doubled(self, site: BalancerSite, drop: str) -> None:
        await site.sky.fault(method="POST", path="/certificates", drop=drop, times=1)
        service = view("web", 443, annotations=MANAGED)
        with pytest.raises(CloudError):
            await site.ensure(service)
        await site.ensure(service)
        assert len(await certificates(site)) == 1
        assert used(await site.one()).keys() == {443}

    async def test_a_failed_issuance_is_retried_each_hour(self, site: BalancerSite) -> None:
        now = 0.0
        site.balancers.certificates._clock = lambda: now
        service = view(
            "web", 443, annotations={**MANAGED, "http-managed-certificate-domains": "shop.invalid"}
        )
        await site.ensure(service)
        for now in (10.0, 1000.0, 2000.0):  # noqa: B007 - the clock reads it
            site.balancers.certificates._invalid = True
            result = await site.ensure(service)
        [notice] = [one for one in result.notices if one.reason == "ManagedCertificateFailed"]
        assert "(shop.invalid): DNS zone not found" in notice.message
        assert (await site.sky.counts())["POST /certificates/{id}/actions/retry"] == 1
        now = 3700.0
        result = await site.ensure(service)
        assert result.steps[0].endswith("again")
        assert (await site.sky.counts())["POST /certificates/{id}/actions/retry"] == 2
        assert len(await certificates(site)) == 1


class TestNotOursToDelete:
    """The official CCM labels its certificates with the Service's UID too, and never deletes one."""

    async def test_the_official_ccms_serves_on_and_outlives_the_swap(self, site: BalancerSite) -> None:
        theirs = await managed(
            site, f"ccm-managed-certificate-{UID}", {LABEL: UID}, "shop.example.com", "www.shop.example.com"
        )
        await upload(site, "uploaded")
        await site.ensure(view("web", 443, annotations=MANAGED))
        assert used(await site.one()) == {443: [theirs]}
        await site.ensure(
            view("web", 443, annotations={"protocol": "https", "http-certificates": "uploaded"})
        )
        await site.restart()
        await site.balancers.delete(view("web", 443))
        assert [certificate["name"] for certificate in await certificates(site)] == [
            f"ccm-managed-certificate-{UID}",
            "uploaded",
        ]

    @pytest.mark.parametrize("change", ["changed domains", "deleted"])
    @pytest.mark.parametrize("refuses", [True, False], ids=["the API refuses", "the list says so"])
    async def test_one_of_another_load_balancer(
        self, site: BalancerSite, change: str, *, refuses: bool
    ) -> None:
        service = view("web", 443, annotations=MANAGED)
        await site.ensure(service)
        [ours] = await certificates(site)
        listener = {"protocol": "https", "listen_port": 443, "destination_port": 8443}
        if refuses:
            await site.sky.fault(method="DELETE", path="/certificates/*", code="resource_in_use")
        else:
            await site.make("theirs", services=[{**listener, "http": {"certificates": [ours["id"]]}}])
        await site.sky.forget_requests()
        if change == "deleted":
            result = await site.balancers.delete(service)
        else:
            domains = {"http-managed-certificate-domains": "new.example.com"}
            changed = view("web", 443, annotations={**MANAGED, **domains})
            result = await site.ensure(changed)
            before = await site.requests()
            assert (await site.ensure(changed)).steps == ()
            assert await site.requests() == before, "it is not tried again at each look"
        [notice] = [one for one in result.notices if one.reason == "ManagedCertificateKept"]
        assert (
            f"({ours['id']}) was requested for this Service. The certificate is not deleted, because"
            in notice.message
        )
        assert not notice.warning
        assert ours["id"] in {certificate["id"] for certificate in await certificates(site)}

    async def test_one_whose_listener_could_not_be_changed(self, site: BalancerSite) -> None:
        """It is still in use, by our own load balancer."""
        await site.ensure(view("web", 443, annotations=MANAGED))
        [ours] = await certificates(site)
        await site.sky.fault(method="POST", path="*/update_service", code="service_error", times=1)
        changed = view("web", 443, annotations={**MANAGED, "http-managed-certificate-domains": "b.example"})
        with pytest.raises(CloudError, match="service_error"):
            await site.ensure(changed)
        assert "DELETE /certificates/{id}" not in await site.sky.counts()
        await site.ensure(changed)
        assert ours["id"] not in {certificate["id"] for certificate in await certificates(site)}


async def test_a_reused_name_of_a_certificate_is_followed_later(site: BalancerSite) -> None:
    """As where a job renews it: upload, rename both, and change the Service."""
    old = await upload(site, "site")
    annotations = {"protocol": "https", "http-certificates": "site"}
    await site.ensure(view("web", 443, annotations=annotations))
    assert used(await site.one()) == {443: [old]}
    new = await upload(site, "site-new")
    for number, name in ((old, "site-old"), (new, "site")):
        await site.sky.call("PUT", f"/certificates/{number}", {"name": name})
    await asyncio.sleep(1.1)  # short: what all Services that change at the same time may share
    await site.ensure(view("web", 443, annotations={**annotations, "http-sticky-sessions": "true"}))
    assert used(await site.one()) == {443: [new]}
    await site.sky.forget_requests()
    assert (
        await site.ensure(view("web", 443, annotations={**annotations, "http-sticky-sessions": "true"}))
    ).steps == ()
    assert await site.requests() == 0
