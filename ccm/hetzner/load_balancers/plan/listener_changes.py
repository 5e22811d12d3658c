"""Changes of a load balancer's listeners."""

import dataclasses

import msgspec
from msgspec.structs import replace

from ccm.hetzner.api.models import LoadBalancer, LoadBalancerService
from ccm.hetzner.load_balancers.desired import DesiredState
from ccm.hetzner.load_balancers.listeners import comparable
from ccm.hetzner.load_balancers.plan.steps import Change, Json


def change_listeners(desired: DesiredState, actual: LoadBalancer) -> tuple[list[Change], list[Change]]:
    """Plan the removals of listeners, and the changes and additions."""
    present = {listener.listen_port: comparable(listener) for listener in actual.services}
    wanted = {listener.listen_port: listener for listener in desired.listeners}
    removals = {
        port: _remove(port) for port in present if port not in wanted and port not in desired.foreign_ports
    }
    freed = {port: step.key for gone, step in removals.items() for port in present[gone].ports}
    changed = [listener for port, listener in wanted.items() if port in present and present[port] != listener]
    # An update that frees a port comes before an update that uses the port.
    changed.sort(key=lambda listener: len(listener.ports))
    updates = [(listener, _update(present[listener.listen_port], listener)) for listener in changed]
    for listener, step in updates:
        freed.update(dict.fromkeys(present[listener.listen_port].ports - listener.ports, step.key))
    adds = [(listener, _add(listener)) for port, listener in wanted.items() if port not in present]
    changes = [
        dataclasses.replace(step, needs=frozenset(freed[port] for port in listener.ports if port in freed))
        for listener, step in (*updates, *adds)
    ]
    return [*removals.values()], changes


def _add(listener: LoadBalancerService) -> Change:
    return Change(
        "add_service",
        listener.listen_port,
        f"listen on port {listener.listen_port} ({listener.protocol}) "
        f"and forward to node port {listener.destination_port}",
        service_body(listener),
        lambda balancer: replace(balancer, services=(*balancer.services, listener)),
    )


def _update(before: LoadBalancerService, after: LoadBalancerService) -> Change:
    port, names = after.listen_port, LoadBalancerService.__struct_fields__
    changed = [name for name in names if getattr(before, name) != getattr(after, name)]

    def effect(balancer: LoadBalancer) -> LoadBalancer:
        services = (after if there.listen_port == port else there for there in balancer.services)
        return replace(balancer, services=tuple(services))

    text = f"change the listener on port {port} ({', '.join(changed)})"
    return Change("update_service", port, text, service_body(after), effect)


def _remove(port: int) -> Change:
    def effect(balancer: LoadBalancer) -> LoadBalancer:
        return replace(
            balancer, services=tuple(there for there in balancer.services if there.listen_port != port)
        )

    return Change("delete_service", port, f"stop listening on port {port}", {"listen_port": port}, effect)


def service_body(listener: LoadBalancerService) -> Json:
    """A listener in the format of requests, with only the fields for its protocol."""
    body: Json = msgspec.to_builtins(listener)
    if listener.http is None:
        del body["http"]
    elif listener.protocol == "http":
        del body["http"]["certificates"], body["http"]["redirect_http"]
    if listener.health_check.http is None:
        del body["health_check"]["http"]
    else:
        check = body["health_check"]["http"]
        body["health_check"]["http"] = {
            **check,
            "domain": check["domain"] or "",
            "response": check["response"] or "",
        }
    return body
