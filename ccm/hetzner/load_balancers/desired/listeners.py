"""What a load balancer should listen on, one listener for each TCP port of the Service. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

import msgspec

from ccm.cloud import Notice, ServicePort, ServiceView
from ccm.hetzner.api.wire import (
    HealthCheck,
    HealthCheckHttp,
    LoadBalancerService,
    LoadBalancerType,
    ServiceHttp,
)
from ccm.hetzner.load_balancers.desired.defaults import annotated_fields
from ccm.hetzner.load_balancers.desired.desired import Desired
from ccm.hetzner.load_balancers.desired.labels import foreign_ports, is_shared_by_word, wanted_labels
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.labels import NAMESPACE, is_ours
from ccm.hetzner.load_balancers.listeners import fields_of
from ccm.hetzner.load_balancers.wishes import Wishes
from ccm.hetzner.load_balancers.wishes.ports import CheckWishes, PortWishes
from ccm.hetzner.load_balancers.wording import enumerated

Asked = TypeVar("Asked", PortWishes, CheckWishes)


@dataclass(frozen=True, slots=True)
class Before:
    """What there was, as far as it may stay.

    Attributes:
        listeners: By port.
        marked: Names of fields that are there because of an annotation, so that they go with it.
        ours: Whether the load balancer is not just as the official CCM left it.
    """

    listeners: Mapping[int, LoadBalancerService] = field(default_factory=dict[int, LoadBalancerService])
    marked: frozenset[str] = frozenset()
    ours: bool = True


def choose_listeners(wishes: Wishes, facts: Facts, desired: Desired) -> Desired:
    """Choose the listeners for which there is room, and the labels that say whose they are."""
    balancer = facts.balancer
    before = Before()
    if balancer is not None and not is_shared_by_word(wishes, balancer):
        listeners = {one.listen_port: one for one in balancer.services}
        before = Before(listeners, annotated_fields(balancer.labels), is_ours(balancer))
    taken = foreign_ports(wishes, facts)
    fitting, notices = _fitting(wishes, facts, desired, before, taken)
    ports = [one.listen_port for one in fitting]
    labels = wanted_labels(wishes, facts, ports, kept=desired.kept)
    if NAMESPACE in labels and not before.ours:
        # It becomes ours by this change; had it stayed as it was, its checks would stay too.
        fitting, notices = _fitting(wishes, facts, desired, replace(before, ours=True), taken)
    return replace(
        desired,
        labels=labels,
        listeners=tuple(fitting),
        foreign_ports=frozenset(taken),
        notices=(*desired.notices, *wishes.unsupported, *notices),
    )


def _fitting(
    wishes: Wishes, facts: Facts, desired: Desired, before: Before, taken: Mapping[int, str]
) -> tuple[list[LoadBalancerService], list[Notice]]:
    """The listeners for which there is room, and what the owner should know."""
    limits = desired.limits
    listeners, notices = wanted_listeners(wishes, desired.certificates, before)
    listeners, conflicts = _without_conflicts(listeners, taken)
    # Listeners of others take room too.
    present = facts.balancer.services if facts.balancer is not None else ()
    room = max(0, limits.max_services - sum(one.listen_port in taken for one in present))
    ports = sum(one.protocol == "TCP" and one.node_port > 0 for one in wishes.service.ports)
    beyond = max(0, ports - len(wishes.ports))
    if len(listeners) > room or beyond:
        conflicts.append(_too_many(listeners[room:], beyond, limits))
    return listeners[:room], [*notices, *conflicts]


def _without_conflicts(
    listeners: list[LoadBalancerService], taken: Mapping[int, str]
) -> tuple[list[LoadBalancerService], list[Notice]]:
    free = [one for one in listeners if not one.ports & taken.keys()]
    ports = sorted({port for one in listeners for port in one.ports if port in taken})
    if not ports:
        return listeners, []
    who = enumerated([f"port {port} belongs to {taken[port]}" for port in ports], between="; ")
    return free, [Notice("LoadBalancerPortConflict", f"on the shared load balancer {who}")]


def _too_many(left_out: Sequence[LoadBalancerService], beyond: int, limits: LoadBalancerType) -> Notice:
    out = enumerated([str(one.listen_port) for one in left_out])
    more = f"{', ' if out else ''}{beyond} that no type would take" if beyond else ""
    text = (
        f"type {limits.name} takes {limits.max_services} ports; these are left out: {out}{more}; "
        "choose a larger type with load-balancer.hetzner.cloud/type"
    )
    return Notice("MaxServicesReached", text)


def wanted_listeners(
    wishes: Wishes,
    certificates: Mapping[int, tuple[int, ...]],
    before: Before | None = None,
) -> tuple[list[LoadBalancerService], list[Notice]]:
    """The listeners, by port, and what the owner should know.

    Args:
        wishes: What the Service asks for.
        certificates: By port, ids of the certificates; an https port without any is left out.
        before: What there was; None = nothing.
    """
    service, before = wishes.service, before or Before()
    listeners: list[LoadBalancerService] = []
    for port in service.ports:
        asked = wishes.ports.get(port.port)
        ids = certificates.get(port.port, ())
        if asked is None or port.protocol != "TCP" or not port.node_port:
            continue
        if asked.protocol != "https" or ids:
            listeners.append(_listener(service, port, asked, ids, before))
    return _settle_redirects(sorted(listeners, key=lambda one: one.listen_port))


def _settle_redirects(
    listeners: Sequence[LoadBalancerService],
) -> tuple[list[LoadBalancerService], list[Notice]]:
    """Port 80 can be taken once: by a port of the Service itself, or by the first that redirects from it."""
    settled: list[LoadBalancerService] = []
    whys: list[str] = []
    taken = "the Service uses itself" if any(one.listen_port == 80 for one in listeners) else ""
    for one in listeners:
        if one.http is None or not one.http.redirect_http:
            settled.append(one)
        elif taken:
            whys.append(f"port {one.listen_port} can't redirect from port 80, which {taken}")
            http = msgspec.structs.replace(one.http, redirect_http=False)
            settled.append(msgspec.structs.replace(one, http=http))
        else:
            taken = f"port {one.listen_port} redirects from"
            settled.append(one)
    return settled, [Notice("LoadBalancerPortConflict", "; ".join(whys))] if whys else []


def _listener(
    service: ServiceView, port: ServicePort, asked: PortWishes, certificates: tuple[int, ...], before: Before
) -> LoadBalancerService:
    present = before.listeners.get(port.port)
    kept = fields_of(present) if present is not None else {}
    kept = {name: value for name, value in kept.items() if name not in before.marked}
    asked = _as_present(asked, kept)
    http = ServiceHttp(
        cookie_name=asked.cookie_name,
        cookie_lifetime=asked.cookie_lifetime,
        timeout_idle=asked.timeout_idle,
        certificates=tuple(sorted(certificates)) if asked.protocol == "https" else (),
        redirect_http=asked.redirect_http and asked.protocol == "https",
        sticky_sessions=asked.sticky_sessions,
    )
    return LoadBalancerService(
        protocol=asked.protocol,
        listen_port=port.port,
        destination_port=port.node_port,
        proxyprotocol=asked.proxyprotocol,
        health_check=_check(service, port, asked.check or CheckWishes(chosen=False), kept, ours=before.ours),
        http=None if asked.protocol == "tcp" else http,
    )


def _as_present(asked: Asked, kept: Mapping[str, object]) -> Asked:
    """Wishes in which what nobody asked for is as it was."""
    stays = {one.name: kept[one.name] for one in fields(asked) if one.name in kept.keys() - asked.asked}
    return replace(asked, **stays)  # type: ignore[arg-type]


def _check(
    service: ServiceView, port: ServicePort, asked: CheckWishes, kept: Mapping[str, object], *, ours: bool
) -> HealthCheck:
    number = port.node_port
    local = service.external_traffic_policy == "Local" and service.health_check_node_port
    if local and ours and not asked.chosen:
        # Only nodes with a Pod of the Service take traffic then; kube-proxy tells which.
        asked = replace(
            asked,
            protocol="http",
            path="/healthz",
            status_codes=("200",),
            domain="",
            tls=False,
            asked=asked.asked | {"path", "status_codes", "domain", "tls"},
        )
        number = service.health_check_node_port
    interval, timeout = _times(asked, when := _as_present(asked, kept))
    http = HealthCheckHttp(
        domain=when.domain or None,
        path=when.path,
        response=None,
        status_codes=when.status_codes,
        tls=when.tls,
    )
    return HealthCheck(
        protocol=when.protocol,
        port=when.port or number,
        interval=interval,
        timeout=timeout,
        retries=when.retries,
        http=http if when.protocol == "http" else None,
    )


def _times(asked: CheckWishes, when: CheckWishes) -> tuple[int, int]:
    """Interval and timeout; if one is kept that doesn't fit to the other, it gives way."""
    if "interval" in asked.asked or "timeout" not in asked.asked:
        return when.interval, min(when.timeout, when.interval)
    return max(when.interval, when.timeout), when.timeout
