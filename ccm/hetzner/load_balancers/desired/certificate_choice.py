"""Chooses certificates for https ports: uploaded by ID or name, or managed for domains.

A managed certificate has a label with the Service's UID. If the domains change, a new certificate is
requested and used before the old one is deleted. All of them are deleted together with the Service.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ccm.cloud import CloudError, Notice, Rejected
from ccm.hetzner.api.models import Certificate
from ccm.hetzner.load_balancers.observed import ObservedState
from ccm.hetzner.load_balancers.ownership_labels import NAMESPACE, STAGING, is_certificate_of
from ccm.hetzner.load_balancers.spec import CertificateSpec, LoadBalancerSpec
from ccm.hetzner.load_balancers.truncation import enumerated, quoted


@dataclass(frozen=True, slots=True)
class CertificateChoice:
    """The certificates of :class:`DesiredState`, without regard to the limit of ports."""

    # IDs by port; an https port without an ID gets no listener
    by_port: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    managed: frozenset[int] = frozenset()
    requests: Mapping[int, CertificateSpec] = field(default_factory=dict[int, CertificateSpec])
    retries: tuple[Certificate, ...] = ()
    refused: bool = False  # whether an https port lacks a managed certificate
    errors: tuple[CloudError, ...] = ()
    notices: tuple[Notice, ...] = ()


def choose_certificates(spec: LoadBalancerSpec, observed: ObservedState) -> CertificateChoice:
    """Find the certificates of https ports, or request managed ones until a request fails."""
    by_port: dict[int, tuple[int, ...]] = {}
    managed: dict[int, Certificate] = {}
    requests: dict[CertificateSpec, int] = {}
    refused = None in observed.certificates.requested.values()
    asked = {port: one.certificates for port, one in spec.ports.items() if one.protocol == "https"}
    error = observed.certificates.error
    errors = [error] if error else []
    if error and any(certificates.uploaded or certificates.domains for certificates in asked.values()):
        return CertificateChoice(errors=(error,))
    for port, certificates in asked.items():
        if not certificates.domains:
            ids, missing = _uploaded(port, certificates, observed)
            errors += missing
        elif found := _managed(certificates, observed):
            ids = (found.id,)
            managed[found.id] = found
        elif refused or certificates in observed.certificates.requested:
            ids = ()
        else:
            ids = (requests.setdefault(certificates, -1 - len(requests)),)
        if ids:
            by_port[port] = ids
    failed = [
        certificate
        for certificate in managed.values()
        if certificate.status is not None
        and "failed" in (certificate.status.issuance, certificate.status.renewal)
    ]
    return CertificateChoice(
        by_port,
        frozenset(managed),
        {number: request for request, number in requests.items()},
        retries=tuple(
            certificate for certificate in failed if certificate.id not in observed.certificates.retried
        ),
        refused=any(certificates.domains and port not in by_port for port, certificates in asked.items()),
        errors=tuple(errors),
        notices=tuple(map(_failed, failed)),
    )


def _failed(certificate: Certificate) -> Notice:
    status = certificate.status
    why = status.error.message if status and status.error else "no reason given"
    names = enumerated(certificate.domain_names)
    text = f"Hetzner could not issue the managed certificate {certificate.name} ({names}): {why}"
    return Notice("ManagedCertificateFailed", text)


def _managed(asked: CertificateSpec, observed: ObservedState) -> Certificate | None:
    """The managed certificate that was requested in this sync or before."""
    known = observed.certificates.known
    requested = observed.certificates.requested.get(asked)
    return (known.get(requested) if requested else None) or next(
        (
            certificate
            for certificate in known.values()
            if is_certificate_of(certificate, observed.service) and _fits(certificate, asked)
        ),
        None,
    )


def _fits(certificate: Certificate, asked: CertificateSpec) -> bool:
    same = frozenset(certificate.domain_names) == frozenset(asked.domains)
    return same and (certificate.labels.get(STAGING) == "true") == asked.staging


def _uploaded(
    port: int, asked: CertificateSpec, observed: ObservedState
) -> tuple[tuple[int, ...], list[CloudError]]:
    """IDs of the uploaded certificates that the port may use, and errors for the others."""
    found = {reference: observed.certificates.find(reference) for reference in asked.uploaded}
    foreign = [
        reference
        for reference, certificate in found.items()
        if certificate is not None and not _may_use(certificate, observed)
    ]
    lost = [reference for reference, certificate in found.items() if certificate is None]
    errors: list[CloudError] = []
    if foreign:
        text = (
            f"http-certificates: this namespace isn't allowed to use the certificates {quoted(foreign)}. "
            f"To allow the use, add the label {NAMESPACE}={observed.service.namespace} to each certificate "
            "at Hetzner, or add the namespace to CCM_CERTIFICATE_NAMESPACES. If the certificates have no "
            "namespace label, you can add the namespace to CCM_UNLABELLED_CERTIFICATE_NAMESPACES instead"
        )
        errors.append(_missing(port, text))
    if lost:
        text = f"http-certificates: this project has no certificate with id or name {quoted(lost)}"
        errors.append(_missing(port, text))
    if not found:
        errors.append(_missing(port, "list one in http-certificates"))
    ids = dict.fromkeys(
        certificate.id for reference, certificate in found.items() if certificate and reference not in foreign
    )
    return tuple(ids), errors


def _may_use(certificate: Certificate, observed: ObservedState) -> bool:
    """Whether the Service may use a certificate, or already uses it."""
    service = observed.service
    serving = observed.balancer is not None and certificate.id in observed.balancer.certificates
    return serving or observed.tenants.may_use(
        service.namespace, service.uid, observed.cluster, certificate.labels
    )


def _missing(port: int, why: str) -> CloudError:
    text = f"port {port} needs a certificate, {why}"
    return Rejected(text, notices=(Notice("CertificateNotFound", text),))
