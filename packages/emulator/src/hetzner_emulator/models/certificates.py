"""The record of a certificate."""

from typing import Any, ClassVar

import msgspec

from hetzner_emulator.cloud import Cloud
from hetzner_emulator.state.records import Record, record, timestamp


@record
class Certificate(Record):
    """A certificate."""

    KIND: ClassVar[str] = "certificate"
    FIRST_ID: ClassVar[int] = 8_000_001

    type: str  # either `uploaded` or `managed`
    domain_names: list[str] = msgspec.field(default_factory=list)
    certificate: str | None = None  # PEM chain, None until it is issued
    private_key: str = ""  # PEM; the API never returns it
    fingerprint: str | None = None  # SHA-256 in hexadecimal pairs, None until it is issued
    not_valid_before: float | None = None  # Unix time, None until it is issued
    not_valid_after: float | None = None  # likewise
    issuance: str = ""  # one of `pending`, `completed` and `failed`; "" for uploaded ones
    error: tuple[str, str] | None = None  # code and message of a failed issuance


def users(cloud: Cloud, certificate: Certificate) -> list[int]:
    """IDs of the load balancers that use it."""
    return [balancer.id for balancer in cloud.store.lookup("certificate", certificate.id)]


def certificate_wire(cloud: Cloud, certificate: Certificate) -> dict[str, Any]:
    """The certificate as the API shows it."""
    return {
        **certificate.common_wire("type", "certificate", "domain_names", "fingerprint"),
        "not_valid_before": _moment(certificate.not_valid_before),
        "not_valid_after": _moment(certificate.not_valid_after),
        "status": _status(certificate) if certificate.type == "managed" else None,
        "used_by": [{"id": identity, "type": "load_balancer"} for identity in users(cloud, certificate)],
    }


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)


def _status(certificate: Certificate) -> dict[str, Any]:
    error = certificate.error
    return {
        "issuance": certificate.issuance,
        # even of a new one: hcloud CLI, test/e2e/certificate_test.go
        "renewal": "unavailable",
        "error": None if error is None else {"code": error[0], "message": error[1]},
    }
