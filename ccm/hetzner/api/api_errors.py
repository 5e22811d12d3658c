"""Hetzner's error codes (https://docs.hetzner.cloud/reference/cloud#errors) as :mod:`ccm.cloud.errors`."""

from collections.abc import Mapping

import msgspec

from ccm.cloud.errors import (
    AccessDenied,
    CloudBusy,
    CloudError,
    CloudUnavailable,
    Notice,
    Protected,
    QuotaExhausted,
    Rejected,
)


class ApiError(CloudError):
    """The base of all errors in this module, with the data of the response."""

    code: str = ""  # the API's error code, like `not_found`
    status: int = 0  # the HTTP status; 0 = no answer
    details: object = None  # the API's `details`, for programs
    operation: str = ""  # the request, like `POST /load_balancers`


class NotFound(ApiError, Rejected):
    """The resource doesn't exist."""


class Unauthorized(ApiError, AccessDenied):
    """The token is invalid, read-only, or lacks the permission."""


class Locked(ApiError, CloudBusy):
    """Another action locks the resource, or the resource changed at the same time."""


class RateLimited(ApiError, QuotaExhausted):
    """The project's hourly requests are exhausted."""


class Refused(ApiError, Rejected):
    """The request is not possible: invalid input, a limit, a name that is taken, …."""


class RefusedProtected(ApiError, Protected):
    """The resource is protected."""


class Unavailable(ApiError, CloudUnavailable):
    """The API failed, could not be reached, or sent a response that can't be decoded."""


class TokenChanged(ApiError, CloudUnavailable):
    """The token has changed since the work began. The new token wasn't used."""


class ActionFailed(ApiError, Rejected):
    """An action ended with an error."""


class ActionTimedOut(ApiError, CloudUnavailable):
    """An action takes longer than the timeout."""


_BY_CODE: Mapping[str, type[ApiError]] = {
    "not_found": NotFound,
    "unauthorized": Unauthorized,
    "token_readonly": Unauthorized,
    "forbidden": Unauthorized,
    "locked": Locked,
    "resource_locked": Locked,
    "conflict": Locked,
    "rate_limit_exceeded": RateLimited,
    "protected": RefusedProtected,
    "server_error": Unavailable,
    "unavailable": Unavailable,
    "maintenance": Unavailable,
    "timeout": Unavailable,
    "bad_gateway": Unavailable,
    "robot_unavailable": Unavailable,
}


def api_error(operation: str, status: int, code: str, message: str, details: object = None) -> ApiError:
    """Create the error for a response. ``code`` is the API's code, or else the HTTP status."""
    kind = RateLimited if status == 429 else _BY_CODE.get(code)
    if kind is None:
        kind = Unavailable if status >= 500 or status == 0 else Refused
    error = kind(f"{operation}: {message} ({code}){_named_fields(details)}")
    error.code, error.status, error.details, error.operation = code, status, details, operation
    if kind is RateLimited:
        error.notices = (Notice("RateLimited", f"{error.message}: the project has no API requests left"),)
    return error


def unavailable(operation: str, why: str) -> ApiError:
    """Create the error for a missing or undecodable response."""
    return api_error(operation, 0, "no_answer", why)


class _Field(msgspec.Struct):
    name: str = ""
    messages: tuple[str, ...] = ()


class _Details(msgspec.Struct):
    fields: tuple[_Field, ...] = ()


def _named_fields(details: object) -> str:
    """The invalid fields according to the API, so that an Event can name them."""
    try:
        fields = msgspec.convert(details, _Details).fields
    except msgspec.ValidationError:
        return ""
    texts = [f"{field.name}: {', '.join(field.messages)}".removesuffix(": ") for field in fields]
    return f" [{'; '.join(texts)}]" if texts else ""
