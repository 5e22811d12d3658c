"""An annotation that is taken away takes its effect away; what others set stays."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from balancer_site import LABEL, UID, BalancerSite, leave_to_official, number, upload, view

from ccm.cloud import CloudError

ANNOTATED = "ccm-from-scratch/annotated"


class TestPublicInterface:
    async def test_targets_use_private_addresses_no_more_after_it_is_back(self, site: BalancerSite) -> None:
        await site.add_nodes("a", "b")
        await site.ensure(view(annotations={"disable-public-network": "true", "use-private-ip": "true"}))
        await site.ensure(view())
        assert {one["use_private_ip"] for one in (await site.one())["targets"]} == {False}


async def test_the_mark_stays_while_restoring_fails(site: BalancerSite) -> None:
    await site.ensure(view(annotations={"disable-public-network": "true"}))
    await site.sky.fault(method="POST", path="*/enable_public_interface", code="service_error", times=1)
    with pytest.raises(CloudError, match="enable the public interface"):
        await site.ensure(view())
    assert (await site.one())["labels"][ANNOTATED] == "public"
    await site.ensure(view())
    assert (await site.one())["public_net"]["enabled"] is True


async def official(site: BalancerSite, name: str = "by-hand", **more: Any) -> dict[str, Any]:
    """As the official CCM leaves one, and somebody after it."""
    check = {"protocol": "tcp", "port": 30080, "interval": 20, "timeout": 7, "retries": 5}
    http = {"cookie_name": "MINE", "cookie_lifetime": 600, "timeout_idle": 70, "sticky_sessions": True}
    listener = {
        "protocol": "http",
        "listen_port": 80,
        "destination_port": 30080,
        "proxyprotocol": True,
        "health_check": check,
        "http": http,
    }
    body = {"labels": {LABEL: UID}, "network": site.network, "services": [listener]}
    made = await site.make(name, algorithm={"type": "least_connections"}, **{**body, **more})
    await site.sky.forget_requests()
    return made


class TestWhatIsNotAnnotated:
    """The official CCM leaves it alone, so it must not change at a swap, nor later."""

    HTTP: ClassVar = {"protocol": "http"}

    async def test_nothing_changes_at_a_swap(self, site: BalancerSite) -> None:
        await official(site)
        assert (await site.ensure(view(annotations=self.HTTP))).steps == ()
        assert await site.writes() == 0

    async def test_an_annotation_changes_itself_alone_and_goes_alone(self, site: BalancerSite) -> None:
        await official(site)
        before = await site.one()
        annotated = {**self.HTTP, "http-cookie-lifetime": "1h", "algorithm-type": "round_robin"}
        await site.ensure(view(annotations=annotated))
        changed = await site.one()
        assert changed["services"][0]["http"] == {**before["services"][0]["http"], "cookie_lifetime": 3600}
        assert changed["services"][0]["health_check"] == before["services"][0]["health_check"]
        assert (changed["name"], changed["algorithm"]["type"]) == ("by-hand", "round_robin")
        await site.restart()
        await site.ensure(view(annotations=self.HTTP))
        after = await site.one()
        assert after["services"][0]["http"] == {**before["services"][0]["http"], "cookie_lifetime": 300}
        assert not any("annotated" in key for key in after["labels"])
        assert (await site.ensure(view(annotations=self.HTTP))).steps == ()

    @pytest.mark.parametrize("key", ["http-cookie-lifetime", "algorithm-type", "protocol", "type"])
    async def test_the_official_ccms_settings_go_with_annotations(self, site: BalancerSite, key: str) -> None:
        """It has no label that says so, and gets none before there is a reason to write."""
        annotated = {**self.HTTP, "http-cookie-lifetime": "1h", "algorithm-type": "least_connections"}
        annotated |= {"type": "lb21"}
        await site.ensure(view(annotations=annotated))
        await leave_to_official(site)
        assert (await site.ensure(view(annotations=annotated))).steps == ()
        rest = {name: value for name, value in annotated.items() if name != key}
        await site.ensure(view(annotations=rest))
        after = await site.one()
        found = {
            "http-cookie-lifetime": after["services"][0].get("http", {}).get("cookie_lifetime"),
            "algorithm-type": after["algorithm"]["type"],
            "protocol": after["services"][0]["protocol"],
            "type": after["load_balancer_type"]["name"],
        }
        default = {"http-cookie-lifetime": 300, "algorithm-type": "round_robin", "protocol": "tcp"}
        assert found[key] == {**default, "type": "lb11"}[key]
        assert (await site.ensure(view(annotations=rest))).steps == ()

    async def test_tls_ended_by_hand_stays(self, site: BalancerSite) -> None:
        certificate = await upload(site, "site")
        await site.ensure(view("web", 443))
        balancer = await site.one()
        by_hand = {"listen_port": 443, "protocol": "https", "http": {"certificates": [certificate]}}
        await site.act(balancer["id"], "update_service", **by_hand)
        await site.restart()
        await site.ensure(view("web", 443, annotations={"algorithm-type": "least_connections"}))
        [listener] = (await site.one())["services"]
        assert (listener["protocol"], listener["http"]["certificates"]) == ("https", [certificate])
        await site.ensure(view("web", 443, annotations={"protocol": "tcp"}))
        assert (await site.one())["services"][0]["protocol"] == "tcp", "an annotation decides"

    async def test_marks_of_ports_stay_until_the_port_is_changed(self, site: BalancerSite) -> None:
        await site.ensure(view(annotations={"health-check-interval": "5s"}))
        mark = f"{ANNOTATED}-interval"
        assert mark in (await site.one())["labels"]
        await site.sky.fault(method="POST", path="*/update_service", code="service_error", times=1)
        with pytest.raises(CloudError, match="change the listener on port 80"):
            await site.ensure(view())
        assert mark in (await site.one())["labels"]
        await site.ensure(view())
        balancer = await site.one()
        assert mark not in balancer["labels"]
        assert balancer["services"][0]["health_check"]["interval"] == 15


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
