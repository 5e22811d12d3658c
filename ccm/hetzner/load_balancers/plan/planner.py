"""Plans the changes from the observed state to the desired state, with as few steps as possible.

The order avoids interruptions of traffic: additions come before removals, up to the limits, and targets
change from public to private addresses one by one. A step lists the steps that must succeed before it.
Failures of other steps don't affect it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ccm.cloud import Notice, ServiceView
from ccm.hetzner.api.models import Certificate, LoadBalancer
from ccm.hetzner.load_balancers.desired import DesiredState
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.ownership_labels import (
    ADOPTED,
    BY_LABEL,
    CLUSTER,
    FORMER_UID,
    NAMESPACE,
    OURS,
    SERVICE,
    SERVICE_UID,
    Ownership,
    is_own_port,
    with_annotated_labels,
)
from ccm.hetzner.load_balancers.plan.listener_changes import change_listeners
from ccm.hetzner.load_balancers.plan.setting_changes import (
    change_labels,
    change_settings,
    change_type,
    update_labels,
)
from ccm.hetzner.load_balancers.plan.steps import (
    NOTHING,
    Change,
    DeleteCertificates,
    Release,
    RequestCertificate,
    RetryCertificate,
    Step,
    create,
    keys_of,
)
from ccm.hetzner.load_balancers.plan.target_changes import change_targets

_EARLY = frozenset({"change_type", "change_algorithm", "enable_public_interface"})


def plan(desired: DesiredState, observed: ObservedState) -> Sequence[Step]:
    """Plan the steps to the desired state of a Service's load balancer, in order; may be empty.

    Certificates come first, because listeners need their IDs. After all changes of the load balancer, unused
    certificates are deleted, and the Service leaves its former load balancers.
    """
    stays = desired.managed | observed.certificates.spared
    unused = _unused(desired, observed, stays)
    steps: list[Step] = [RetryCertificate(retry) for retry in desired.retries]
    steps += [RequestCertificate(asked) for asked in desired.requests.values()]
    if desired.exists or observed.balancer is not None:
        parts = changes(desired, observed.balancer or NOTHING)
        steps += parts if observed.balancer is not None else [create(desired, parts)]
    if desired.errors:
        return steps
    if unused:
        steps.append(DeleteCertificates(unused, stays))
    return [*steps, *(Release(other) for other in observed.others)]


def plan_release(observed: ObservedState) -> Sequence[Step]:
    """Plan the steps for a Service that gives up its load balancers and certificates."""
    return [*(Release(other) for other in observed.others), DeleteCertificates()]


def _unused(
    desired: DesiredState, observed: ObservedState, stays: Collection[int]
) -> tuple[Certificate, ...]:
    """Managed certificates of the Service that no listener will use."""
    kept = observed.balancer.services if observed.balancer else ()
    serving = [
        *desired.listeners,
        *(listener for listener in kept if listener.listen_port in desired.foreign_ports),
    ]
    used = {number for listener in serving if listener.http for number in listener.http.certificates} | {
        *stays
    }
    return tuple(certificate for certificate in observed.certificates.ours if certificate.id not in used)


def changes(desired: DesiredState, actual: LoadBalancer) -> list[Change]:
    """The changes from actual to desired, in order; none if there is no difference."""
    removals, listeners = change_listeners(desired, actual)
    network, targets = change_targets(desired, actual)
    growth, shrinking = change_type(desired, actual, [*removals, *targets])
    settings = [*growth, *change_settings(desired, actual, targets)]
    resets = [change for change in settings if change.resets in desired.resets]
    others = [change for change in settings if change not in resets]
    labels, unlabelled = change_labels(desired, actual, resets, [*removals, *listeners])
    return [
        *resets,
        *labels,
        *(change for change in others if change.operation in _EARLY),
        *network,
        *removals,
        *listeners,
        *unlabelled,
        *targets,
        *shrinking,
        *(change for change in others if change.operation not in _EARLY),
    ]


@dataclass(frozen=True, slots=True)
class Released:
    """What happens to a load balancer that a Service leaves."""

    deletes: bool  # delete it, unless the API refuses because it is protected
    changes: tuple[Change, ...]  # if the load balancer stays; labels last
    notices: tuple[Notice, ...]  # for the owner, if it stays


def release(
    service: ServiceView, balancer: LoadBalancer, ownership: Ownership, cluster: str
) -> Released | None:
    """Decide about a load balancer that a Service leaves; None = the Service doesn't use it any more.

    If only the protection prevents the deletion, the load balancer keeps its addresses, but no listeners and
    targets, because internal Services may get the same node ports later. Its labels still name the former
    owner, so the load balancer is reported as an orphan. ``cluster`` may be empty.
    """
    if not ownership.is_user:
        return None
    owners, listening = ownership.owners, [listener.listen_port for listener in balancer.services]
    others = {*owners.values()} - {service.uid}
    foreign = bool(owners) and not owners.keys() >= {*listening}
    is_owner = balancer.labels.get(SERVICE_UID) == service.uid
    stays = not is_owner or bool(others) or foreign or ADOPTED in balancer.labels
    present = balancer.labels if stays else _with_origin(service, balancer.labels, cluster)
    labels = labels_after(service, present, owners)
    mine = [port for port, uid in owners.items() if uid == service.uid] if owners else listening
    rest = DesiredState(
        name=balancer.name,
        labels=balancer.labels,
        targets=() if is_owner and not (stays and owners) else None,
        foreign_ports=frozenset(listening) - frozenset(mine),
    )
    steps = changes(rest, balancer)
    if labels != balancer.labels:
        # Labels last, so that a retry after a failure finds the load balancer again.
        steps.append(update_labels("labels", "set labels", labels, keys_of(steps)))
    name = f"load balancer {balancer.name} ({balancer.id})"
    if stays:
        why = (
            "other Services use the load balancer"
            if foreign
            else "the load balancer was not created for this Service"
        )
        notice = Notice("LoadBalancerReleased", f"{name} is not deleted, because {why}", warning=False)
        return Released(deletes=False, changes=tuple(steps), notices=() if others else (notice,))
    text = (
        f"{name} still exists, without ports and targets, because the load balancer is protected against "
        "deletion. If you don't need the addresses of the load balancer, delete the load balancer"
    )
    notice = Notice("LoadBalancerProtected", text)
    return Released(not balancer.protection.delete, tuple(steps), (notice,))


def _with_origin(service: ServiceView, labels: Mapping[str, str], cluster: str) -> dict[str, str]:
    """Labels with the former owner. A load balancer from the official CCM may lack our other labels."""
    origin = {NAMESPACE: service.namespace, FORMER_UID: service.uid}
    return {**labels, **origin, **({CLUSTER: cluster} if cluster else {})}


def labels_after(
    service: ServiceView, labels: Mapping[str, str], owners: Mapping[int, str]
) -> dict[str, str]:
    """The labels of a load balancer after a Service leaves it. Another Service becomes the owner.

    The new owner's name is unknown here, so the old name is removed. The next sync of the new owner writes
    its name and namespace. Until then, the old namespace stays, because without this label, all namespaces
    match. ``owners`` contains the UIDs by listener port.
    """
    own = frozenset({service.uid})
    left = {key: value for key, value in labels.items() if not is_own_port(key, value, own)}
    others = sorted(uid for uid in owners.values() if uid != service.uid)
    if left.get(SERVICE_UID) != service.uid:
        return left
    if others:
        return {**{key: value for key, value in left.items() if key != SERVICE}, SERVICE_UID: others[0]}
    left = with_annotated_labels(left, {})
    theirs = {NAMESPACE} if left.get(ADOPTED) == BY_LABEL else set[str]()
    if FORMER_UID in left:  # even if it was adopted later
        theirs = {NAMESPACE, SERVICE, CLUSTER, FORMER_UID}
    ours = {SERVICE_UID, *(key for key in left if key.startswith(OURS))} - theirs
    return {key: value for key, value in left.items() if key not in ours}
