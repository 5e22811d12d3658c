"""Tells the backend what a load balancer shall be, whenever that changes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import removal
from hetzner_emulator.actions.events import announce, reaction
from hetzner_emulator.backend import (
    BackendError,
    HealthCheck,
    LoadBalancerService,
    LoadBalancerSpec,
    LoadBalancerTarget,
)
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.certificates import Certificate
from hetzner_emulator.models.load_balancer_targets import selected_servers
from hetzner_emulator.models.load_balancer_types import LOAD_BALANCER_TYPES
from hetzner_emulator.models.load_balancers import LoadBalancer, certificates_of
from hetzner_emulator.models.networks import Attachment, Network
from hetzner_emulator.models.servers import Server

log = logging.getLogger(__name__)


def load_balancer_spec(cloud: Cloud, balancer: LoadBalancer) -> LoadBalancerSpec:
    """The load balancer as the backend sees it: label selectors resolved, certificates included."""
    kind = LOAD_BALANCER_TYPES.find(balancer.type)
    return LoadBalancerSpec(
        id=balancer.id,
        name=balancer.name,
        public_enabled=balancer.public_enabled,
        public_ipv4=balancer.ipv4,
        public_ipv6=balancer.ipv6,
        private=tuple((attachment.network, attachment.ip) for attachment in _attachments(cloud, balancer)),
        algorithm="least_connections" if balancer.algorithm == "least_connections" else "round_robin",
        max_connections=kind.max_connections,
        services=tuple(_service(cloud, service) for service in balancer.services),
        targets=tuple(dict.fromkeys(_targets(cloud, balancer))),
    )


def _service(cloud: Cloud, service: dict[str, Any]) -> LoadBalancerService:
    http, check = service.get("http", {}), service["health_check"]
    options = {
        name: http[name]
        for name in ("sticky_sessions", "cookie_name", "cookie_lifetime", "timeout_idle")
        if http
    }
    found = [cloud.store.find(Certificate, identity) for identity in certificates_of(service)]
    chains = [c.certificate + "\n" + c.private_key for c in found if c is not None and c.certificate]
    return LoadBalancerService(
        protocol=service["protocol"],
        listen_port=service["listen_port"],
        destination_port=service["destination_port"],
        proxyprotocol=service["proxyprotocol"],
        health_check=_health_check(check),
        redirect_http=http.get("redirect_http", False),
        certificates=tuple(chains),
        **options,
    )


def _health_check(check: dict[str, Any]) -> HealthCheck:
    basic = {name: check[name] for name in ("protocol", "port", "interval", "timeout", "retries")}
    http = check.get("http")
    if http is None:
        return HealthCheck(**basic)
    codes = tuple(http["status_codes"])
    return HealthCheck(
        **basic,
        domain=http["domain"] or None,
        path=http["path"],
        response=http["response"],
        status_codes=codes,
        tls=http["tls"],
    )


def _targets(cloud: Cloud, balancer: LoadBalancer) -> Iterator[LoadBalancerTarget]:
    for target in balancer.targets:
        if target.type == "ip":
            yield LoadBalancerTarget(target.ip, private=False, server_id=None)
        for server in selected_servers(cloud, balancer.project, target):
            if ip := target.address_of(cloud, server, balancer.network):
                yield LoadBalancerTarget(ip, private=target.use_private_ip, server_id=server.id)


def _attachments(cloud: Cloud, balancer: LoadBalancer) -> list[Attachment]:
    """Its places in networks that are still there."""
    return [place for place in balancer.attachments if cloud.store.find(Network, place.network)]


def drop_gone(cloud: Cloud, balancer: LoadBalancer) -> None:
    """Take out of a load balancer what is gone; the caller keeps it by ``store.put``."""
    balancer.attachments = _attachments(cloud, balancer)
    balancer.targets = [
        target
        for target in balancer.targets
        if target.server is None or cloud.store.find(Server, target.server)
    ]


async def apply(cloud: Cloud, balancer: LoadBalancer) -> None:
    """Make the backend's load balancer equal the record; nothing is asked when it does already.

    Raises:
        BackendError: It can't.
    """
    key = (balancer.KIND, balancer.id)
    async with cloud.exclusive(*key):
        # again where servers have changed meanwhile: nobody else applies what an action has locked
        while cloud.applied.get(key) != (spec := load_balancer_spec(cloud, balancer)):
            await cloud.backend.put_load_balancer(spec)
            cloud.applied[key] = spec


async def catch_up(cloud: Cloud, balancer: LoadBalancer) -> None:
    """The same where nobody waits for it: what can't follow is noted."""
    try:
        await apply(cloud, balancer)
    except BackendError as error:
        log.warning("load balancer %d %s could not follow: %s", balancer.id, balancer.name, error)


@removal("delete_load_balancer", LoadBalancer)
async def delete(cloud: Cloud, balancer: LoadBalancer, _action: Action) -> None:
    """Remove it from the world below, then the record."""
    key = (balancer.KIND, balancer.id)
    async with cloud.exclusive(*key):
        await cloud.backend.delete_load_balancer(balancer.id)
        cloud.applied.pop(key, None)
    cloud.store.remove(balancer)
    await announce("load_balancer_deleted", cloud, balancer)


async def _apply_all(cloud: Cloud) -> None:
    for balancer in list(cloud.store.all(LoadBalancer)):
        if not cloud.actions.locked("load_balancer", balancer.id):  # else its action does it
            await catch_up(cloud, balancer)


@reaction("server_changed")
@reaction("certificate_changed")
@reaction("started")
async def follow(cloud: Cloud, _subject: object) -> None:
    """Servers, labels, addresses or certificates changed."""
    await _apply_all(cloud)


@reaction("server_deleted")
async def forget_server(cloud: Cloud, server: Server) -> None:
    """A deleted server is no target any more."""
    for balancer in list(cloud.store.all(LoadBalancer)):
        kept = [target for target in balancer.targets if target.server != server.id]
        if len(kept) < len(balancer.targets):
            balancer.targets = kept
            cloud.store.put(balancer)
    await _apply_all(cloud)


@reaction("network_deleted")
async def leave_network(cloud: Cloud, network: Network) -> None:
    """Load balancers leave a network that is deleted."""
    for balancer in list(cloud.store.all(LoadBalancer)):
        kept = [attachment for attachment in balancer.attachments if attachment.network != network.id]
        if len(kept) < len(balancer.attachments):
            balancer.attachments = kept
            cloud.store.put(balancer)
    await _apply_all(cloud)
