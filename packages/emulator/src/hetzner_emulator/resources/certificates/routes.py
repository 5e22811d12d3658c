"""Operations on certificates."""

import re
from typing import Any

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.api.call import Call
from hetzner_emulator.api.registry import operation
from hetzner_emulator.api.resource import Resource, created
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.certificates import Certificate, certificate_wire, users
from hetzner_emulator.resources.certificates.pem import contents, is_key_of, read
from hetzner_emulator.wire.fields import Fields
from hetzner_emulator.wire.reply import Reply


def _check_unused(cloud: Cloud, certificate: Certificate) -> None:
    cloud.actions.check_free("certificate", certificate.id)
    if users(cloud, certificate):
        raise ApiError("resource_in_use", "certificate still in use by a load balancer")


CERTIFICATES = Resource(
    "certificates",
    Certificate,
    certificate_wire,
    filters={"type": lambda _cloud, entry: entry.type},
    check_delete=_check_unused,
)
CERTIFICATES.register()
_DOMAIN = re.compile(
    r"(?:\*\.)?(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?\.)+[a-z]{2,63}",
    re.IGNORECASE | re.ASCII,
)


@operation("POST", "/certificates")
async def _create(call: Call) -> Reply:
    fields, cloud = call.fields(), call.cloud
    name, labels = CERTIFICATES.read_name(fields), fields.labels()
    kind = fields.choice("type", {"uploaded", "managed"}, "uploaded")
    values = _read_domains(fields) if kind == "managed" else _read_upload(fields)
    CERTIFICATES.check_new(call, name)
    certificate = CERTIFICATES.new(call, name, labels, type=kind, **values)
    cloud.store.put(certificate)
    wire = None
    if kind == "managed":
        (wire,) = await call.wires(_issue(call, "create_certificate", certificate))
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
    if parsed is not None and key and not is_key_of(key, parsed):
        fields.wrong("private_key", "does not match the certificate")
    fields.check()
    assert parsed is not None, "the field is required"
    return contents(chain, key, parsed)


def _issue(call: Call, command: str, certificate: Certificate) -> Action:
    return call.cloud.actions.start(
        command,
        call.project,
        [certificate.reference],
        effect="issue_certificate",
        seconds=call.cloud.config.certificate_seconds,
    )


@CERTIFICATES.action("retry")
async def _retry(call: Call, certificate: Certificate, _fields: Fields) -> Reply:
    """Issue a managed certificate again after a failure."""
    if certificate.type != "managed" or certificate.issuance != "failed":
        raise ApiError("unsupported_error", "certificate not retryable")
    certificate.issuance, certificate.error = "pending", None
    call.cloud.store.put(certificate)
    return await call.answer(_issue(call, "issue_certificate", certificate))
