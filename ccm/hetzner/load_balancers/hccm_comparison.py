"""Compares our handling of a Service with that of the official CCM, before a migration back to it.

Each sentence names the annotation or field, the behavior of the official CCM (v1.39.0), and a replacement. We
know this behavior from tests of its binary, its source code (v1.35.0), and the documentation of later
versions. ``spec.official_format`` describes how it parses values.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ccm.cloud import ServiceView
from ccm.hetzner.api.models import LoadBalancer
from ccm.hetzner.load_balancers.ownership_labels import ADOPTED, NAMESPACE, ports_by_label
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.spec import (
    BY_NAME,
    PORT_KEYS,
    PRIMARY_IP_KEY,
    LoadBalancerSpec,
    OfficialFormat,
    official_spelling,
    read,
)
from ccm.hetzner.load_balancers.truncation import enumerated, shown
from ccm.hetzner.settings import LoadBalancerSettings

_PORT_KEY = re.compile(r"port\.[0-9]+\.(.+)")
# The official CCM also parses these before a deletion, to check whether a load balancer exists.
_READ_AT_DELETION = frozenset({"uses-proxyprotocol", "ipv6-disabled", "disable-private-ingress"})
# In the official CCM, an empty value has the same meaning.
_EMPTY_IS_ALIKE = frozenset(
    {"http-managed-certificate-name", "certificate-type", "node-selector", "location"}
)
_ANY = frozenset({OfficialFormat.UNKNOWN, OfficialFormat.UNUSED})
_LITERAL = frozenset({OfficialFormat.TEXT, OfficialFormat.DOMAIN, OfficialFormat.LOWER})
# With any of these, the official CCM sets a health check with the protocol of the port.
_CHECKS = ("health-check-port", "health-check-interval", "health-check-timeout", "health-check-retries")

NAME = "official"
OURS: Mapping[str, str] = {
    "adopt": (
        "the official CCM doesn't support this annotation, and deletes the load balancer when you delete the "
        "Service. While our CCM is still running, set delete-protection: 'true' to prevent the deletion"
    ),
    "share": (
        "the official CCM doesn't support this annotation. After the switch, only one of the Services keeps "
        "the load balancer, and the others get new load balancers. While our CCM is still running, remove "
        "the annotation from one Service at a time, and move its clients to the new address"
    ),
    "preserve-foreign": (
        "the official CCM doesn't support this annotation, and removes ports and targets that other clients "
        "added. Before you switch, move these ports and targets to another load balancer"
    ),
    "labels": (
        "the official CCM doesn't support this annotation. Existing labels remain. Changes to the annotation "
        "have no effect"
    ),
    "delete-protection": (
        "the official CCM doesn't support this annotation. A protected load balancer keeps its protection, "
        "and remains after you delete its Service. Before you delete the Service, remove the protection at "
        "Hetzner"
    ),
}
"""Maps each key that the official CCM doesn't support to a message. The message says what the official CCM
does, and what to do before a switch to the official CCM."""


def compare_with_hccm(
    service: ServiceView,
    defaults: LoadBalancerSettings,
    *,
    network: bool,
    balancer: LoadBalancer | None = None,
) -> tuple[str, ...]:
    """List the values that the official CCM can't parse, and differences in its behavior.

    Excludes values that our own parser refuses. ``defaults`` come from the environment; the official CCM has
    the same variables. ``network``: whether a private network exists. ``balancer``: None = the Service has no
    load balancer, or it wasn't read.
    """
    spec = read(service, defaults, network=network)
    known = {
        name: value
        for name, value in service.annotations.items()
        if not _PORT_KEY.fullmatch(name.removeprefix(PREFIX))
    }
    theirs = read(replace(service, annotations=known), defaults, network=network)
    sentences = [
        *_class(service.load_balancer_class),
        *_adopted(service, balancer),
        *_used_by_others(service, balancer),
        *_unknown(service, spec, balancer),
        *_of_ports(service, spec, theirs),
        *_unreadable(service, spec),
        *_primary_ips(spec, defaults, balancer),
        *_check_by_https(service, theirs, defaults),
        *_local(service, spec, balancer),
        *_no_tcp(service),
    ]
    return tuple(dict.fromkeys(sentences))


def _class(name: str) -> Iterator[str]:
    if name:
        yield (
            f"spec.loadBalancerClass: {name!r}: the official CCM ignores Services with a class. The "
            "official CCM doesn't update the targets, and doesn't delete the load balancer when you delete "
            "the Service. Recreate the Service without a class"
        )


def _adopted(service: ServiceView, balancer: LoadBalancer | None) -> Iterator[str]:
    """Without the annotation, its label stays: our CCM keeps the load balancer, theirs deletes it."""
    if balancer is None or ADOPTED not in balancer.labels or balancer.protection.delete:
        return
    if not service.annotations.get(PREFIX + "adopt", "").strip():
        adopted = f"load balancer {balancer.name} ({balancer.id}), whose Service had the annotation adopt"
        yield f"our CCM adopted {adopted}: {OURS['adopt']}"


def _used_by_others(service: ServiceView, balancer: LoadBalancer | None) -> Iterator[str]:
    """The labels contain the sharing Services, even after the annotation was removed."""
    owners = ports_by_label(balancer) if balancer is not None else {}
    theirs = [f"{port}" for port, uid in sorted(owners.items()) if uid != service.uid]
    if balancer is not None and theirs and not service.annotations.get(PREFIX + "share", "").strip():
        yield (
            f"load balancer {balancer.name} ({balancer.id}) has ports of other Services "
            f"({enumerated(theirs)}). The official CCM removes these ports. While our CCM is still "
            f"running, remove the annotation {PREFIX}share from those Services"
        )


def _unknown(service: ServiceView, spec: LoadBalancerSpec, balancer: LoadBalancer | None) -> Iterator[str]:
    is_protected = balancer.protection.delete if balancer is not None else spec.settings.get("protection")
    for name, value in service.annotations.items():
        key = name.removeprefix(PREFIX)
        if name == key or not value.strip() or name in spec.problems:
            continue
        if key == "preserve-foreign" and not spec.preserve_foreign:
            continue
        if key == "adopt" and is_protected:
            continue
        if key in OURS:
            yield f"{name}: {OURS[key]}"


def _of_ports(service: ServiceView, spec: LoadBalancerSpec, theirs: LoadBalancerSpec) -> Iterator[str]:
    """Report annotations for individual ports that change the result."""
    for number, asked in spec.ports.items():
        if asked == theirs.ports[number]:
            continue
        start = f"{PREFIX}port.{number}."
        for name, value in service.annotations.items():
            key = name.removeprefix(start)
            if key == name or key not in PORT_KEYS or not value.strip() or name in spec.problems:
                continue
            general = service.annotations.get(PREFIX + key, "").strip()
            says = shown(general) if general else "not set"
            text = f"{name}: the official CCM doesn't support annotations for one port. The annotation "
            text += f"{key}, which applies to all ports, is {says}"
            if key == "protocol":
                became = theirs.ports[number].protocol
                lost = " without certificates" if asked.protocol == "https" != became else ""
                text += f", so the official CCM changes port {number} to {became}{lost}, and sends no Event"
            yield f"{text}. Set {key} for all ports, or move the port to its own Service"


def _unreadable(service: ServiceView, spec: LoadBalancerSpec) -> Iterator[str]:
    if PREFIX in spec.problems:
        return  # the annotations are too long, so our CCM ignores them too
    for name, value in service.annotations.items():
        key = BY_NAME.get(name.removeprefix(PREFIX))
        if not name.startswith(PREFIX) or key is None or name in spec.problems:
            continue
        if key.official in _ANY or (not value.strip() and key.name in _EMPTY_IS_ALIKE):
            continue
        try:
            better = official_spelling(key.official, value)
        except ValueError:
            continue  # also invalid for our CCM, but not used, for example without a port of the protocol
        if better == value and better:
            continue
        instead = f"Set the value {better!r}" if better else "Remove the annotation"
        yield f"{name}: {shown(value)}: {_consequence(key.name, key.official)}. {instead}"


def _primary_ips(
    spec: LoadBalancerSpec, defaults: LoadBalancerSettings, balancer: LoadBalancer | None
) -> Iterator[str]:
    """The official CCM requires IDs, and doesn't use the location of a Primary IP."""
    for family, reference in spec.primary_ips.items():
        key = PRIMARY_IP_KEY.format(family)
        known = balancer.public_net.of(family).id if balancer else None
        if not reference.isdigit():
            instead = str(known) if known else "its ID"
            yield (
                f"{key}: {shown(reference)}: the official CCM requires the ID of a Primary IP. Change "
                f"the value to {instead}"
            )
        if balancer is None and not (spec.location or defaults.location):
            yield (
                f"{key}: {shown(reference)}: the official CCM doesn't use the location of the Primary IP. "
                f"Set the annotation {PREFIX}location to this location"
            )


def _consequence(name: str, reading: OfficialFormat) -> str:
    if name in _READ_AT_DELETION:
        return "the official CCM rejects this value, keeps retrying, and also can't delete the load balancer"
    if name == "certificate-type":
        return "the official CCM treats every value other than exactly 'managed' as 'uploaded'"
    if reading is OfficialFormat.LIST:
        return (
            "the official CCM doesn't remove white space and empty items from the list, so it finds no "
            "certificates for these items"
        )
    if reading is OfficialFormat.STAGING:
        return "the official CCM rejects this value, and uses false instead"
    if reading in _LITERAL:
        return "the official CCM uses this value unchanged"
    return "the official CCM rejects this value and keeps retrying"


def _check_by_https(
    service: ServiceView, theirs: LoadBalancerSpec, defaults: LoadBalancerSettings
) -> Iterator[str]:
    """The official CCM requests a health check with protocol https, which the API doesn't support."""
    annotations = {name: value.strip() for name, value in service.annotations.items() if value.strip()}
    chosen = annotations.get(PREFIX + "health-check-protocol", "").lower()
    error = (
        "the official CCM requests a health check with protocol https. The API rejects this request, and "
        "the official CCM keeps retrying"
    )
    if chosen == "https":
        yield (
            f"{PREFIX}health-check-protocol: 'https': {error}. Set health-check-protocol to "
            "'http', and health-check-http-validate-certificate to 'true'"
        )
    if chosen or not any(port.protocol == "https" for port in theirs.ports.values()):
        return
    set_here = [key for key in _CHECKS if PREFIX + key in annotations]
    by_environment = [
        f"HCLOUD_LOAD_BALANCERS_{BY_NAME[key].variable}"
        for key, value in (
            ("health-check-interval", defaults.health_check_interval),
            ("health-check-timeout", defaults.health_check_timeout),
            ("health-check-retries", defaults.health_check_retries),
        )
        if value
    ]
    if set_here or by_environment:
        why = ", ".join([*set_here, *by_environment])
        what = f"{PREFIX}protocol is 'https', and these settings configure a health check: {why}. Therefore, "
        yield f"{what}{error}. Set health-check-protocol to 'http'"


def _local(service: ServiceView, spec: LoadBalancerSpec, balancer: LoadBalancer | None) -> Iterator[str]:
    """Without annotations about the check, our CCM checks kube-proxy for Pods on the node.

    A load balancer from the official CCM without our labels keeps its TCP check.
    """
    if service.external_traffic_policy != "Local" or (
        balancer is not None and NAMESPACE not in balancer.labels
    ):
        return
    checks = [port.check for port in spec.ports.values()]
    if any(check is None or not check.chosen for check in checks):
        number = service.health_check_node_port or "<spec.healthCheckNodePort>"
        yield (
            "spec.externalTrafficPolicy: 'Local': with our CCM, the health check sends HTTP requests to "
            "kube-proxy's port. With the official CCM, the health check connects to the node ports with TCP. "
            "To check kube-proxy's port with the official CCM, set these annotations: "
            f"health-check-protocol: 'http', health-check-port: '{number}', "
            "health-check-http-path: '/healthz' and http-status-codes: '200'"
        )


def _no_tcp(service: ServiceView) -> Iterator[str]:
    if service.ports and all(port.protocol != "TCP" for port in service.ports):
        yield (
            "spec.ports: no port is TCP. The official CCM creates a load balancer without ports, and "
            "Hetzner charges for this load balancer"
        )
