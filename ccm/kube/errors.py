"""Errors of the API server: a class for each error that callers handle differently."""

# The names are the reasons of the API, without the suffix Error.

from http import HTTPStatus

from ccm.errors import CcmError


class KubernetesError(CcmError):
    """A request to the API server failed."""

    def __init__(
        self, status: int = 0, reason: str = "", message: str = "", *, retry_after: float | None = None
    ) -> None:
        self.status = status  # HTTP status code; 0 without a response
        self.reason = reason  # for example ``NotFound`` or ``Expired``; may be empty
        self.message = message  # the server's text for people
        self.retry_after = retry_after  # seconds (> 0) from the server's Retry-After header, or None
        super().__init__(message or reason or f"HTTP status {status}")


class Unauthorized(KubernetesError):
    """401: our token is missing, wrong or expired."""


class Forbidden(KubernetesError):
    """403: our role lacks a permission, or admission refused."""


class NotFound(KubernetesError):
    """404: there is no such object."""


class Conflict(KubernetesError):
    """409: the resourceVersion is outdated, or a precondition isn't met."""


class AlreadyExists(Conflict):
    """409 with reason AlreadyExists: an object of this name exists."""


class Gone(KubernetesError):
    """410: the resourceVersion or the continue token is too old; list again."""


class Invalid(KubernetesError):
    """422: the object breaks a rule of its type."""


class TooManyRequests(KubernetesError):
    """429: the server asks us to wait ``retry_after`` seconds."""


class ServerError(KubernetesError):
    """5xx: the server failed; the effect of a write is unknown."""


class ConnectionFailed(KubernetesError):
    """No complete response: refused, reset, timeout, TLS error. The effect of a write is unknown."""


class AnswerTooLarge(KubernetesError):
    """The response exceeds our limit. For a list, the caller can request smaller pages."""


class Unreadable(KubernetesError):
    """The response isn't a valid response of an API server, or a part can't be decoded."""


class LeaseLost(CcmError):
    """This process is no longer the leader, and must stop all work immediately."""

    def __init__(self, lease: str, identity: str) -> None:
        self.lease = lease
        self.identity = identity
        super().__init__(f"lost the lease {lease}")


_BY_STATUS: dict[int, type[KubernetesError]] = {
    HTTPStatus.UNAUTHORIZED: Unauthorized,
    HTTPStatus.FORBIDDEN: Forbidden,
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.GONE: Gone,
    HTTPStatus.UNPROCESSABLE_ENTITY: Invalid,
    HTTPStatus.TOO_MANY_REQUESTS: TooManyRequests,
}


def class_of(status: int, reason: str) -> type[KubernetesError]:
    """The error class for an HTTP status and the ``reason`` of the Status object, which may be empty."""
    if reason == "AlreadyExists":
        return AlreadyExists
    if reason == "Expired":
        return Gone
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ServerError
    return _BY_STATUS.get(status, KubernetesError)
