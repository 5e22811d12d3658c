"""An annotation that is taken away takes its effect away; what others set stays."""

from __future__ import annotations

import pytest
from balancer_site import LABEL, UID, BalancerSite, number, view

from ccm.cloud import CloudError, Rejected

ANNOTATED = "ccm-from-scratch/annotated"


class TestPublicInterface:
    async def test_it_comes_back(self, site: BalancerSite) -> None:
        await site.ensure(view(annotations={"disable-public-network": "true"}))
        assert (await site.one())["labels"][ANNOTATED] == "public"
        await site.restart()
        await site.ensure(view())
        balancer = await site.one()
        assert balancer["public_net"]["enabled"] is True
        assert ANNOTATED not in balancer["labels"]
        assert (await site.ensure(view())).steps == ()

    async def test_targets_use_private_addresses_no_more_after_it_is_back(self, site: BalancerSite) -> None:
        await site.add_nodes("a", "b")
        await site.ensure(view(annotations={"disable-public-network": "true", "use-private-ip": "true"}))
        await site.ensure(view())
        assert {one["use_private_ip"] for one in (await site.one())["targets"]} == {False}

    async def test_the_environment_is_an_annotation_for_all(self, site: BalancerSite) -> None:
        await site.restart(HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK="true")
        await site.ensure(view())
        assert (await site.one())["public_net"]["enabled"] is False
        await site.restart()
        await site.ensure(view())
        assert (await site.one())["public_net"]["enabled"] is True


class TestProtection:
    async def test_it_is_lifted(self, site: BalancerSite) -> None:
        await site.ensure(view(annotations={"delete-protection": "true"}))
        await site.ensure(view())
        assert (await site.one())["protection"] == {"delete": False}
        assert (await site.balancers.delete(view())).steps
        assert await site.all() == []

    async def test_somebody_elses_stays(self, site: BalancerSite) -> None:
        await site.ensure(view())
        await site.act((await site.one())["id"], "change_protection", delete=True)
        await site.restart()
        assert (await site.ensure(view())).steps == ()
        assert (await site.one())["protection"] == {"delete": True}


async def test_the_mark_stays_while_restoring_fails(site: BalancerSite) -> None:
    await site.ensure(view(annotations={"disable-public-network": "true"}))
    await site.sky.fault(method="POST", path="*/enable_public_interface", code="service_error", times=1)
    with pytest.raises(CloudError, match="enable the public interface"):
        await site.ensure(view())
    assert (await site.one())["labels"][ANNOTATED] == "public"
    await site.ensure(view())
    assert (await site.one())["public_net"]["enabled"] is True


async def test_the_mark_goes_only_after_what_it_stands_for(site: BalancerSite) -> None:
    loud = {"disable-public-network": "true", "delete-protection": "true", "ipv4-rdns": "four.example.com"}
    await site.ensure(view(annotations=loud))
    planned = await site.balancers.plan(view(), [])
    assert planned[-1] == "set labels"
    assert len(planned) == 4


async def test_what_the_official_ccm_set_costs_no_write(site: BalancerSite) -> None:
    theirs = await site.make(
        "a" + UID.replace("-", "")[:31],
        labels={LABEL: UID},
        network=site.network,
        public_interface=False,
        services=[{"protocol": "tcp", "listen_port": 80, "destination_port": 30080}],
    )
    await site.act(
        theirs["id"], "change_dns_ptr", ip=theirs["public_net"]["ipv4"]["ip"], dns_ptr="x.example.com"
    )
    service = view(annotations={"disable-public-network": "true", "ipv4-rdns": "x.example.com"})
    assert (await site.ensure(service)).steps == ()


class TestType:
    async def test_it_goes_back(self, site: BalancerSite) -> None:
        await site.ensure(view(annotations={"type": "lb31"}))
        assert (await site.one())["labels"][ANNOTATED] == "type"
        await site.restart()
        assert await site.balancers.plan(view(), []) == ["change type to lb11", "set labels"]
        await site.ensure(view())
        balancer = await site.one()
        assert balancer["load_balancer_type"]["name"] == "lb11"
        assert ANNOTATED not in balancer["labels"]
        assert (await site.ensure(view())).steps == ()

    async def test_it_stays_while_the_default_is_too_small(self, site: BalancerSite) -> None:
        many = range(1, 8)
        await site.ensure(view("web", *many, annotations={"type": "lb21"}))
        for _ in range(2):
            result = await site.ensure(view("web", *many))
            assert result.steps == ()
            assert [one.reason for one in result.notices] == ["LoadBalancerTypeKept"]
        assert len((await site.one())["services"]) == 7
        await site.ensure(view("web", 1))
        await site.ensure(view("web", 1))
        assert (await site.one())["load_balancer_type"]["name"] == "lb11"
        assert (await site.ensure(view("web", 1))).steps == ()

    async def test_what_was_never_annotated_stays(self, site: BalancerSite) -> None:
        await site.ensure(view())
        await site.act((await site.one())["id"], "change_type", load_balancer_type="lb21")
        await site.restart()
        assert (await site.ensure(view())).steps == ()
        assert (await site.one())["load_balancer_type"]["name"] == "lb21"


class TestLabels:
    async def test_they_are_set_changed_and_taken_away(self, site: BalancerSite) -> None:
        await site.ensure(view(annotations={"labels": "team=shop, example.com/stage=live,empty="}))
        labels = (await site.one())["labels"]
        assert (labels["team"], labels["example.com/stage"], labels["empty"]) == ("shop", "live", "")
        await site.restart()
        await site.ensure(view(annotations={"labels": "team=web"}))
        labels = (await site.one())["labels"]
        assert labels["team"] == "web"
        assert "empty" not in labels
        await site.ensure(view())
        assert (await site.one())["labels"].keys() == {
            LABEL,
            "ccm-from-scratch/cluster",
            "ccm-from-scratch/namespace",
            "ccm-from-scratch/service",
        }
        assert (await site.ensure(view())).steps == ()

    async def test_other_peoples_labels_stay(self, site: BalancerSite) -> None:
        await site.make("theirs", labels={"owner": "them"})
        await site.ensure(view(annotations={"adopt": "theirs", "labels": "team=shop"}))
        await site.balancers.delete(view(annotations={"adopt": "theirs", "labels": "team=shop"}))
        assert (await site.one())["labels"] == {"owner": "them"}

    @pytest.mark.parametrize(
        "text", ["team", "a b=c", "hcloud-ccm/service-uid=x", "ccm-from-scratch/cluster=c", "a=b c"]
    )
    async def test_what_is_none(self, site: BalancerSite, text: str) -> None:
        with pytest.raises(Rejected, match=r"labels: .* is not a list like team=shop"):
            await site.ensure(view(annotations={"labels": text}))


async def test_every_setting_of_a_port_goes_back(site: BalancerSite) -> None:
    (node,) = await site.add_nodes("a")
    await site.ensure(view())
    before = await site.one()
    loud = {
        "name": "loud",
        "algorithm-type": "least_connections",
        "protocol": "http",
        "uses-proxyprotocol": "true",
        "http-cookie-name": "MINE",
        "http-cookie-lifetime": "60",
        "http-timeout-idle": "2m",
        "http-sticky-sessions": "true",
        "health-check-protocol": "https",
        "health-check-port": "8080",
        "health-check-interval": "5",
        "health-check-timeout": "4",
        "health-check-retries": "5",
        "health-check-http-domain": "shop.example.com",
        "health-check-http-path": "/up",
        "http-status-codes": "204, 3??",
        "use-private-ip": "true",
    }
    await site.ensure(view(annotations=loud))
    [service] = (await site.one())["services"]
    assert service["health_check"]["http"] == {
        "domain": "shop.example.com",
        "path": "/up",
        "response": "",
        "status_codes": ["204", "3??"],
        "tls": True,
    }
    check = {
        key: service["health_check"][key] for key in ("protocol", "port", "interval", "timeout", "retries")
    }
    assert check == {"protocol": "http", "port": 8080, "interval": 5, "timeout": 4, "retries": 5}
    assert service["http"]["cookie_name"] == "MINE"
    assert service["http"]["timeout_idle"] == 120
    assert service["proxyprotocol"] is True
    assert (await site.ensure(view(annotations=loud))).steps == ()
    await site.ensure(view())
    after = await site.one()
    assert after["services"] == before["services"]
    assert (after["name"], after["algorithm"]) == (before["name"], before["algorithm"])
    assert [one["server"]["id"] for one in after["targets"]] == [number(node)]
