"""What can go wrong with a Service, and which part of the work it was."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ccm.cloud import CloudError, ImplementedElsewhere
from ccm.errors import CcmError
from ccm.kube.errors import KubernetesError, NotFound


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
