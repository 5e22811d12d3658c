"""Chooses the listeners of a load balancer, one for each TCP port of the Service."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import msgspec

from ccm.cloud import Notice, ServicePort, ServiceView
from ccm.hetzner.api.models import (
    HealthCheck,
    HealthCheckHttp,
    LoadBalancerService,
    LoadBalancerType,
    ServiceHttp,
)
from ccm.hetzner.load_balancers.listeners import (
    CHECK_HTTP_FIELDS,
    HTTP_FIELDS,
    KUBE_PROXY,
    asks_kube_proxy,
    fields_of,
)
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.ownership_labels import SERVICE_UID
from ccm.hetzner.load_balancers.spec import CertificateSpec, HealthCheckSpec, LoadBalancerSpec, PortSpec
from ccm.hetzner.load_balancers.truncation import enumerated

Asked = TypeVar("Asked", PortSpec, HealthCheckSpec)
_NO_CHECK = HealthCheckSpec(chosen=False)


@dataclass(frozen=True, slots=True)
class ListenerChoice:
    """The listeners without health checks, which also depend on the owner of the load balancer."""

    listeners: tuple[LoadBalancerService, ...]  # up to the limit of the type
    checks: Mapping[int, HealthCheckSpec]  # by port, the requested health check
    notices: tuple[Notice, ...]


def foreign_ports(spec: LoadBalancerSpec, observed: ObservedState) -> dict[int, str]:
    """Ports that the Service may not use, and their owners."""
    balancer, owners, own = observed.balancer, observed.ownership.owners, observed.ownership.own
    if balancer is None or not (spec.tolerates_others or observed.ownership.others):
        return {}
    taken = {port: f"the Service with UID {uid}" for port, uid in owners.items() if uid not in own}
    if not owners and balancer.labels.get(SERVICE_UID) == spec.service.uid and not observed.adopting:
        return taken  # not shared until now
    for listener in balancer.services:
        if owners.get(listener.listen_port) not in own:
            for port in listener.ports:
                taken.setdefault(port, "someone else")
    return taken


def choose_listeners(
    spec: LoadBalancerSpec,
    observed: ObservedState,
    limits: LoadBalancerType,
    certificates: Mapping[int, tuple[int, ...]],
    taken: Mapping[int, str],
) -> ListenerChoice:
    """Choose the listeners, up to the limit of the type (``limits``).

    ``certificates`` contains IDs by port; https ports without an ID are omitted. ``taken`` contains ports of
    other Services, and their owners.
    """
    asked = what_is_asked(spec, observed)
    kept = {port: one.certificates.kept for port, one in asked.items() if one.certificates.kept}
    listeners, notices = wanted_listeners(spec.service.ports, asked, {**certificates, **kept})
    free = [listener for listener in listeners if not listener.ports & taken.keys()]
    # Listeners of other owners also count.
    present = observed.balancer.services if observed.balancer is not None else ()
    room = max(0, limits.max_services - sum(one.listen_port in taken for one in present))
    servable = (one.port for one in spec.service.ports if one.protocol == "TCP" and one.node_port)
    beyond = sum(port not in spec.ports for port in servable)
    conflicts = sorted({port for listener in listeners for port in listener.ports if port in taken})
    if conflicts:
        who = enumerated([f"port {port} belongs to {taken[port]}" for port in conflicts], between="; ")
        notices.append(Notice("LoadBalancerPortConflict", f"on the shared load balancer {who}"))
    if len(free) > room or beyond:
        out = enumerated([str(listener.listen_port) for listener in free[room:]])
        omitted = f" The CCM doesn't configure these ports on the load balancer: {out}." if out else ""
        more = f" Even the largest type can't support {beyond} of the Service's ports." if beyond else ""
        text = (
            f"type {limits.name} supports {limits.max_services} ports.{omitted}{more} "
            "Set the annotation load-balancer.hetzner.cloud/type to a larger type"
        )
        notices.append(Notice("MaxServicesReached", text))
    checks = {number: one.check or _NO_CHECK for number, one in asked.items()}
    return ListenerChoice(tuple(free[:room]), checks, tuple(notices))


def what_is_asked(spec: LoadBalancerSpec, observed: ObservedState) -> Mapping[int, PortSpec]:
    """The specs by port. A field that isn't requested keeps its current value, unless we set it before."""
    if observed.balancer is None or spec.share or observed.ownership.shared:
        return spec.ports
    asked = dict(spec.ports)
    for listener in observed.balancer.services:
        port = asked.get(listener.listen_port)
        if port is not None:
            check = port.check or _NO_CHECK
            ours = {
                *observed.ownership.fields,
                *(CHECK_HTTP_FIELDS if asks_kube_proxy(listener, check.port) else ()),
            }
            stays = {name: value for name, value in fields_of(listener).items() if name not in ours}
            port = _as_present(port, stays)
            if "protocol" in stays.keys() - port.asked and listener.http is not None:
                # Another client configured TLS without an annotation, so its certificates stay.
                port = replace(port, certificates=CertificateSpec(kept=listener.http.certificates))
            stays.pop("protocol", None)  # the health check has its own protocol
            asked[listener.listen_port] = replace(port, check=_in_time(_as_present(check, stays)))
    return asked


def _as_present(asked: Asked, stays: Mapping[str, object]) -> Asked:
    """The spec, with the current value of each field that isn't requested."""
    stay = {
        field.name: stays[field.name] for field in fields(asked) if field.name in stays.keys() - asked.asked
    }
    return replace(asked, **stay)  # type: ignore[arg-type]


def _in_time(check: HealthCheckSpec) -> HealthCheckSpec:
    """If the timeout is longer than the interval, change the time that isn't requested."""
    if check.timeout <= check.interval:
        return check
    if "timeout" not in check.asked:
        return replace(check, timeout=check.interval)
    return replace(check, interval=check.timeout)


def wanted_listeners(
    ports: Sequence[ServicePort], asked: Mapping[int, PortSpec], certificates: Mapping[int, tuple[int, ...]]
) -> tuple[list[LoadBalancerService], list[Notice]]:
    """The listeners ordered by port, and notices; omits https ports without a certificate."""
    listeners = [
        _listener(port, asked[port.port], ids)
        for port in sorted(ports, key=lambda port: port.port)
        if port.port in asked and port.protocol == "TCP" and port.node_port
        if (ids := certificates.get(port.port, ())) or asked[port.port].protocol != "https"
    ]
    return _settle_redirects(listeners)


def _settle_redirects(
    listeners: Sequence[LoadBalancerService],
) -> tuple[list[LoadBalancerService], list[Notice]]:
    """Only one listener can use port 80: a port of the Service, or else the first port that redirects."""
    settled: list[LoadBalancerService] = []
    whys: list[str] = []
    taken = "the Service uses port 80" if any(listener.listen_port == 80 for listener in listeners) else ""
    for listener in listeners:
        if listener.http is None or not listener.http.redirect_http:
            settled.append(listener)
        elif taken:
            whys.append(f"port {listener.listen_port} can't get the redirects from port 80, because {taken}")
            http = msgspec.structs.replace(listener.http, redirect_http=False)
            settled.append(msgspec.structs.replace(listener, http=http))
        else:
            taken = f"port {listener.listen_port} already gets them"
            settled.append(listener)
    return settled, [Notice("LoadBalancerPortConflict", "; ".join(whys))] if whys else []


def _listener(port: ServicePort, asked: PortSpec, certificates: tuple[int, ...]) -> LoadBalancerService:
    ends_tls = asked.protocol == "https"
    fields_of_http = {name: getattr(asked, name) for name in HTTP_FIELDS}
    fields_of_http["redirect_http"] = asked.redirect_http and ends_tls
    http = ServiceHttp(**fields_of_http, certificates=tuple(sorted(certificates)) if ends_tls else ())
    return LoadBalancerService(
        protocol=asked.protocol,
        listen_port=port.port,
        destination_port=port.node_port,
        proxyprotocol=asked.proxyprotocol,
        http=None if asked.protocol == "tcp" else http,
    )


def with_checks(
    service: ServiceView, chosen: ListenerChoice, *, ours: bool
) -> tuple[LoadBalancerService, ...]:
    """The listeners with their health checks.

    A load balancer that isn't ``ours`` comes from the official CCM, and keeps its TCP checks of node ports.
    On our load balancers, we check kube-proxy instead.
    """
    return tuple(
        msgspec.structs.replace(
            listener, health_check=_check(service, listener, chosen.checks[listener.listen_port], ours=ours)
        )
        for listener in chosen.listeners
    )


def _check(
    service: ServiceView, listener: LoadBalancerService, asked: HealthCheckSpec, *, ours: bool
) -> HealthCheck:
    number = listener.destination_port
    local = service.external_traffic_policy == "Local" and service.health_check_node_port
    if local and ours and not asked.chosen:
        # Then only nodes with a Pod of the Service may get traffic, and kube-proxy reports these nodes.
        number = service.health_check_node_port
        codes = KUBE_PROXY.status_codes
        asked = replace(
            asked, protocol="http", path=KUBE_PROXY.path, status_codes=codes, domain="", tls=False
        )
    parts: dict[str, Any] = {name: getattr(asked, name) for name in CHECK_HTTP_FIELDS}
    parts["domain"] = asked.domain or None
    http = HealthCheckHttp(**parts)
    return HealthCheck(
        protocol=asked.protocol,
        port=asked.port or number,
        interval=asked.interval,
        timeout=asked.timeout,
        retries=asked.retries,
        http=http if asked.protocol == "http" else None,
    )
