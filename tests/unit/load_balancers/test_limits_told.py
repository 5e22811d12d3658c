"""Tests of Kubernetes that no load balancer of Hetzner can pass: the CCM tells why, for each of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from balancer_site import BalancerSite, view

from ccm.cloud import ServicePort, ServiceView
from sandbox.kubernetes_tests.selection import LIMITS

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
async def test_what_kubernetes_expects_and_hetzner_lacks_is_told(site: BalancerSite, test: str) -> None:
    service, reason = asked(test)
    result = await site.ensure(service)
    assert reason in {one.reason for one in result.notices}
    assert LIMITS[test].endswith(f"(Event {reason})")


async def test_who_can_be_served_otherwise_is(site: BalancerSite) -> None:
    """As under the official CCM: what has no effect keeps no Service from its load balancer."""
    await site.ensure(replace(view("web", 80, session_affinity="ClientIP"), source_ranges=("10.0.0.1/32",)))
    assert [one["listen_port"] for one in (await site.one())["services"]] == [80]
