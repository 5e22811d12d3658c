from typing import Any, ClassVar

import pytest
from balancer_site import LABEL, UID, BalancerSite, leave_to_official, upload, view


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
