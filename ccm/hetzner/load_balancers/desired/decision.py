"""Decides the desired state of a Service's load balancer from all choices."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from ccm.cloud import Notice, Rejected
from ccm.hetzner.api.models import LoadBalancer
from ccm.hetzner.load_balancers.desired.annotated_settings import (
    choose_settings,
    labels_of_annotations,
    wanted_labels,
)
from ccm.hetzner.load_balancers.desired.certificate_choice import CertificateChoice, choose_certificates
from ccm.hetzner.load_balancers.desired.desired_state import DesiredState, Placement
from ccm.hetzner.load_balancers.desired.listener_choice import (
    ListenerChoice,
    choose_listeners,
    foreign_ports,
    with_checks,
)
from ccm.hetzner.load_balancers.desired.location_choice import (
    PlacementChoice,
    TypeChoice,
    choose_placement,
    choose_type,
)
from ccm.hetzner.load_balancers.desired.target_choice import choose_targets
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.ownership_labels import ADOPTED, NAMESPACE
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.spec import LoadBalancerSpec
from ccm.hetzner.load_balancers.truncation import enumerated

# Notices for a Service without a port that a load balancer can serve.
_UNSERVABLE = frozenset({"UnsupportedProtocolConfigured", "NodePortMissing", "IPFamilyUnsupported"})


class InvalidAnnotations(Rejected):
    """A Service has invalid annotations. The message lists all mistakes."""

    def __init__(self, problems: Iterable[str]) -> None:
        text = enumerated([*problems], between="; ")
        super().__init__(text, notices=(Notice("InvalidLoadBalancerAnnotation", text),))


def decide(spec: LoadBalancerSpec, observed: ObservedState) -> DesiredState:
    """Decide the desired state of a load balancer; parts with invalid or missing values stay as they are.

    Raises:
        InvalidAnnotations: No load balancer exists, and invalid annotations prevent its creation.
        AccessDenied: No load balancer exists, and the project has none of the servers.
        Rejected: A new load balancer would have no location or no address.
    """
    actual = observed.balancer
    if actual is None and spec.is_unservable and not (observed.others and spec.problems):
        notices = (one for one in spec.unsupported if one.reason in _UNSERVABLE)
        return DesiredState("", {}, exists=False, notices=tuple(notices))
    last = [*_not_adopted(spec, observed)]
    kind, place = choose_type(spec, observed), choose_placement(spec, observed)
    problems = {**spec.problems, **kind.problems, **place.problems}
    certificates = CertificateChoice() if problems else choose_certificates(spec, observed)
    taken = foreign_ports(spec, observed)
    listeners = choose_listeners(spec, observed, kind.limits, certificates.by_port, taken)
    # One Event lists all mistakes, and all annotations without effect.
    complaints = [*problems.values(), *spec.warnings.values()]
    invalid = [InvalidAnnotations(complaints)] if complaints else []
    if problems and actual is None:
        raise invalid[0]
    if actual is None and (why := spec.why_no_address(network=observed.network is not None)):
        raise Rejected(why, notices=(Notice("LoadBalancerWithoutAddress", why),))
    targets = choose_targets(spec, observed, kind.limits)
    notices = [] if problems else [notice for error in invalid for notice in error.notices]
    notices += [*kind.notices, *place.notices, *certificates.notices, *targets.notices]
    serving = {
        number for listener in listeners.listeners if listener.http for number in listener.http.certificates
    }
    known = replace(
        targets,
        foreign_ports=frozenset(taken),
        managed=certificates.managed,
        requests={number: request for number, request in certificates.requests.items() if number in serving},
        retries=tuple(retry for retry in certificates.retries if retry.id in serving),
        errors=(*(invalid if problems else ()), *certificates.errors),
        notices=(*notices, *spec.unsupported, *listeners.notices, *last),
    )
    if problems and actual is not None:
        return unchanged(known, actual, problems)
    return compose(known, spec, observed, (kind, place, certificates, listeners))


def _not_adopted(spec: LoadBalancerSpec, observed: ObservedState) -> Iterator[Notice]:
    actual = observed.balancer
    if actual is None or not spec.adopt or spec.adopt in (str(actual.id), actual.name):
        return
    if observed.is_owner and not observed.adopting and ADOPTED not in actual.labels:
        text = (
            f"{PREFIX}adopt: {spec.adopt!r} is not adopted, because load balancer {actual.name} "
            f"({actual.id}) already belongs to this Service. To adopt {spec.adopt!r}, delete "
            f"{actual.name}"
        )
        yield Notice("LoadBalancerNotAdopted", text)


# The prefix alone is the key of the problem that all annotations are too long.
_TARGET_KEYS = frozenset({PREFIX, PREFIX + "node-selector", PREFIX + "use-private-ip"})


def unchanged(known: DesiredState, actual: LoadBalancer, problems: Collection[str]) -> DesiredState:
    """Keep the load balancer because of mistakes, but update its targets if these are known."""
    return replace(
        known,
        name=actual.name,
        labels=actual.labels,
        targets=None if _TARGET_KEYS.intersection(problems) else known.targets,
        foreign_ports=frozenset(listener.listen_port for listener in actual.services),
    )


def compose(
    known: DesiredState,
    spec: LoadBalancerSpec,
    observed: ObservedState,
    parts: tuple[TypeChoice, PlacementChoice, CertificateChoice, ListenerChoice],
) -> DesiredState:
    """Combine the choices with settings, labels and health checks; raises Rejected without a location."""
    kind, place, certificates, chosen = parts
    if observed.balancer is None and place.site == Placement():
        text = (
            f"the load balancer has no location: annotate the Service with {PREFIX}location or "
            f"{PREFIX}network-zone, or set HCLOUD_LOAD_BALANCERS_LOCATION"
        )
        raise Rejected(text, notices=(Notice("LoadBalancerLocationMissing", text),))
    ports = {listener.listen_port for listener in chosen.listeners}
    unclear = frozenset[int]()
    if observed.balancer is not None and (known.errors or certificates.refused):
        present = {listener.listen_port for listener in observed.balancer.services}
        unclear = frozenset(present & spec.ports.keys() - ports)
    known = choose_settings(known, spec, observed, kind.kept)
    annotated = labels_of_annotations(spec, observed, kind.kept)
    labels = wanted_labels(spec, observed, ports, annotated)
    if NAMESPACE in labels and not observed.ownership.ours:
        # This write makes the load balancer ours, so write all labels that the next sync would add.
        mine = replace(observed, ownership=replace(observed.ownership, ours=True))
        labels = wanted_labels(spec, mine, ports, labels_of_annotations(spec, mine, kind.kept))
    # The health checks change only if the load balancer is ours, or becomes ours by this change.
    ours = bool(observed.ownership.ours or spec.share or observed.ownership.shared or NAMESPACE in labels)
    return replace(
        known,
        labels=labels,
        type=kind.type,
        network=place.network,
        private_ip=place.private_ip,
        ip_range=place.ip_range,
        listeners=with_checks(spec.service, chosen, ours=ours),
        foreign_ports=known.foreign_ports | unclear,
        site=place.site,
        primary_ips=place.primary_ips,
    )
