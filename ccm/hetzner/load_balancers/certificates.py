"""Certificates of https ports: uploaded ones by id or name, managed ones that follow their domains.

A managed certificate carries the Service's UID. When the domains change, a new one is requested and put in
place before the old one is deleted; all of them go with the Service.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from ccm.cloud import CloudError, Notice, Rejected, ServiceView
from ccm.hetzner.api import HetznerApi
from ccm.hetzner.budget import Priority
from ccm.hetzner.errors import NotFound, Refused, Unavailable, unavailable
from ccm.hetzner.load_balancers.annotations import CertificateWishes, Wishes
from ccm.hetzner.load_balancers.changes import Sleep, delete, patiently
from ccm.hetzner.load_balancers.ownership import CLUSTER, SERVICE_UID
from ccm.hetzner.view import View
from ccm.hetzner.wire import Certificate

STAGING = "HC-Use-Staging-CA"
AGE = 300.0
AGE_AFTER_MISS = 5.0
RETRY_PERIOD = 3600.0  # seconds between two requests for a certificate that could not be issued
NOT_YET = 0  # stands for the id of a certificate that a plan would request


@dataclass
class Resolution:
    """What came of looking for a Service's certificates.

    Attributes:
        by_port: Ids of the certificates, by port.
        managed: Ids of the managed ones in use.
        steps: What was done, or would be.
        errors: What is missing.
        notices: What the owner should know.
    """

    by_port: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    managed: set[int] = field(default_factory=set[int])
    steps: list[str] = field(default_factory=list[str])
    errors: list[CloudError] = field(default_factory=list[CloudError])
    notices: list[Notice] = field(default_factory=list[Notice])


class Certificates:
    """Finds, requests and deletes certificates.

    Args:
        api: The API.
        cluster: The cluster's id; may be empty.
        sleep: Waits.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        api: HetznerApi,
        cluster: str,
        *,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sleep = sleep
        self.view: View[Certificate] = View(
            lambda priority: api.list("/certificates", "certificates", Certificate, priority=priority)
        )
        self._api = api
        self._cluster = cluster
        self._clock = clock
        self._retried: dict[int, float] = {}
        self._doubtful = False

    async def close(self) -> None:
        """Stop reading."""
        await self.view.close()

    def doubt(self) -> None:
        """Something went wrong with what we know: the next look is a fresh one."""
        self._doubtful = True

    async def resolve(self, service: ServiceView, wishes: Wishes, *, dry: bool) -> Resolution:
        """Find the certificates of every https port; request managed ones that don't exist.

        Args:
            service: The Service.
            wishes: Its annotations.
            dry: Only say what would be requested.
        """
        resolution = Resolution()
        ports = {
            port: asked.certificates for port, asked in wishes.ports.items() if asked.protocol == "https"
        }
        if not any(asked.uploaded or asked.domains for asked in ports.values()):
            for port in ports:
                resolution.errors.append(_missing(port, "it has none: name some in http-certificates"))
            return resolution
        try:
            known = await self._read(AGE)
            if any(_unknown(asked, known) for asked in ports.values()):
                known = await self._read(AGE_AFTER_MISS)
        except CloudError as error:
            resolution.errors.append(error)
            return resolution
        for port, asked in ports.items():
            if asked.domains:
                await self._managed(service, port, asked, resolution, dry=dry)
            else:
                _uploaded(port, asked, known, resolution)
        return resolution

    async def sweep(
        self, service: ServiceView, used: Iterable[int], *, look: bool, dry: bool
    ) -> tuple[list[str], list[CloudError]]:
        """Delete the Service's managed certificates that nothing uses any more.

        Args:
            service: The Service.
            used: Ids of those that stay.
            look: Whether there may be some that the view does not know.
            dry: Only say what would be deleted.

        Returns:
            What was done, and what went wrong.
        """
        steps: list[str] = []
        errors: list[CloudError] = []
        if look:
            await self._read(AGE)
        mine = [one for one in self.view.contents.by_id.values() if _is_ours(one, service)]
        stays = set(used)
        for certificate in mine:
            if certificate.id in stays:
                continue
            try:
                if not dry:
                    await self._delete(certificate)
                steps.append(f"delete managed certificate {certificate.name} ({certificate.id})")
            except CloudError as error:
                errors.append(error)
        return steps, errors

    async def _delete(self, certificate: Certificate) -> None:
        with suppress(NotFound):
            await delete(self._api, f"/certificates/{certificate.id}", sleep=self.sleep)
        self.view.remove(certificate.id)

    async def _managed(
        self, service: ServiceView, port: int, asked: CertificateWishes, resolution: Resolution, *, dry: bool
    ) -> None:
        everyone = self.view.contents.by_id.values()
        found = next((one for one in everyone if _is_ours(one, service) and _fits(one, asked)), None)
        if found is None:
            step = f"request a managed certificate for {', '.join(asked.domains)}"
            try:
                found = None if dry else await self._request(service, asked)
            except CloudError as error:
                resolution.errors.append(error)
                return
            if step not in resolution.steps:
                resolution.steps.append(step)
        if found is None:
            resolution.by_port[port] = (NOT_YET,)
            return
        resolution.by_port[port] = (found.id,)
        first = found.id not in resolution.managed
        resolution.managed.add(found.id)
        status = found.status
        if status is not None and "failed" in (status.issuance, status.renewal):
            why = status.error.message if status.error else "no reason given"
            text = f"the managed certificate {found.name} ({', '.join(found.domain_names)}) failed: {why}"
            resolution.notices.append(Notice("ManagedCertificateFailed", text))
            if first and not dry:
                await self._retry(found, resolution)

    async def _retry(self, certificate: Certificate, resolution: Resolution) -> None:
        """Have a failed certificate issued again, now and then: what was wrong may have been put right."""
        now = self._clock()
        self._retried = {one: at for one, at in self._retried.items() if now - at < RETRY_PERIOD}
        if certificate.id in self._retried:
            return
        self._retried[certificate.id] = now
        path = f"/certificates/{certificate.id}/actions/retry"
        try:
            await patiently(lambda: self._api.act(path, priority=Priority.LOAD_BALANCERS), self.sleep)
        except CloudError as error:
            resolution.errors.append(error)
            return
        self._doubtful = True
        resolution.steps.append(f"request managed certificate {certificate.name} ({certificate.id}) again")

    async def _request(self, service: ServiceView, asked: CertificateWishes) -> Certificate:
        labels = {SERVICE_UID: service.uid, CLUSTER: self._cluster, STAGING: "true" if asked.staging else ""}
        body = {
            "name": self._free_name(asked),
            "type": "managed",
            "domain_names": list(asked.domains),
            "labels": {key: value for key, value in labels.items() if value},
        }
        try:
            answer = await self._api.change("POST", "/certificates", body, priority=Priority.LOAD_BALANCERS)
        except Unavailable:
            self._doubtful = True  # it may exist: look before asking again
            raise
        except Refused as error:
            self._doubtful = error.code == "uniqueness_error"
            raise
        try:
            certificate = msgspec.convert(answer.get("certificate"), Certificate)
        except msgspec.ValidationError as error:
            self._doubtful = True
            raise unavailable("POST /certificates", f"the answer makes no sense: {error}") from None
        self.view.put(certificate)
        return certificate

    def _free_name(self, asked: CertificateWishes) -> str:
        """The name that was asked for, or one made from it while an older certificate has that."""
        if asked.name not in self.view.contents.by_name:
            return asked.name
        digest = hashlib.sha256(",".join(sorted(asked.domains)).encode()).hexdigest()[:8]
        return f"{asked.name[:119]}-{digest}"

    async def _read(self, age: float) -> Mapping[int, Certificate]:
        found = await self.view.read(0.0 if self._doubtful else age, Priority.LOAD_BALANCERS)
        self._doubtful = False
        return found.by_id


def _is_ours(certificate: Certificate, service: ServiceView) -> bool:
    return certificate.type == "managed" and certificate.labels.get(SERVICE_UID) == service.uid


def _fits(certificate: Certificate, asked: CertificateWishes) -> bool:
    same = frozenset(certificate.domain_names) == frozenset(asked.domains)
    return same and (certificate.labels.get(STAGING) == "true") == asked.staging


def _find(reference: str, known: Mapping[int, Certificate]) -> Certificate | None:
    """A certificate by id, or by name."""
    if reference.isascii() and reference.isdigit() and len(reference) < 20 and int(reference) in known:
        return known[int(reference)]
    return next((one for one in known.values() if one.name == reference), None)


def _unknown(asked: CertificateWishes, known: Mapping[int, Certificate]) -> bool:
    return any(_find(reference, known) is None for reference in asked.uploaded)


def _uploaded(
    port: int, asked: CertificateWishes, known: Mapping[int, Certificate], resolution: Resolution
) -> None:
    found = [_find(reference, known) for reference in asked.uploaded]
    lost = [name for name, certificate in zip(asked.uploaded, found, strict=True) if certificate is None]
    ids = tuple(dict.fromkeys(certificate.id for certificate in found if certificate is not None))
    if lost:
        names = ", ".join(repr(name) for name in lost)
        text = f"http-certificates: this project has no certificate with id or name {names}"
        resolution.errors.append(_missing(port, text))
    elif not ids:
        resolution.errors.append(_missing(port, "it has none: name some in http-certificates"))
    if ids:
        resolution.by_port[port] = ids


def _missing(port: int, why: str) -> CloudError:
    text = f"port {port} needs a certificate, {why}"
    return Rejected(text, notices=(Notice("CertificateNotFound", text),))
