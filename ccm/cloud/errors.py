"""What can go wrong between a controller and a cloud.

A cloud that can't be opened because of its settings raises :class:`ccm.errors.ConfigurationError`.
Only :class:`InstanceNotFound` is a proof of absence. Every other error means "not known".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ccm.errors import CcmError


class CloudError(CcmError):
    """Something went wrong in, or on the way to, the cloud.

    Attributes:
        message: One sentence for a person.
        notices: Events which the controller puts on the object that it worked on.
        ingress: How clients reach a load balancer that is not all that it should be, but serves; else empty.
            An error that has it is raised for that one alone.
    """

    def __init__(self, message: str, *, notices: Sequence[Notice] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.notices = tuple(notices)
        self.ingress: tuple[Ingress, ...] = ()


class InstanceNotFound(CloudError):
    """The cloud says, in a complete and authorised answer, that there is no such instance."""

    def __init__(self, what: str, *, notices: Sequence[Notice] = ()) -> None:
        super().__init__(f"instance not found: {what}", notices=notices)
        self.what = what


class NotOurs(CloudError):
    """The object belongs to another cloud and must be left alone."""

    def __init__(self, what: str, *, notices: Sequence[Notice] = ()) -> None:
        super().__init__(f"not an object of this cloud: {what}", notices=notices)
        self.what = what


class ImplementedElsewhere(CloudError):
    """Another component takes care of it: a successful no-op."""

    def __init__(self) -> None:
        super().__init__("implemented by alternate to cloud provider")


class RetryAfter(CloudError):
    """Ask again after ``retry_after`` seconds (> 0); no failure is counted. It may cause another error."""

    def __init__(self, message: str, retry_after: float, *, notices: Sequence[Notice] = ()) -> None:
        super().__init__(message, notices=notices)
        self.retry_after = retry_after


class CloudUnavailable(CloudError):
    """No usable answer came. Whether a change took effect is unknown."""


class CloudBusy(CloudError):
    """The resource is locked or in conflict with other work. Nothing was changed."""


class QuotaExhausted(CloudError):
    """The project's request budget is used up. Nothing was changed."""


class AccessDenied(CloudError):
    """The credentials don't allow this. Nothing was changed, and nothing may be concluded."""


class Rejected(CloudError):
    """The cloud refused the request; the same request will be refused again."""


class Protected(Rejected):
    """The resource is protected against deletion."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One Event to be; ``reason`` is a CamelCase word that tools match on, ``message`` is for people."""

    reason: str
    message: str
    warning: bool = True


@dataclass(frozen=True, slots=True)
class Ingress:
    """One entry of a Service's status: an address, with ``ip_mode`` VIP or Proxy, or a name."""

    ip: str = ""
    hostname: str = ""
    ip_mode: str = ""
