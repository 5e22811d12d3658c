"""The steps of a plan, and all changes of a load balancer among them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from ccm.hetzner.api.wire import (
    Algorithm,
    LoadBalancer,
    LoadBalancerService,
    LoadBalancerTarget,
    LoadBalancerType,
    PrivateNet,
    Protection,
    PublicAddress,
    TargetIp,
    TargetServer,
)
from ccm.hetzner.load_balancers.facts.targets import Target, target_of

Json = dict[str, Any]
_NO_TARGET = Target()


@dataclass(frozen=True)
class Step:
    """One thing to do. Its text is for people, and tells it from all others of the same plan.

    Attributes:
        last: It waits until all before it is done and foreseen.
    """

    last: ClassVar[bool] = False


StepType_co = TypeVar("StepType_co", bound=Step, covariant=True)


@dataclass(frozen=True)
class Planned(Generic[StepType_co]):
    """A step of a plan, and the steps that it needs, by their texts."""

    step: StepType_co
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Change(Step):
    """One change of a load balancer: its request, and what it makes of the load balancer.

    Attributes:
        operation: The action's name in the API; ``update`` is the PUT.
        text: What it does, for people.
        body: The request's body.
        effect: The load balancer as it is after this change, from what it was before.
        unforeseen: The API decides about a part of the result, so it has to be read again afterwards.
        resets: Which setting it may bring back to its default.
        target: What is added or removed, if it is a target.
    """

    operation: str
    text: str
    body: Json
    effect: Callable[[LoadBalancer], LoadBalancer]
    unforeseen: bool = False
    resets: str = ""
    target: Target = _NO_TARGET

    def __str__(self) -> str:
        return self.text


def update(labels: Mapping[str, str], name: str = "", *, final: bool = False) -> Change:
    """Labels, and maybe a new name; ``final`` labels take away what was needed on the way."""
    text = (
        f"rename to {name}"
        if name
        else f"{'remove labels that are not needed any more' if final else 'set labels'}"
    )
    body = {"labels": dict(labels), **({"name": name} if name else {})}
    return Change("update", text, body, lambda one: replace(one, name=name or one.name, labels=dict(labels)))


def change_type(wanted: LoadBalancerType) -> Change:
    """The type, which limits services and targets."""
    text, body = f"change type to {wanted.name}", {"load_balancer_type": wanted.name}
    return Change(
        "change_type", text, body, lambda one: replace(one, load_balancer_type=wanted), resets="type"
    )


def change_algorithm(wanted: str) -> Change:
    """How a target is chosen."""
    text, algorithm = f"change algorithm to {wanted}", Algorithm(wanted)
    return Change(
        "change_algorithm",
        text,
        {"type": wanted},
        lambda one: replace(one, algorithm=algorithm),
        resets="algorithm",
    )


def change_public(*, enabled: bool) -> Change:
    """Answer on the public addresses, or on the private one only; only the former is a default."""
    verb = "enable" if enabled else "disable"
    return Change(
        f"{verb}_public_interface",
        f"{verb} the public interface",
        {},
        lambda one: replace(one, public_net=replace(one.public_net, enabled=enabled)),
        resets="public" if enabled else "",
    )


def attach(network: int, ip: str = "", ip_range: str = "") -> Change:
    """Enter a network; which address it gets is the API's choice if none is asked for."""
    place = f" as {ip}" if ip else f" in {ip_range}" if ip_range else ""
    asked = {key: value for key, value in {"ip": ip, "ip_range": ip_range}.items() if value}
    return Change(
        "attach_to_network",
        f"attach to network {network}{place}",
        {"network": network, **asked},
        lambda one: replace(one, private_net=(*one.private_net, PrivateNet(network, ip))),
        unforeseen=True,
    )


def detach(network: int) -> Change:
    """Leave a network."""

    def effect(one: LoadBalancer) -> LoadBalancer:
        return replace(one, private_net=tuple(net for net in one.private_net if net.network != network))

    text = f"detach from network {network}"
    return Change("detach_from_network", text, {"network": network}, effect, unforeseen=True)


def add_service(listener: LoadBalancerService) -> Change:
    """Listen on one more port."""
    return Change(
        "add_service",
        f"listen on port {listener.listen_port} ({listener.protocol}) "
        f"for node port {listener.destination_port}",
        service_body(listener),
        lambda one: replace(one, services=(*one.services, listener)),
    )


def update_service(before: LoadBalancerService, listener: LoadBalancerService) -> Change:
    """Change the listener on a port; the text names the fields that change."""
    port = listener.listen_port
    changed = [
        name for name in listener.__struct_fields__ if getattr(before, name) != getattr(listener, name)
    ]

    def effect(one: LoadBalancer) -> LoadBalancer:
        services = (listener if there.listen_port == port else there for there in one.services)
        return replace(one, services=tuple(services))

    text = f"change the listener on port {port} ({', '.join(changed)})"
    return Change("update_service", text, service_body(listener), effect)


def delete_service(port: int) -> Change:
    """Listen on a port no more."""

    def effect(one: LoadBalancer) -> LoadBalancer:
        return replace(one, services=tuple(there for there in one.services if there.listen_port != port))

    return Change("delete_service", f"stop listening on port {port}", {"listen_port": port}, effect)


def add_target(target: Target) -> Change:
    """Send traffic to one more target."""
    if target.server:
        server = TargetServer(target.server)
        new = LoadBalancerTarget("server", server=server, use_private_ip=target.private)
    else:
        new = LoadBalancerTarget("ip", ip=TargetIp(target.ip))
    return Change(
        "add_target",
        f"add {target}",
        target_body(target),
        lambda one: replace(one, targets=(*one.targets, new)),
        target=target,
    )


def remove_target(target: Target) -> Change:
    """Send no more traffic to a target."""

    def effect(one: LoadBalancer) -> LoadBalancer:
        kept = [
            there
            for there in one.targets
            if (at := target_of(there)) is None or at.identity != target.identity
        ]
        return replace(one, targets=tuple(kept))

    body = target_body(target)
    body.pop("use_private_ip", None)
    return Change("remove_target", f"remove {target}", body, effect, target=target)


def change_rdns(family: str, ip: str, name: str | None) -> Change:
    """Set the reverse DNS name of an address, or reset it: then the API chooses one."""

    def effect(one: LoadBalancer) -> LoadBalancer:
        address = {family: PublicAddress(ip, name)}
        return replace(one, public_net=replace(one.public_net, **address))

    return Change(
        "change_dns_ptr",
        f"set the reverse DNS name of {ip} to {name or 'its default'}",
        {"ip": ip, "dns_ptr": name},
        effect,
        unforeseen=name is None,
        resets=family if name is None else "",
    )


def change_protection(*, protected: bool) -> Change:
    """Protect the load balancer against deletion, or not."""
    return Change(
        "change_protection",
        "protect against deletion" if protected else "lift the protection against deletion",
        {"delete": protected},
        lambda one: replace(one, protection=Protection(protected)),
        resets="protection",
    )


def service_body(listener: LoadBalancerService) -> Json:
    """A listener as requests have it; only what matters for its protocol."""
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


def target_body(target: Target) -> Json:
    """A target as requests have it."""
    if target.server:
        return {"type": "server", "server": {"id": target.server}, "use_private_ip": target.private}
    return {"type": "ip", "ip": {"ip": target.ip}}
