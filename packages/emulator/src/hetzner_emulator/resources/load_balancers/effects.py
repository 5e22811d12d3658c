"""Applies load balancers to the backend whenever they, their servers, or their certificates change."""

import logging
from collections.abc import Iterator
from typing import Any

import msgspec

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect, removal, undo
from hetzner_emulator.actions.events import announce, reaction
from hetzner_emulator.backend import BackendError, LoadBalancerService, LoadBalancerSpec, LoadBalancerTarget
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.catalogs import LOAD_BALANCER_TYPES
from hetzner_emulator.models.certificates import Certificate
from hetzner_emulator.models.load_balancers import LoadBalancer, certificates_of, selected_servers
from hetzner_emulator.models.networks import Attachment, Network
from hetzner_emulator.models.servers import Server

log = logging.getLogger(__name__)


def _spec(cloud: Cloud, balancer: LoadBalancer) -> LoadBalancerSpec:
    """The load balancer as the backend sees it: with the selected servers and the certificates themselves."""
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
    found = [cloud.store.find(Certificate, identity) for identity in certificates_of(service)]
    chains = [c.certificate + "\n" + c.private_key for c in found if c is not None and c.certificate]
    check = service["health_check"]
    http = check.get("http", {})
    health = {**check, **http, "domain": http.get("domain") or None}
    values = {**service, **service.get("http", {}), "health_check": health, "certificates": chains}
    return msgspec.convert(values, LoadBalancerService)


def _targets(cloud: Cloud, balancer: LoadBalancer) -> Iterator[LoadBalancerTarget]:
    for target in balancer.targets:
        if target.type == "ip":
            yield LoadBalancerTarget(target.ip, private=False, server_id=None)
        for server in selected_servers(cloud, balancer.project, target):
            if ip := target.address_of(cloud, server, balancer.network):
                yield LoadBalancerTarget(ip, private=target.use_private_ip, server_id=server.id)


def _attachments(cloud: Cloud, balancer: LoadBalancer) -> list[Attachment]:
    """Its attachments to networks that still exist."""
    return [place for place in balancer.attachments if cloud.store.find(Network, place.network)]


def _drop_deleted(cloud: Cloud, balancer: LoadBalancer) -> None:
    """Remove deleted networks and servers from a load balancer; the caller stores it."""
    balancer.attachments = _attachments(cloud, balancer)
    balancer.targets = [
        target
        for target in balancer.targets
        if target.server is None or cloud.store.find(Server, target.server)
    ]


async def _apply(cloud: Cloud, balancer: LoadBalancer) -> None:
    """Make the backend's load balancer equal the record, unless it does."""
    key = (balancer.KIND, balancer.id)
    async with cloud.exclusive(*key):
        if cloud.store.find(LoadBalancer, balancer.id) is None:
            return  # deleted while this waited
        # Servers may change in the meantime, and no reaction applies a load balancer that an action locks.
        while cloud.applied.get(key) != (spec := _spec(cloud, balancer)):
            await cloud.backend.put_load_balancer(spec)
            cloud.applied[key] = spec


async def _apply_or_log(cloud: Cloud, balancer: LoadBalancer) -> None:
    try:
        await _apply(cloud, balancer)
    except BackendError as error:
        log.warning(
            "can't apply the configuration of load balancer %d %s: %s", balancer.id, balancer.name, error
        )


@removal("delete_load_balancer", LoadBalancer)
async def _delete(cloud: Cloud, balancer: LoadBalancer, _action: Action) -> None:
    async with cloud.exclusive(balancer.KIND, balancer.id):
        await cloud.backend.delete_load_balancer(balancer.id)
    await _remove(cloud, balancer)


async def _remove(cloud: Cloud, balancer: LoadBalancer) -> None:
    cloud.applied.pop((balancer.KIND, balancer.id), None)
    cloud.store.remove(balancer)
    await announce("load_balancer_deleted", cloud, balancer)


@reaction("server_made")
@reaction("server_changed")
@reaction("certificate_changed")
@reaction("started")
async def _apply_all(cloud: Cloud, _subject: object) -> None:
    for balancer in list(cloud.store.all(LoadBalancer)):
        if not cloud.actions.locked("load_balancer", balancer.id):  # its action applies it at the end
            await _apply_or_log(cloud, balancer)


@effect("create_load_balancer", LoadBalancer)
async def _create(cloud: Cloud, balancer: LoadBalancer, _action: Action) -> None:
    await _apply(cloud, balancer)
    for attachment in balancer.attachments:
        attachment.status = "ok"
    cloud.store.put(balancer)


@undo("create_load_balancer", LoadBalancer)
async def _discard(cloud: Cloud, balancer: LoadBalancer, _action: Action) -> None:
    """Delete the record, and what the failed creation left in the backend."""
    try:
        async with cloud.exclusive(balancer.KIND, balancer.id):
            await cloud.backend.delete_load_balancer(balancer.id)
    except (BackendError, OSError) as error:
        log.warning("can't remove load balancer %d %s: %s", balancer.id, balancer.name, error)
    await _remove(cloud, balancer)


@effect("change_load_balancer", LoadBalancer)
async def _change(cloud: Cloud, balancer: LoadBalancer, action: Action) -> None:
    """Apply the values in the arguments to the backend, then write them to the record."""
    values = {**msgspec.to_builtins(balancer), **action.arguments}
    wanted = msgspec.convert(values, LoadBalancer)
    await _apply(cloud, wanted)
    _drop_deleted(cloud, wanted)  # an object of the request may be deleted by now
    for name in action.arguments:
        setattr(balancer, name, getattr(wanted, name))
    cloud.store.put(balancer)


@undo("change_load_balancer", LoadBalancer)
async def _revert(cloud: Cloud, balancer: LoadBalancer, _action: Action) -> None:
    """Release a reserved address, and apply what reactions left to the action."""
    balancer.attachments = [a for a in balancer.attachments if a.status != "attaching"]
    cloud.store.put(balancer)
    await _apply_or_log(cloud, balancer)


@reaction("server_deleted")
@reaction("network_deleted")
async def _forget(cloud: Cloud, subject: object) -> None:
    for balancer in list(cloud.store.all(LoadBalancer)):
        before = len(balancer.targets), len(balancer.attachments)
        _drop_deleted(cloud, balancer)
        if (len(balancer.targets), len(balancer.attachments)) != before:
            cloud.store.put(balancer)
    await _apply_all(cloud, subject)


@reaction("server_loses_ipv4")
async def _keep_address(cloud: Cloud, server: Server) -> None:
    """Refuse to unassign the address of a target."""
    balancers = cloud.store.of(LoadBalancer, server.project)
    targets = [target for balancer in balancers for target in balancer.targets]
    if any(target.server == server.id and not target.use_private_ip for target in targets):
        raise ApiError(
            "server_is_load_balancer_target", "the server's IPv4 address is a load balancer target"
        )
