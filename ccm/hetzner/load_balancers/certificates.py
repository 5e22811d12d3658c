"""Certificates of https ports: uploaded ones by id or name, managed ones that follow their domains.

A managed certificate carries the Service's UID. When the domains change, a new one is requested and put in
place before the old one is deleted; all of them go with the Service. Only those that carry a label of ours
are ever deleted, none of the official CCM's, which labels its own with the UID too; and none that anything
else uses. Whether the API would refuse that is not documented, so it is not relied on.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from ccm.cloud import CloudError, Notice, Rejected, ServiceView
from ccm.hetzner.api import HetznerApi, Priority, View
from ccm.hetzner.api.errors import NotFound, Refused, Unavailable, unavailable
from ccm.hetzner.api.wire import Certificate, LoadBalancer
from ccm.hetzner.load_balancers.changes import Sleep, delete, patiently
from ccm.hetzner.load_balancers.ownership import CLUSTER, SERVICE, SERVICE_UID
from ccm.hetzner.load_balancers.restoring import NAMESPACE
from ccm.hetzner.load_balancers.wishes.ports import CertificateWishes
from ccm.hetzner.load_balancers.wishes.read import Wishes
from ccm.hetzner.load_balancers.wording import enumerated, quoted
from ccm.hetzner.settings import Tenants

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


@dataclass
class Swept:
    """What came of deleting certificates.

    Attributes:
        steps: What was done, or would be.
        errors: What went wrong.
        notices: What the owner should know.
    """

    steps: list[str] = field(default_factory=list[str])
    errors: list[CloudError] = field(default_factory=list[CloudError])
    notices: list[Notice] = field(default_factory=list[Notice])


class Certificates:
    """Finds, requests and deletes certificates.

    Args:
        api: The API.
        cluster: The cluster's id; may be empty.
        tenants: Who may use what is not theirs; None = nobody.
        sleep: Waits.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        api: HetznerApi,
        cluster: str,
        *,
        tenants: Tenants | None = None,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sleep = sleep
        self.view: View[Certificate] = View(
            lambda priority: api.list("/certificates", "certificates", Certificate, priority=priority)
        )
        self._api = api
        self._cluster = cluster
        self._tenants = tenants or Tenants()
        self._clock = clock
        self._retried: dict[int, float] = {}
        self._kept: dict[int, float] = {}
        self._doubtful = False

    async def close(self) -> None:
        """Stop reading."""
        await self.view.close()

    def doubt(self) -> None:
        """Something went wrong with what we know: the next look is a fresh one."""
        self._doubtful = True

    async def resolve(
        self, service: ServiceView, wishes: Wishes, balancer: LoadBalancer | None, *, dry: bool
    ) -> Resolution:
        """Find the certificates of every https port; request managed ones that don't exist.

        Args:
            service: The Service.
            wishes: Its annotations.
            balancer: Its load balancer, which goes on using what it uses; None = it has none.
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
                found = (_find(reference, known) for reference in asked.uploaded)
                foreign = {one.id for one in found if one and not self._may_use(service, one, balancer)}
                _uploaded(port, asked, known, foreign, resolution)
        return resolution

    async def sweep(
        self, service: ServiceView, used: Collection[int], balancer: int, *, look: bool, dry: bool
    ) -> Swept:
        """Delete managed certificates of ours that the Service does not use any more.

        Args:
            service: The Service.
            used: Ids of those that stay.
            balancer: The Service's load balancer, by id.
            look: Whether there may be some that the view does not know.
            dry: Only say what would be deleted.

        Raises:
            CloudError: not known what there is.
        """
        if look:
            await self._read(AGE)
        now = self._clock()
        self._kept = {one: at for one, at in self._kept.items() if now - at < RETRY_PERIOD}
        stays = {*used, *self._kept}
        known = self.view.contents.by_id.values()
        if not any(_may_go(one, service, self._cluster) and one.id not in stays for one in known):
            return Swept()
        return await self._delete_unused(service, stays, {balancer: used}, dry=dry)

    async def retire(self, service: ServiceView, *, left: Mapping[int, Collection[int]]) -> Swept:
        """Delete managed certificates of ours of a Service that goes, whatever its annotations say by now.

        Args:
            service: The Service.
            left: The load balancers that it has left just now, by id, and the certificates with which what is
                left of them goes on serving, as a protected one does.

        Raises:
            CloudError: not known what there is.
        """
        return await self._delete_unused(service, (), left, dry=False)

    async def _delete_unused(
        self, service: ServiceView, stays: Collection[int], left: Mapping[int, Collection[int]], *, dry: bool
    ) -> Swept:
        swept = Swept()
        for one in await self._of(service):
            if one.id in stays:
                continue
            name = f"managed certificate {one.name} ({one.id})"
            try:
                if not _users(one, left) and (dry or await self._delete(one)):
                    swept.steps.append(f"delete {name}")
                    continue
            except CloudError as error:
                swept.errors.append(error)
                continue
            self._kept[one.id] = self._clock()
            who = " and ".join(_users(one, left)) or "something"
            text = f"{name} was requested for this Service and stays, because {who} uses it"
            swept.notices.append(Notice("ManagedCertificateKept", text, warning=False))
        return swept

    async def _of(self, service: ServiceView) -> list[Certificate]:
        """What we requested for a Service, asked anew: who uses it may not be old when it is deleted.

        That one is gone which was there before is not believed of the list alone.
        """
        listed = await self._api.list(
            "/certificates",
            "certificates",
            Certificate,
            priority=Priority.LOAD_BALANCERS,
            params={"label_selector": f"{SERVICE_UID}={service.uid}"},
        )
        found = {one.id: one for one in listed.items}
        for one in [*self.view.contents.by_id.values()]:
            if one.id not in found and _may_go(one, service, self._cluster):
                found |= await self._look(one.id)
        return [one for one in found.values() if _may_go(one, service, self._cluster)]

    async def _look(self, number: int) -> Mapping[int, Certificate]:
        """One certificate by its id; empty when there is none."""
        path = f"/certificates/{number}"
        try:
            one = await self._api.get(path, "certificate", Certificate, priority=Priority.LOAD_BALANCERS)
        except NotFound:
            self.view.remove(number)
            return {}
        return {number: one}

    async def _delete(self, certificate: Certificate) -> bool:
        """Delete a certificate; False = it is in use after all."""
        try:
            await delete(self._api, f"/certificates/{certificate.id}", sleep=self.sleep)
        except NotFound:
            pass
        except Refused as error:
            if error.code != "resource_in_use":
                raise
            return False
        self.view.remove(certificate.id)
        return True

    def _may_use(self, service: ServiceView, certificate: Certificate, balancer: LoadBalancer | None) -> bool:
        """Whether a Service may use a certificate, or does already."""
        serving = balancer.services if balancer is not None else ()
        used = any(one.http is not None and certificate.id in one.http.certificates for one in serving)
        return used or self._tenants.may_use(
            service.namespace, service.uid, self._cluster, certificate.labels
        )

    async def _managed(
        self, service: ServiceView, port: int, asked: CertificateWishes, resolution: Resolution, *, dry: bool
    ) -> None:
        everyone = self.view.contents.by_id.values()
        found = next((one for one in everyone if _is_ours(one, service) and _fits(one, asked)), None)
        if found is None:
            step = f"request a managed certificate for {enumerated(asked.domains)}"
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
            text = f"the managed certificate {found.name} ({enumerated(found.domain_names)}) failed: {why}"
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
        labels = {
            SERVICE_UID: service.uid,
            CLUSTER: self._cluster,
            NAMESPACE: service.namespace,
            SERVICE: service.name,
            STAGING: "true" if asked.staging else "",
        }
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


def _may_go(certificate: Certificate, service: ServiceView, cluster: str) -> bool:
    """Whether we requested it, for this Service of this cluster: then it is ours to delete."""
    labels = certificate.labels
    marked = NAMESPACE in labels or CLUSTER in labels  # the former since 0.1.0, the latter before
    elsewhere = cluster and labels.get(CLUSTER, cluster) != cluster
    return _is_ours(certificate, service) and marked and not elsewhere


def _users(certificate: Certificate, left: Mapping[int, Collection[int]]) -> list[str]:
    """What uses a certificate, besides load balancers of which we know better: see ``retire``."""
    return [
        f"{one.type.replace('_', ' ')} {one.id}"
        for one in certificate.used_by
        if one.type != "load_balancer" or certificate.id in left.get(one.id, (certificate.id,))
    ]


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
    port: int,
    asked: CertificateWishes,
    known: Mapping[int, Certificate],
    foreign: Collection[int],
    resolution: Resolution,
) -> None:
    found = [_find(reference, known) for reference in asked.uploaded]
    kept = [name for name, one in zip(asked.uploaded, found, strict=True) if one and one.id in foreign]
    if kept:
        text = (
            f"http-certificates: {quoted(kept)} belongs to another namespace, Service or cluster, as its "
            "labels say; have the namespace named in CCM_CERTIFICATE_NAMESPACES to use it"
        )
        resolution.errors.append(_missing(port, text))
        found = [None if one and one.id in foreign else one for one in found]
    lost = [name for name, one in zip(asked.uploaded, found, strict=True) if one is None and name not in kept]
    ids = tuple(dict.fromkeys(certificate.id for certificate in found if certificate is not None))
    if lost:
        text = f"http-certificates: this project has no certificate with id or name {quoted(lost)}"
        resolution.errors.append(_missing(port, text))
    elif not ids and not kept:
        resolution.errors.append(_missing(port, "it has none: name some in http-certificates"))
    if ids:
        resolution.by_port[port] = ids


def _missing(port: int, why: str) -> CloudError:
    text = f"port {port} needs a certificate, {why}"
    return Rejected(text, notices=(Notice("CertificateNotFound", text),))
