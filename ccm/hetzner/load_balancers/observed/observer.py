"""Reads the observed state from the caches that all Services share."""

from collections.abc import Sequence
from dataclasses import replace

from ccm.cloud import NodeView, ServiceView
from ccm.hetzner.api import Priority
from ccm.hetzner.load_balancers.cache import JUST_NOW, LIST_AGE, SharedCache
from ccm.hetzner.load_balancers.observed.observed_state import NOTHING, ObservedState
from ccm.hetzner.load_balancers.observed.ownership import (
    ClusterScope,
    NotOurLoadBalancer,
    locate,
    split_by_cluster,
)
from ccm.hetzner.load_balancers.ownership_labels import with_ownership
from ccm.hetzner.load_balancers.spec import LoadBalancerSpec
from ccm.hetzner.load_balancers.targets import targets_of


async def observe(spec: LoadBalancerSpec, nodes: Sequence[NodeView], cache: SharedCache) -> ObservedState:
    """Read the state for a Service; changes nothing in the cloud.

    Reads only the needed parts: if no load balancer exists, and annotations are invalid or no port can be
    served, nothing else is read. Raises NotOurLoadBalancer if a foreign load balancer prevents the creation,
    and another CloudError if the state is unknown.
    """
    service, inventory = spec.service, cache.inventory
    observed = await _located(spec, cache)
    balancer = observed.balancer
    if balancer is not None:
        inventory.saw(service, balancer)
    elif spec.is_unservable and not observed.others:
        return observed
    else:
        await inventory.check_vanished(service, observed.others)
    doubtful = service.uid in inventory.invalid or (balancer is not None and not balancer.private_net)
    if doubtful and inventory.project.network is not None:
        # The network may have been deleted, which also detaches the load balancer.
        await inventory.project.check(Priority.LOAD_BALANCERS)
    observed = replace(
        observed,
        network=inventory.project.network,
        types=await cache.catalogue.types(spec, balancer, observed.ownership),
        locations=await cache.catalogue.locations(spec) if balancer is None else (),
    )
    if balancer is None and spec.problems:
        return observed
    every = await cache.servers.candidates(nodes, private=spec.use_private_ip)
    selected = {node.name for node in nodes if spec.share or spec.nodes.matches(node.labels)}
    candidates = every.only(selected)
    servers = await cache.servers.look_up(candidates, balancer, every if spec.preserve_foreign else None)
    unconfirmed = cache.servers.unconfirmed(every)
    confirmed = every.without(unconfirmed, "NotConfirmed")
    present = targets_of(balancer)
    refused = {name for name in unconfirmed & candidates.by_node.keys() if every.by_node[name] not in present}
    # Excludes servers of excluded Nodes: kubeadm excludes control servers, which may be foreign targets if
    # the load balancer of the API server is adopted.
    ours = {target.identity for target in confirmed.by_node.values()}
    return replace(
        observed,
        addresses=await cache.addresses.look_up(
            spec, balancer, observed.network if observed.is_owner else None
        ),
        primary_ips=await cache.primary_ips.look_up(spec, balancer),
        certificates=await cache.certificates.look_up(spec, balancer),
        nodes=len(nodes),
        selected=len(selected),
        candidates=candidates.without(refused, "ServerOfAnotherNode"),
        servers=servers,
        ours=frozenset(ours | cache.servers.remember(balancer, ours) if balancer else ours),
        zone="" if balancer or spec.has_placement else await cache.servers.zone_of(confirmed),
    )


async def _located(spec: LoadBalancerSpec, cache: SharedCache) -> ObservedState:
    """Find the Service's load balancer. Reads the list again before an error."""
    inventory, scope = cache.inventory, ClusterScope(cache.cluster, cache.tenants, cache.inventory.served)
    before, now = inventory.annotated.get(spec.service.uid, NOTHING), spec.annotated
    former = before[0] - now[0], before[1] - now[1]
    age = LIST_AGE
    while True:
        everyone = with_ownership(spec.service, await inventory.all(spec.service, age))
        try:
            return locate(spec, everyone, scope, former)
        except NotOurLoadBalancer:
            # A conflicting load balancer may be deleted, or the one to adopt may exist now.
            if not age or (inventory.balancers.age or 0.0) < JUST_NOW:
                raise
            age = 0.0


async def observe_for_release(service: ServiceView, cache: SharedCache) -> ObservedState:
    """Read the state of the load balancers that a Service gives up; changes nothing.

    Raises AccessDenied if neither a load balancer nor any other resource of ours exists, because then the
    project may be wrong. Raises another CloudError if the state is unknown.
    """
    found, notices = await cache.inventory.to_release(service)
    others, notices_of_others = split_by_cluster(found, cache.cluster)
    return ObservedState(
        service, others=others, cluster=cache.cluster, notices=(*notices, *notices_of_others)
    )
