"""The project's certificates: one shared list, and recent attempts to change them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ccm.cloud import CloudError, ServiceView
from ccm.hetzner.api import HetznerApi, Priority, cache_of
from ccm.hetzner.api.api_errors import NotFound
from ccm.hetzner.api.models import Certificate, LoadBalancer
from ccm.hetzner.load_balancers.ownership_labels import SERVICE_UID, may_delete
from ccm.hetzner.load_balancers.spec import CertificateSpec, LoadBalancerSpec

AGE = 300.0
AGE_AFTER_MISS = 5.0
AGE_AFTER_CHANGE = 1.0  # shared by Services that change at the same time
RETRY_PERIOD = 3600.0  # seconds between two requests for a failed certificate


@dataclass(frozen=True, slots=True)
class ObservedCertificates:
    """The project's certificates."""

    # the cached certificates by ID
    known: Mapping[int, Certificate] = field(default_factory=dict[int, Certificate])
    # certificates that were requested for the Service, so we may delete them
    ours: tuple[Certificate, ...] = ()
    error: CloudError | None = None  # why the list can't be read
    # IDs of managed certificates from requests in this sync; None = the request failed
    requested: Mapping[CertificateSpec, int | None] = field(
        default_factory=dict[CertificateSpec, "int | None"]
    )
    retried: frozenset[int] = frozenset()  # IDs of failed certificates without a retry now
    # IDs of certificates that recently could not be deleted, because they are in use
    spared: frozenset[int] = frozenset()

    def find(self, reference: str) -> Certificate | None:
        """Find a certificate by ID, or else by name."""
        number = int(reference) if reference.isascii() and reference.isdigit() and len(reference) < 20 else 0
        by_name = (certificate for certificate in self.known.values() if certificate.name == reference)
        return self.known.get(number) or next(by_name, None)


class CertificateCache:
    """The cached certificates of the project, and recent changes; ``cluster`` is our cluster ID or empty."""

    def __init__(self, api: HetznerApi, cluster: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.cached = cache_of(api, "certificates", Certificate)
        self._api = api
        self._cluster = cluster
        self._clock = clock
        self._retried: dict[int, float] = {}
        self._spared: dict[int, float] = {}
        self._invalid = False
        self._served: dict[str, ServiceView] = {}

    def invalidate(self) -> None:
        """Make the next call read a new list."""
        self._invalid = True

    async def look_up(self, spec: LoadBalancerSpec, balancer: LoadBalancer | None) -> ObservedCertificates:
        """The certificates that a Service can use or used. Reads nothing if its annotations are invalid."""
        asked = [port.certificates for port in spec.ports.values() if port.protocol == "https"]
        named = {reference for asked_for in asked for reference in asked_for.uploaded}
        serving = balancer is not None and balancer.certificates
        if not spec.problems and (named or any(asked_for.domains for asked_for in asked) or serving):
            try:
                # A changed Service needs a new list, because another certificate may have the name now.
                changed = self._served.get(spec.service.uid) != spec.service
                await self._read(AGE_AFTER_CHANGE if changed else AGE)
                self._served[spec.service.uid] = spec.service
                known = self.known(spec.service)  # one copy, because a tenant may name thousands
                if not all(known.find(reference) for reference in named):
                    await self._read(AGE_AFTER_MISS)
            except CloudError as error:
                return replace(self.known(spec.service), error=error)
        return self.known(spec.service)

    def forget(self, service: ServiceView) -> None:
        """Remove the data of a deleted Service."""
        self._served.pop(service.uid, None)

    def known(self, service: ServiceView) -> ObservedCertificates:
        """The cached state, without a read."""
        now = self._clock()
        self._retried = {number: at for number, at in self._retried.items() if now - at < RETRY_PERIOD}
        self._spared = {number: at for number, at in self._spared.items() if now - at < RETRY_PERIOD}
        return ObservedCertificates(
            known=dict(self.cached.contents.by_id),
            ours=tuple(
                certificate
                for certificate in self.cached.contents.by_id.values()
                if may_delete(certificate, service, self._cluster)
            ),
            retried=frozenset(self._retried),
            spared=frozenset(self._spared),
        )

    async def list_of(self, service: ServiceView) -> list[Certificate]:
        """Read the certificates requested for a Service again, because a deletion needs their current users.

        If the list lacks a certificate, it is read separately. Raises CloudError if the result is unknown.
        """
        listed = await self._api.list(
            "/certificates",
            "certificates",
            Certificate,
            priority=Priority.LOAD_BALANCERS,
            params={"label_selector": f"{SERVICE_UID}={service.uid}"},
        )
        found = {certificate.id: certificate for certificate in listed.items}
        for certificate in [*self.cached.contents.by_id.values()]:
            if certificate.id not in found and may_delete(certificate, service, self._cluster):
                try:
                    found[certificate.id] = await self._api.get(
                        f"/certificates/{certificate.id}",
                        "certificate",
                        Certificate,
                        priority=Priority.LOAD_BALANCERS,
                    )
                except NotFound:
                    self.cached.remove(certificate.id)
        return [one for one in found.values() if may_delete(one, service, self._cluster)]

    def retried(self, number: int) -> None:
        """Record the retry of a failed certificate, whose result is still unknown."""
        self._retried[number] = self._clock()

    def spared(self, number: int) -> None:
        """Record that a certificate can't be deleted, because it is in use."""
        self._spared[number] = self._clock()

    async def _read(self, age: float) -> None:
        await self.cached.read(0.0 if self._invalid else age, Priority.LOAD_BALANCERS)
        self._invalid = False
