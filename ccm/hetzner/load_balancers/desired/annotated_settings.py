"""Chooses annotated settings, and resets a setting to its default after its annotation is removed.

A setting without an annotation stays, because users may have set it by hand or with another program. The
exception is a setting that was annotated before. Labels store the annotated settings: one label for the
settings of the load balancer, and one label for each field of ports. For a load balancer from the official
CCM, these labels are written only together with another change.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ccm.hetzner.api.models import HealthCheck
from ccm.hetzner.load_balancers.desired.desired_state import DesiredState
from ccm.hetzner.load_balancers.listeners import CHECK_HTTP_FIELDS, HTTP_FIELDS
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.ownership_labels import (
    ADOPTED,
    ANNOTATED,
    BY_LABEL,
    CLUSTER,
    FIELD,
    NAMESPACE,
    NO_PORT,
    PORT,
    SERVICE,
    SERVICE_UID,
    SHARE,
    is_own_port,
    with_annotated_labels,
)
from ccm.hetzner.load_balancers.spec import SETTINGS, HealthCheckSpec, LoadBalancerSpec, PortSpec

_PORT = PortSpec()
_CHECK = HealthCheckSpec()
_HTTP_NAMES = frozenset({*HTTP_FIELDS, *CHECK_HTTP_FIELDS})
_NO_CHECK = HealthCheck(interval=_CHECK.interval, timeout=_CHECK.timeout)


def choose_settings(
    known: DesiredState, spec: LoadBalancerSpec, observed: ObservedState, kept: frozenset[str]
) -> DesiredState:
    """Add annotated settings, and defaults for removed annotations; other settings stay."""
    balancer = observed.balancer
    if balancer is not None and not observed.is_owner:
        return replace(known, name=balancer.name)
    # The label of a later version may contain unknown names.
    back = (observed.ownership.settings & SETTINGS.keys()) - spec.asked
    chosen: dict[str, Any] = {name: spec.settings[name] for name in spec.asked}
    chosen |= {name: SETTINGS[name].default for name in back}
    if balancer is None:
        chosen = {setting.name: setting.default for setting in SETTINGS.values() if setting.created} | chosen
    return replace(
        known,
        name=spec.name if balancer is None or "name" in chosen else balancer.name,
        public=chosen.get("public"),
        rdns={family: chosen[family] for family in ("ipv4", "ipv6") if family in chosen},
        settings={
            name: chosen[name] for name, setting in SETTINGS.items() if setting.action and name in chosen
        },
        resets=back - kept,
    )


def labels_of_annotations(
    spec: LoadBalancerSpec, observed: ObservedState, kept: frozenset[str]
) -> Mapping[str, str]:
    """The labels that store annotated settings, and former ones in ``kept``."""
    labels = {} if spec.share or observed.ownership.shared else annotated_fields_label(spec, observed)
    annotated = annotated_label(spec, observed, kept)
    return {**labels, ANNOTATED: annotated} if annotated else labels


def annotated_label(spec: LoadBalancerSpec, observed: ObservedState, kept: frozenset[str]) -> str:
    """The label value with the annotated settings, and former ones that can't be reset yet (``kept``)."""
    before = observed.ownership.settings
    asked = {
        name
        for name in spec.asked
        if (value := spec.settings[name]) != (one := SETTINGS[name]).default
        and (
            observed.ownership.ours
            or name in before
            or observed.balancer is None
            or one.value_of(observed.balancer) != value
        )
    }
    return "-".join(sorted(asked | (before & kept)))


def annotated_fields_label(spec: LoadBalancerSpec, observed: ObservedState) -> dict[str, str]:
    """The labels that store annotated fields of ports."""
    before = observed.ownership.fields
    present = (
        {listener.listen_port: listener for listener in observed.balancer.services}
        if observed.balancer
        else {}
    )
    fields, found = observed.fields, set[str]()
    for number, port in spec.ports.items():
        now = fields.get(number, {})
        for part, default in ((port, _PORT), (port.check, _CHECK)):
            if part is None:
                continue
            for name in part.asked - found:
                value = getattr(part, name)
                counts = part.protocol != "tcp" or name not in _HTTP_NAMES
                # Earlier versions didn't store a protocol. A protocol alone must not cause a write.
                ours = observed.ownership.ours and name != "protocol"
                noted = name in before or ours or (counts and now.get(name) != value)
                if noted and value != getattr(default, name):
                    found.add(name)
        found |= _cut(port.check, present[number].health_check if number in present else _NO_CHECK) or (
            _one_time_of(port.check) & before
        )
    return {FIELD + name.replace("_", "-"): "" for name in found}


def _one_time_of(check: HealthCheckSpec | None) -> frozenset[str]:
    """The time (interval or timeout) that isn't requested, if only the other one is."""
    times = frozenset({"interval", "timeout"})
    asked = times & check.asked if check is not None else times
    return times - asked if len(asked) == 1 else frozenset()


def _cut(check: HealthCheckSpec | None, now: HealthCheck) -> frozenset[str]:
    """The time that must change, because it doesn't fit the requested other time."""
    if check is None:
        return frozenset()
    other = _one_time_of(check)
    interval = now.interval if "interval" in other else check.interval
    timeout = now.timeout if "timeout" in other else check.timeout
    return other if timeout > interval else frozenset()


def wanted_labels(
    spec: LoadBalancerSpec, observed: ObservedState, ports: Iterable[int], annotated: Mapping[str, str]
) -> Mapping[str, str]:
    """All labels that the load balancer should have. ``annotated``: labels with annotated settings.

    Labels of other clients stay. Our own labels are completed only together with another change of labels, so
    that a migration from the official CCM changes nothing.
    """
    service = spec.service
    present = dict(observed.balancer.labels) if observed.balancer else {}
    labels = {
        key: value for key, value in present.items() if not is_own_port(key, value, observed.ownership.own)
    }
    if spec.tolerates_others or observed.ownership.others:
        own_ports = {f"{PORT}{port}": service.uid for port in ports}
        labels |= own_ports or ({NO_PORT: service.uid} if observed.is_owner else {})
        if spec.share:
            labels[SHARE] = spec.share
    if observed.is_owner:
        labels[SERVICE_UID] = service.uid
        labels.pop(ANNOTATED, None)
        labels = {key: value for key, value in labels.items() if not key.startswith(FIELD)}
        labels |= annotated
        labels = with_annotated_labels(labels, spec.labels)
    if observed.adopting:
        # In a later plan of the same sync, both labels may already exist.
        labels[ADOPTED] = present.get(ADOPTED) or (BY_LABEL if NAMESPACE in present else "true")
    names = {NAMESPACE: service.namespace, SERVICE: service.name} if observed.is_owner else {}
    if observed.ownership.ours:
        labels |= names  # replaces the former owner's names
    if labels == present:
        return labels
    labels |= names
    if observed.cluster:
        labels[CLUSTER] = observed.cluster
    return labels
