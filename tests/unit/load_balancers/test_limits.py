from typing import Any

import pytest
from balancer_site import BalancerSite, view

from ccm.cloud import CloudError, ServicePort, ServiceView
from ccm.hetzner.load_balancers.cache import catalogue
from sandbox.kubernetes_tests.selection import LIMITS


async def test_types_are_read_after_a_refusal(site: BalancerSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their limits may have changed within the hour for which a list counts."""
    monkeypatch.setattr(catalogue, "AGE_AFTER_MISS", 0.0)  # a second, which looks share
    for code, looks in (("", 1), ("load_balancer_targets_limit", 0), ("", 1)):
        if code:
            await site.sky.fault(path="/load_balancers", method="POST", code=code, status=422)
            with pytest.raises(CloudError):
                await site.ensure(view())
            await site.sky.heal()
        else:
            await site.ensure(view())
            await site.balancers.delete(view())
        assert (await site.sky.counts()).get("GET /load_balancer_types", 0) == looks
        await site.sky.forget_requests()


UDP = ServicePort(80, 30080, "UDP")


def asked(test: str) -> tuple[ServiceView, str]:
    """A Service as a test of Kubernetes makes it, and the reason of the Event about it."""
    fields: dict[str, Any] = {"external_traffic_policy": "Local"} if "Local" in test else {}
    if "UDP" in test:
        return view("web", UDP, **fields), "UnsupportedProtocolConfigured"
    if "source ranges" in test:
        return view("web", 80, source_ranges=("10.0.0.1/32",)), "UnsupportedFieldConfigured"
    if "session affinity" in test:
        return view("web", 80, session_affinity="ClientIP", **fields), "UnsupportedFieldConfigured"
    if "without NodePort" in test:
        return view("web", ServicePort(80, 0)), "NodePortMissing"
    assert test.endswith("should work for type=LoadBalancer")
    return view("web", 80, **fields), "ClientAddressHidden"


@pytest.mark.parametrize("test", sorted(LIMITS))
async def test_features_that_hetzner_lacks_are_reported(site: BalancerSite, test: str) -> None:
    service, reason = asked(test)
    result = await site.ensure(service)
    assert reason in {notice.reason for notice in result.notices}
    assert LIMITS[test].endswith(f" Event {reason}")
