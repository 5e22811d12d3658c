"""Finds a Service's load balancer among those of the project, by their labels and names."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ccm.cloud import CloudError, Notice
from ccm.hetzner.api.models import LoadBalancer
from ccm.hetzner.load_balancers.observed.observed_state import NOTHING, Former, ObservedState
from ccm.hetzner.load_balancers.ownership_labels import (
    CLUSTER,
    NAMESPACE,
    SERVICE_UID,
    SHARE,
    Ownership,
    is_of_other_cluster,
)
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.spec import LoadBalancerSpec
from ccm.hetzner.settings import Tenants


class NotOurLoadBalancer(CloudError):
    """A conflicting load balancer exists that we may not change."""

    def __init__(self, message: str) -> None:
        super().__init__(message, notices=(Notice("LoadBalancerNotOurs", message),))


@dataclass(frozen=True, slots=True)
class ClusterScope:
    """Identifies this cluster's load balancers."""

    cluster: str = ""  # this cluster's ID; may be empty
    tenants: Tenants = field(default_factory=Tenants)
    served: Collection[str] = ()  # UIDs of Services that certainly belong to this cluster


def locate(
    spec: LoadBalancerSpec,
    everyone: Sequence[tuple[LoadBalancer, Ownership]],
    scope: ClusterScope,
    former: Former = NOTHING,
) -> ObservedState:
    """Find a Service's load balancer, and other load balancers that it owns or uses.

    ``everyone`` contains all load balancers of the project with their ownership for the Service. ``former``
    contains formerly annotated settings. Raises NotOurLoadBalancer if a foreign load balancer conflicts.
    """
    service = spec.service
    used = [one for one, ownership in everyone if ownership.is_user]
    if spec.is_unservable and not used:
        return ObservedState(service)
    balancer, is_owner, adopting = _place(spec, everyone, scope)
    ownership = next((ownership for one, ownership in everyone if one is balancer), Ownership())
    return ObservedState(
        service=service,
        balancer=balancer,
        ownership=ownership.with_annotated(*former) if balancer is not None else ownership,
        is_owner=is_owner,
        adopting=adopting,
        others=tuple(one for one in used if one is not balancer),
        cluster=scope.cluster,
        tenants=scope.tenants,
        former=former if balancer is not None else NOTHING,
    )


def _place(
    spec: LoadBalancerSpec, everyone: Sequence[tuple[LoadBalancer, Ownership]], scope: ClusterScope
) -> tuple[LoadBalancer | None, bool, bool]:
    """The load balancer, whether the Service is its owner, and whether the Service adopts it now."""
    service = spec.service
    mine = [balancer for balancer, _ in everyone if balancer.labels.get(SERVICE_UID) == service.uid]
    if len(mine) > 1:
        names = ", ".join(f"{balancer.name} ({balancer.id})" for balancer in mine)
        raise NotOurLoadBalancer(
            f"{len(mine)} load balancers have the label of this Service: {names}. Remove the label from "
            "all but one"
        )
    shared = _shared(spec, everyone, scope) if spec.share else None
    if mine:
        _refuse_other_cluster(mine[0], scope.cluster)
        if shared is None or shared[0] is mine[0]:
            return mine[0], True, False
    if shared is not None:
        return (*shared, False)
    if spec.adopt:
        return _adoptable(spec, [balancer for balancer, _ in everyone], scope), True, True
    same_name = next((balancer for balancer, _ in everyone if balancer.name == spec.name), None)
    if same_name is not None and scope.tenants.may_adopt(service.namespace, same_name.labels):
        raise NotOurLoadBalancer(
            f"a load balancer named {same_name.name!r} ({same_name.id}) exists and does not belong to "
            f"this Service. To take over this load balancer, annotate the Service with {PREFIX}adopt: "
            f"{str(same_name.id)!r}. To create another load balancer, choose its name with {PREFIX}name"
        )
    if same_name is not None:
        raise NotOurLoadBalancer(
            f"a load balancer named {spec.name!r} exists and does not belong to this Service. To create "
            f"another load balancer, choose its name with {PREFIX}name. To take over the existing load "
            f"balancer, add the label {NAMESPACE}={service.namespace} to the load balancer at Hetzner, "
            f"and annotate the Service with {PREFIX}adopt"
        )
    return None, True, False


def _shared(
    spec: LoadBalancerSpec, everyone: Sequence[tuple[LoadBalancer, Ownership]], scope: ClusterScope
) -> tuple[LoadBalancer, bool] | None:
    """The shared load balancer that the Service may use, and whether the Service owns it."""
    service = spec.service
    ambiguous: LoadBalancer | None = None
    for balancer, ownership in sorted(everyone, key=lambda pair: pair[0].id):
        if balancer.labels.get(SHARE) != spec.share:
            continue
        owner_uid = balancer.labels.get(SERVICE_UID, "")
        place = balancer, owner_uid == "" or owner_uid in ownership.own
        if ownership.is_user:
            return place
        if not scope.tenants.may_share(service.namespace, balancer.labels.get(NAMESPACE, service.namespace)):
            continue
        owner = balancer.labels.get(CLUSTER, "")
        if owner and owner == scope.cluster:
            return place
        # Without cluster IDs, it belongs to this cluster if a label has the UID of one of its Services.
        if not owner and {owner_uid, *ownership.owners.values()} & {*scope.served}:
            return place
        ambiguous = ambiguous or (None if owner and scope.cluster else balancer)
    if ambiguous is not None:
        raise NotOurLoadBalancer(
            f"load balancer {ambiguous.name!r} ({ambiguous.id}) has the share name {spec.share!r}, but may "
            f"belong to another cluster. Set CCM_CLUSTER_ID, or choose another value for {PREFIX}share"
        )
    return None


def _adoptable(spec: LoadBalancerSpec, balancers: list[LoadBalancer], scope: ClusterScope) -> LoadBalancer:
    service = spec.service
    # The ID first, because a tenant may use the ID of another load balancer as a name.
    found = [one for one in balancers if spec.adopt == str(one.id)]
    found = found or [one for one in balancers if spec.adopt == one.name]
    owned = found and found[0].labels.get(SERVICE_UID) == service.uid
    if not owned and not scope.tenants.may_adopt(service.namespace, found[0].labels if found else {}):
        # One text for all cases, so that tenants can't find out the load balancers of others.
        raise NotOurLoadBalancer(
            f"{PREFIX}adopt: Services in the namespace {service.namespace!r} aren't allowed to adopt "
            f"{spec.adopt!r}, or this load balancer doesn't exist. To allow the adoption, add the label "
            f"{NAMESPACE}={service.namespace} to the load balancer at Hetzner, or add the namespace to "
            "CCM_ADOPT_NAMESPACES"
        )
    if not found:
        raise NotOurLoadBalancer(
            f"{PREFIX}adopt: {spec.adopt!r} isn't the ID or name of a load balancer of this project"
        )
    balancer = found[0]
    _refuse_other_cluster(balancer, scope.cluster)
    owner = balancer.labels.get(SERVICE_UID, "")
    if owner and owner != service.uid:
        raise NotOurLoadBalancer(
            f"{PREFIX}adopt: load balancer {balancer.name!r} ({balancer.id}) belongs to the Service with "
            f"UID {owner}. If that Service no longer exists, remove the label {SERVICE_UID} from the "
            "load balancer"
        )
    return balancer


def _refuse_other_cluster(balancer: LoadBalancer, cluster: str) -> None:
    other = balancer.labels.get(CLUSTER, "")
    if is_of_other_cluster(balancer, cluster):
        raise NotOurLoadBalancer(
            f"load balancer {balancer.name!r} ({balancer.id}) belongs to cluster {other!r}, "
            f"but this is cluster {cluster!r}"
        )


def split_by_cluster(
    balancers: Sequence[LoadBalancer], cluster: str
) -> tuple[tuple[LoadBalancer, ...], list[Notice]]:
    """The load balancers that don't belong to another cluster, and notices about the others."""
    theirs = [balancer for balancer in balancers if is_of_other_cluster(balancer, cluster)]
    notices = [
        Notice(
            "LoadBalancerReleased",
            f"load balancer {one.name} ({one.id}) is not deleted, because it has the label of another "
            "cluster. If you don't need the load balancer, delete it",
        )
        for one in theirs
    ]
    return tuple(balancer for balancer in balancers if balancer not in theirs), notices
