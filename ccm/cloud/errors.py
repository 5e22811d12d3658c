"""Errors that a cloud raises to a controller.

For wrong settings, a cloud raises :class:`ccm.errors.ConfigurationError` instead.
Only :class:`InstanceNotFound` proves that a machine is gone. After any other error, its state is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ccm.errors import CcmError


class CloudError(CcmError):
    """A request to the cloud failed, or its result is wrong."""

    def __init__(self, message: str, *, notices: Sequence[Notice] = ()) -> None:
        super().__init__(message)
        self.message = message  # one sentence for people
        self.notices = tuple(notices)  # the controller sends them as Events of the reconciled object
        # the addresses of a load balancer that serves although a part of its reconciliation failed
        self.ingress: tuple[Ingress, ...] = ()


class InstanceNotFound(CloudError):
    """A complete and authorized response of the cloud proves that the instance doesn't exist."""

    def __init__(self, what: str, *, notices: Sequence[Notice] = ()) -> None:
        super().__init__(f"instance not found: {what}", notices=notices)
        self.what = what


class NotOurs(CloudError):
    """The object belongs to another cloud. Don't change it."""

    def __init__(self, what: str, *, notices: Sequence[Notice] = ()) -> None:
        super().__init__(f"the object doesn't belong to this cloud: {what}", notices=notices)
        self.what = what


class ImplementedElsewhere(CloudError):
    """Another component is responsible for the object. The controller does nothing and reports no error."""

    def __init__(self) -> None:
        super().__init__("implemented by alternate to cloud provider")


class RetryAfter(CloudError):
    """Retry after ``retry_after`` seconds (> 0). The controller doesn't count this error as a failure."""

    def __init__(self, message: str, retry_after: float, *, notices: Sequence[Notice] = ()) -> None:
        super().__init__(message, notices=notices)
        self.retry_after = retry_after


class CloudUnavailable(CloudError):
    """The cloud sent no usable response. A change may have taken effect."""


class CloudBusy(CloudError):
    """The resource is locked, or another change conflicts. Nothing changed."""


class QuotaExhausted(CloudError):
    """The project's API rate limit is exceeded. Nothing changed."""


class AccessDenied(CloudError):
    """The credentials don't permit the request. Nothing changed, and the state of the object is unknown."""


class Rejected(CloudError):
    """The cloud refused the request, and a retry doesn't help."""


class Protected(Rejected):
    """The resource is protected against deletion."""


@dataclass(frozen=True, slots=True)
class Notice:
    """An Event to send. Tools match ``reason``, a CamelCase word; ``message`` is for people."""

    reason: str
    message: str
    warning: bool = True


@dataclass(frozen=True, slots=True)
class Ingress:
    """An entry in a Service's status: a host name, or an address with the ``ip_mode`` VIP or Proxy."""

    ip: str = ""
    hostname: str = ""
    ip_mode: str = ""
