"""The certificates of https ports: uploaded ones by id or name, managed ones that follow their domains. Pure.

A managed certificate carries the Service's UID. When the domains change, a new one is requested and put in
place before the old one is deleted; all of them go with the Service.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ccm.cloud import CloudError, Notice, Rejected
from ccm.hetzner.api.wire import Certificate
from ccm.hetzner.load_balancers.facts import Facts
from ccm.hetzner.load_balancers.facts.certificates import find
from ccm.hetzner.load_balancers.labels import certificates_of, is_certificate_of
from ccm.hetzner.load_balancers.wishes import Wishes
from ccm.hetzner.load_balancers.wishes.ports import CertificateWishes
from ccm.hetzner.load_balancers.wording import enumerated, quoted

STAGING = "HC-Use-Staging-CA"
NOT_YET = 0  # stands for the id of a certificate that is yet to be requested


@dataclass
class WantedCertificates:
    """What https ports should serve with.

    Attributes:
        by_port: Ids of the certificates, by port; a port without any can't be served.
        managed: The managed ones among them, by id.
        requests: Managed ones that are to be requested.
        refused: Whether one was requested in vain.
        errors: What is missing.
    """

    by_port: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    managed: dict[int, Certificate] = field(default_factory=dict[int, Certificate])
    requests: dict[CertificateWishes, None] = field(default_factory=dict[CertificateWishes, None])
    refused: bool = False
    errors: list[CloudError] = field(default_factory=list[CloudError])

    @property
    def failed(self) -> list[Certificate]:
        """Managed ones that could not be issued, or renewed."""
        return [
            one
            for one in self.managed.values()
            if one.status is not None and "failed" in (one.status.issuance, one.status.renewal)
        ]

    @property
    def notices(self) -> list[Notice]:
        """What the owner should know about them."""
        notices: list[Notice] = []
        for one in self.failed:
            why = one.status.error.message if one.status and one.status.error else "no reason given"
            text = f"the managed certificate {one.name} ({enumerated(one.domain_names)}) failed: {why}"
            notices.append(Notice("ManagedCertificateFailed", text))
        return notices


def wanted_certificates(wishes: Wishes, facts: Facts) -> WantedCertificates:
    """Find the certificates of every https port among those that there are.

    Args:
        wishes: What the Service asks for.
        facts: What there is; the load balancer goes on using what it uses.
    """
    wanted = WantedCertificates()
    asked = {port: one.certificates for port, one in wishes.ports.items() if one.protocol == "https"}
    if facts.certificates.error is not None:
        wanted.errors.append(facts.certificates.error)
        if any(one.uploaded or one.domains for one in asked.values()):
            return wanted
    for port, certificates in asked.items():
        if certificates.domains:
            _managed(port, certificates, facts, wanted)
        else:
            _uploaded(port, certificates, facts, wanted)
    return wanted


def _managed(port: int, asked: CertificateWishes, facts: Facts, wanted: WantedCertificates) -> None:
    known, requested = facts.certificates.known, facts.certificates.requested
    found = known.get(requested.get(asked) or NOT_YET) or next(
        (one for one in known.values() if is_certificate_of(one, facts.service) and _fits(one, asked)), None
    )
    if found is not None:
        wanted.by_port[port] = (found.id,)
        wanted.managed[found.id] = found
    elif asked not in requested:
        wanted.by_port[port] = (NOT_YET,)
        wanted.requests[asked] = None
    else:
        wanted.refused = True


def _fits(certificate: Certificate, asked: CertificateWishes) -> bool:
    same = frozenset(certificate.domain_names) == frozenset(asked.domains)
    return same and (certificate.labels.get(STAGING) == "true") == asked.staging


def _uploaded(port: int, asked: CertificateWishes, facts: Facts, wanted: WantedCertificates) -> None:
    found = {reference: find(reference, facts.certificates) for reference in asked.uploaded}
    foreign = [reference for reference, one in found.items() if one is not None and not _may_use(one, facts)]
    lost = [reference for reference, one in found.items() if one is None]
    if foreign:
        text = (
            f"http-certificates: {quoted(foreign)} belongs to another namespace, Service or cluster, as its "
            "labels say; have the namespace named in CCM_CERTIFICATE_NAMESPACES to use it"
        )
        wanted.errors.append(_missing(port, text))
    if lost:
        text = f"http-certificates: this project has no certificate with id or name {quoted(lost)}"
        wanted.errors.append(_missing(port, text))
    if not found:
        wanted.errors.append(_missing(port, "it has none: name some in http-certificates"))
    ids = dict.fromkeys(one.id for reference, one in found.items() if one and reference not in foreign)
    if ids:
        wanted.by_port[port] = tuple(ids)


def _may_use(certificate: Certificate, facts: Facts) -> bool:
    """Whether the Service may use a certificate, or does already."""
    service = facts.service
    return certificate.id in certificates_of(facts.balancer) or facts.tenants.may_use(
        service.namespace, service.uid, facts.cluster, certificate.labels
    )


def _missing(port: int, why: str) -> CloudError:
    text = f"port {port} needs a certificate, {why}"
    return Rejected(text, notices=(Notice("CertificateNotFound", text),))
