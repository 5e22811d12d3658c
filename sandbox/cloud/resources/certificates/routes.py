"""Operations on certificates."""

from __future__ import annotations

import re

from sandbox.cloud.actions import Action, action_wire
from sandbox.cloud.call import Call
from sandbox.cloud.cloud import Cloud
from sandbox.cloud.collection import Resource, action_reply, check_unique
from sandbox.cloud.effects import effect, undo
from sandbox.cloud.errors import ApiError
from sandbox.cloud.events import announce
from sandbox.cloud.fields import Fields
from sandbox.cloud.records import Reference
from sandbox.cloud.registry import operation
from sandbox.cloud.reply import Reply
from sandbox.cloud.resources.certificates.pem import Facts, facts, fits, issue, read
from sandbox.cloud.resources.certificates.state import Certificate, certificate_wire, users

CERTIFICATES = Resource(
    "certificates", Certificate, certificate_wire, filters={"type": lambda _cloud, entry: entry.type}
)
CERTIFICATES.add_reads()
CERTIFICATES.add_update()
CERTIFICATES.add_actions()
_DOMAIN = re.compile(r"(?:\*\.)?(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?\.)+[a-z]{2,63}", re.IGNORECASE)
# Names that nobody can own: their issuance fails, so that clients can be tried with failures.
_FAILING = (".invalid", ".test-fails")


@operation("POST", "/certificates")
async def create(call: Call) -> Reply:
    """Keep an uploaded certificate, or order a managed one."""
    fields, cloud = call.fields(), call.cloud
    name, labels = CERTIFICATES.read_name(fields), fields.labels()
    kind = fields.choice("type", {"uploaded", "managed"}, "uploaded")
    certificate = Certificate(
        id=0, project=call.project, name=name, labels=labels, created=cloud.now(), type=kind
    )
    if kind == "managed":
        _read_domains(fields, certificate)
    else:
        _read_upload(fields, certificate)
    check_unique(call, Certificate, name)
    cloud.check_limit("certificates", cloud.store.count(Certificate, call.project))
    certificate.id = cloud.store.new_id(Certificate)
    cloud.store.put(certificate)
    wire = None
    if kind == "managed":
        action = _order(call, "create_certificate", certificate)
        await cloud.actions.settle()
        wire = action_wire(action, cloud.now())
    return Reply(201, {"certificate": CERTIFICATES.show(call, certificate), "action": wire})


def _read_domains(fields: Fields, certificate: Certificate) -> None:
    names = fields.texts("domain_names", required=True)
    if "domain_names" in fields and not names:
        fields.wrong("domain_names", "is too short")
    for name in names:
        if not _DOMAIN.fullmatch(name):
            fields.wrong("domain_names", f"'{name}' is not a valid domain name")
    fields.check()
    certificate.domain_names, certificate.issuance = names, "pending"


def _read_upload(fields: Fields, certificate: Certificate) -> None:
    chain = fields.text("certificate", required=True, longest=100_000)
    key = fields.text("private_key", required=True, longest=100_000)
    parsed = read(chain) if chain else None
    if chain and parsed is None:
        fields.wrong("certificate", "is not a valid PEM certificate")
    if parsed is not None and key and not fits(parsed, key):
        fields.wrong("private_key", "does not fit to the certificate")
    fields.check()
    if parsed is not None:
        certificate.private_key = key
        _fill(certificate, chain, facts(parsed))


def _fill(certificate: Certificate, chain: str, known: Facts) -> None:
    certificate.certificate, certificate.fingerprint = chain, known.fingerprint
    certificate.not_valid_before, certificate.not_valid_after = known.not_valid_before, known.not_valid_after
    certificate.domain_names = known.domain_names


def _order(call: Call, command: str, certificate: Certificate) -> Action:
    return call.cloud.actions.start(
        command,
        call.project,
        [Reference("certificate", certificate.id)],
        effect="issue_certificate",
        seconds=call.cloud.config.certificate_seconds,
    )


@effect("issue_certificate")
async def issue_effect(cloud: Cloud, action: Action) -> None:
    """Issue a managed certificate, unless its domain is one that fails."""
    certificate = cloud.store.get(Certificate, action.project, action.resources[0].id)
    if failing := [name for name in certificate.domain_names if name.endswith(_FAILING)]:
        text = f"DNS zone not found for domain '{failing[0]}'"
        raise ApiError("dns_zone_not_found", text)
    chain, key = issue(certificate.domain_names, cloud.now())
    parsed = read(chain)
    if parsed is not None:
        certificate.private_key = key
        _fill(certificate, chain, facts(parsed))
    certificate.issuance, certificate.error = "completed", None
    cloud.store.put(certificate)
    await announce("certificate_changed", cloud, certificate)


@undo("issue_certificate")
async def fail(cloud: Cloud, action: Action) -> None:
    """The certificate shows why it was not issued."""
    certificate = cloud.store.find(Certificate, action.resources[0].id)
    if certificate is not None:
        certificate.issuance = "failed"
        certificate.error = action.error
        cloud.store.put(certificate)


@operation("POST", "/certificates/{id}/actions/retry")
async def retry(call: Call) -> Reply:
    """Order a managed certificate again after a failure."""
    certificate = call.get(Certificate)
    call.cloud.actions.check_free("certificate", certificate.id)
    if certificate.type != "managed":
        raise ApiError("unsupported_error", "only managed certificates can be retried")
    if certificate.issuance != "failed":
        raise ApiError("unsupported_error", "the certificate's issuance has not failed")
    certificate.issuance, certificate.error = "pending", None
    call.cloud.store.put(certificate)
    return await action_reply(call, _order(call, "issue_certificate", certificate))


@operation("DELETE", "/certificates/{id}")
async def delete(call: Call) -> Reply:
    """Remove a certificate that no load balancer uses."""
    certificate = call.get(Certificate)
    call.cloud.actions.check_free("certificate", certificate.id)
    if users(call.cloud, certificate):
        raise ApiError("resource_in_use", "certificate still in use by a load balancer")
    call.cloud.store.remove(certificate)
    return Reply(204, None)
