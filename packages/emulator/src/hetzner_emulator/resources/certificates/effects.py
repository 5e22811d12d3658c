"""Issues managed certificates."""

from cryptography import x509

from hetzner_emulator.actions.actions import Action
from hetzner_emulator.actions.effects import effect, undo
from hetzner_emulator.actions.events import announce
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.certificates import Certificate
from hetzner_emulator.resources.certificates.pem import contents, issue

_FAILING = (".invalid", ".test-fails")
"""If a domain name has one of these suffixes, the request fails, so that clients can test failures."""


@effect("issue_certificate", Certificate)
async def _issue(cloud: Cloud, certificate: Certificate, _action: Action) -> None:
    if failing := [name for name in certificate.domain_names if name.endswith(_FAILING)]:
        text = f"DNS zone not found for domain '{failing[0]}'"
        raise ApiError("dns_zone_not_found", text)
    chain, key = issue(certificate.domain_names, cloud.now())
    for name, value in contents(chain, key, x509.load_pem_x509_certificate(chain.encode())).items():
        setattr(certificate, name, value)
    certificate.issuance, certificate.error = "completed", None
    cloud.store.put(certificate)
    await announce("certificate_changed", cloud, certificate)


@undo("issue_certificate", Certificate)
async def _fail(cloud: Cloud, certificate: Certificate, action: Action) -> None:
    certificate.issuance, certificate.error = "failed", action.error
    cloud.store.put(certificate)
