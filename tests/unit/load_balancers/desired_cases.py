"""Specs of Services and observed state, for tests of the desired state."""

from typing import Any

from service_view import UID, view

from ccm.cloud import Notice, ServicePort
from ccm.hetzner.api.models import (
    HealthCheck,
    LoadBalancer,
    LoadBalancerPublicNet,
    LoadBalancerService,
    LoadBalancerTarget,
    LoadBalancerType,
    PublicAddress,
    TargetServer,
)
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.spec.load_balancer_spec import LoadBalancerSpec, read
from ccm.hetzner.settings import environment

NO_DEFAULTS = environment.read({"HCLOUD_TOKEN": "t" * 64}).load_balancers
LEADER = "hcloud-ccm/service-uid"
OURS = "ccm-from-scratch/"
OTHER = "99999999-8888-7777-6666-555555555555"
SMALL = LoadBalancerType(1, "lb11", max_services=2, max_targets=3)
LARGE = LoadBalancerType(2, "lb21", max_services=4, max_targets=6)
OLD = LoadBalancerType(3, "old", max_services=9, max_targets=9, deprecated="2026-01-01")
TYPES = {one.name: one for one in (SMALL, LARGE, OLD)}
SELECTOR = LoadBalancerTarget("label_selector")


def spec(
    annotations: dict[str, str] | None = None,
    *ports: int | ServicePort,
    network: bool = True,
    fields: dict[str, Any] | None = None,
    **variables: str,
) -> LoadBalancerSpec:
    """What a Service with these annotations asks for; in capitals what the environment says."""
    names = {f"HCLOUD_LOAD_BALANCERS_{key}": value for key, value in variables.items()}
    defaults = environment.read({"HCLOUD_TOKEN": "t" * 64, **names}).load_balancers
    service = view("web", *(ports or (80,)), annotations=annotations, **(fields or {}))
    return read(service, defaults, network=network)


def balancer(labels: dict[str, str] | None = None, *ports: int, **more: Any) -> LoadBalancer:
    """The Service's, as the official CCM left it, but for the labels."""
    usual = {
        "public_net": LoadBalancerPublicNet(True, PublicAddress("203.0.113.1", "x.example")),
        "load_balancer_type": SMALL,
        "services": tuple(LoadBalancerService("tcp", port, 30_000 + port) for port in ports),
    }
    return LoadBalancer(7, "there", labels={LEADER: UID, **(labels or {})}, **{**usual, **more})


def observed(there: LoadBalancer | None = None, **more: Any) -> ObservedState:
    """What there is for the Service."""
    found = ObservedState(view(), **{"types": TYPES, "cluster": "c1", **more})
    return found.after(there) if there else found


def server(number: int, *, private: bool = False) -> LoadBalancerTarget:
    """A target."""
    return LoadBalancerTarget("server", server=TargetServer(number), use_private_ip=private)


def timed(interval: int, timeout: int, **more: Any) -> HealthCheck:
    """A health check with these times, in seconds."""
    return HealthCheck(interval=interval, timeout=timeout, **more)


def said(notices: tuple[Notice, ...] | list[Notice]) -> list[tuple[str, str]]:
    """Reasons and texts."""
    return [(notice.reason, notice.message) for notice in notices]
