"""Tells a Service's owner, by Events, what happened, and which part of the work failed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

import structlog

from ccm.cloud import CloudError, ImplementedElsewhere, Notice, Orphan
from ccm.controllers.nodes import report
from ccm.controllers.service.known import Known
from ccm.errors import CcmError
from ccm.kube.errors import KubernetesError, NotFound
from ccm.kube.events import Recorder
from ccm.kube.objects import ObjectReference, Service, reference_to

log = structlog.stdlib.get_logger(__name__)


class ServiceNotSynced(CcmError):
    """A Service's load balancer is not as it should be; it is tried again."""


@asynccontextmanager
async def saying(what: str) -> AsyncGenerator[None, None]:
    """Put before an error's text what failed; the error stays its cause."""
    try:
        yield
    except (ImplementedElsewhere, NotFound):
        raise  # no failures: whoever asked for it knows what they mean
    except (CloudError, KubernetesError) as error:
        raise ServiceNotSynced(f"{what}: {error}") from error


class Announcer:
    """Tells owners by Events, each thing once as long as it stays true."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._orphans: frozenset[Orphan] = frozenset()

    def tell(self, service: Service, reason: str, message: str) -> None:
        """Something good, or ordinary."""
        self._recorder.event(reference_to(service), "Normal", reason, message)

    def warn(self, service: Service, reason: str, message: str) -> None:
        """Something bad."""
        self._recorder.event(reference_to(service), "Warning", reason, message)

    def report(self, service: Service, notices: Iterable[Notice]) -> None:
        """What the cloud wants told, whether or not it was told before."""
        report(self._recorder, reference_to(service), list(notices))

    def notify(self, known: Known, notices: Iterable[Notice]) -> None:
        """What the cloud wants told; what was told already is not repeated at every look."""
        told = list(notices)
        self.report(known.service, [one for one in told if one not in known.notices])
        known.notices = frozenset(told)

    def orphans(self, found: Iterable[Orphan]) -> None:
        """What is left of Services that are gone; each is told once, on the Service that it was made for."""
        now = frozenset(found)
        for one in sorted(now - self._orphans, key=lambda one: one.what):
            log.warning("load_balancer_orphaned", what=one.what, uid=one.uid)
            if not one.name:
                continue  # nothing tells which Service it was
            text = (
                f"{one.what} was made for this Service, which does not use it any more; delete it if nobody "
            )
            text += "needs it"
            reference = ObjectReference(
                api_version="v1", kind="Service", namespace=one.namespace, name=one.name, uid=one.uid
            )
            self._recorder.event(reference, "Warning", "LoadBalancerOrphaned", text)
        self._orphans = now

    @asynccontextmanager
    async def failing_as(self, service: Service, reason: str, text: str) -> AsyncGenerator[None, None]:
        """Turn a failure into an Event on the Service, and into an error for the queue."""
        try:
            yield
        except (CloudError, KubernetesError, ServiceNotSynced) as error:
            self.warn(service, reason, f"{text}: {error}")
            raise ServiceNotSynced(f"{service.metadata.key}: {error}") from error
