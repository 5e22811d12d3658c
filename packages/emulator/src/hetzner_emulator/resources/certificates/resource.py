"""Operations on certificates."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

from cryptography import x509

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect, undo
from hetzner_emulator.actions.events import announce
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.certificates import Certificate, certificate_wire, users
from hetzner_emulator.resources.certificates.pem import facts, fits, issue, read
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply


def check_unused(cloud: Cloud, certificate: Certificate) -> None:
    """Refuse to remove a certificate that a load balancer uses, or that is being issued.

    Raises:
        Locked: An action runs on it.
        ApiError: ``resource_in_use``; one uses it.
    """
    cloud.actions.check_free("certificate", certificate.id)
    if users(cloud, certificate):
        raise ApiError("resource_in_use", "certificate still in use by a load balancer")


CERTIFICATES = Resource(
    "certificates",
    Certificate,
    certificate_wire,
    filters={"type": lambda _cloud, entry: entry.type},
    check_delete=check_unused,
)
CERTIFICATES.register()
_DOMAIN = re.compile(
    r"(?:\*\.)?(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?\.)+[a-z]{2,63}",
    re.IGNORECASE | re.ASCII,  # else the sign of Kelvin is a k
)
# Names that nobody can own: their issuance fails, so that clients can be tried with failures.
_FAILING = (".invalid", ".test-fails")


@operation("POST", "/certificates")
async def create(call: Call) -> Reply:
    """Keep an uploaded certificate, or order a managed one."""
    fields, cloud = call.fields(), call.cloud
    name, labels = CERTIFICATES.read_name(fields), fields.labels()
    kind = fields.choice("type", {"uploaded", "managed"}, "uploaded")
    values = _read_domains(fields) if kind == "managed" else _read_upload(fields)
    CERTIFICATES.check_new(call, name)
    certificate = CERTIFICATES.new(call, name, labels, type=kind, **values)
    cloud.store.put(certificate)
    wire = None
    if kind == "managed":
        (wire,) = await call.wires(_order(call, "create_certificate", certificate))
    return created("certificate", CERTIFICATES.show(call, certificate), action=wire)


def _read_domains(fields: Fields) -> dict[str, Any]:
    names = fields.texts("domain_names", required=True)
    if "domain_names" in fields and not names:
        fields.wrong("domain_names", "is too short")
    for name in names:
        if not _DOMAIN.fullmatch(name):
            fields.wrong("domain_names", f"'{name}' is not a valid domain name")
    fields.check()
    return {"domain_names": names, "issuance": "pending"}


def _read_upload(fields: Fields) -> dict[str, Any]:
    chain = fields.text("certificate", required=True, longest=100_000)
    key = fields.text("private_key", required=True, longest=100_000)
    parsed = read(chain) if chain else None
    if chain and parsed is None:
        fields.wrong("certificate", "is not a valid PEM certificate")
    if parsed is not None and key and not fits(parsed, key):
        fields.wrong("private_key", "does not fit to the certificate")
    fields.check()
    assert parsed is not None, "a field that is required was there"
    return _contents(chain, key, parsed)


def _contents(chain: str, key: str, parsed: x509.Certificate) -> dict[str, Any]:
    """What a certificate has once it is there."""
    return {"certificate": chain, "private_key": key, **asdict(facts(parsed))}


def _order(call: Call, command: str, certificate: Certificate) -> Action:
    return call.cloud.actions.start(
        command,
        call.project,
        [certificate.reference],
        effect="issue_certificate",
        seconds=call.cloud.config.certificate_seconds,
    )


@effect("issue_certificate", Certificate)
async def issue_effect(cloud: Cloud, certificate: Certificate, _action: Action) -> None:
    """Issue a managed certificate, unless its domain is one that fails."""
    if failing := [name for name in certificate.domain_names if name.endswith(_FAILING)]:
        text = f"DNS zone not found for domain '{failing[0]}'"
        raise ApiError("dns_zone_not_found", text)
    chain, key = issue(certificate.domain_names, cloud.now())
    for name, value in _contents(chain, key, x509.load_pem_x509_certificate(chain.encode())).items():
        setattr(certificate, name, value)
    certificate.issuance, certificate.error = "completed", None
    cloud.store.put(certificate)
    await announce("certificate_changed", cloud, certificate)


@undo("issue_certificate", Certificate)
async def fail(cloud: Cloud, certificate: Certificate, action: Action) -> None:
    """The certificate shows why it was not issued."""
    certificate.issuance, certificate.error = "failed", action.error
    cloud.store.put(certificate)


@CERTIFICATES.action("retry")
async def retry(call: Call, certificate: Certificate, _fields: Fields) -> Reply:
    """Order a managed certificate again after a failure."""
    if certificate.type != "managed" or certificate.issuance != "failed":
        raise ApiError("unsupported_error", "certificate not retryable")
    certificate.issuance, certificate.error = "pending", None
    call.cloud.store.put(certificate)
    return await call.answer(_order(call, "issue_certificate", certificate))
