"""Errors of the API, and of the emulator."""

from collections.abc import Mapping
from typing import Any, ClassVar

STATUSES: Mapping[str, int] = {
    "json_error": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "maintenance": 403,
    "resource_limit_exceeded": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "uniqueness_error": 409,
    "conflict": 409,
    "deprecated_api_endpoint": 410,
    "resource_unavailable": 412,
    "source_port_already_used": 412,
    "primary_ip_version_mismatch": 412,
    "locked": 423,
    "protected": 423,
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "bad_gateway": 502,
    "unavailable": 503,
    "timeout": 504,
}
"""The HTTP status of each error code. All other codes have the status 422."""


class EmulatorError(Exception):
    """Base class of errors for users; the message says what to do."""


class StateFileError(EmulatorError):
    """The state file can't be read or written; the message names it."""


class ApiError(Exception):
    """A request is refused."""

    def __init__(
        self, code: str, message: str, details: Mapping[str, Any] | None = None, status: int | None = None
    ) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code  # Hetzner's machine-readable code
        self.message = message  # its text for people
        self.details = details  # depends on the code, or None
        self.status = status if status is not None else STATUSES.get(code, 422)  # HTTP status

    def wire(self) -> dict[str, Any]:
        """The body of the response."""
        return {"error": {"code": self.code, "message": self.message, "details": self.details or {}}}


class NotFound(ApiError):
    """The entity is not in this project."""

    def __init__(self, kind: str, identity: object) -> None:
        super().__init__("not_found", f"{kind.replace('_', ' ')} with ID '{identity}' not found")
        self.kind = kind
        self.identity = identity


class InvalidInput(ApiError):
    """One or more fields of a request are wrong; ``fields`` maps their names to what is wrong.

    As at Hetzner, the message names the fields, and the details have the reasons.
    """

    def __init__(self, fields: Mapping[str, list[str]]) -> None:
        details = {"fields": [{"name": name, "messages": texts} for name, texts in fields.items()]}
        named = ", ".join(f"'{name}'" for name in fields)
        plural = "s" if len(fields) > 1 else ""
        super().__init__("invalid_input", f"invalid input in field{plural} {named}", details)
        self.fields = fields

    def explained(self) -> ApiError:
        """The same error with the first reason in its message."""
        first, messages = next(iter(self.fields.items()))
        return ApiError(self.code, f"invalid input in field '{first}': {messages[0]}", self.details)


class UniquenessError(ApiError):
    """The value of ``field`` is taken."""

    def __init__(self, message: str, field: str = "name") -> None:
        super().__init__("uniqueness_error", message, {"fields": [{"name": field}]})
        self.field = field


class LimitExceeded(ApiError):
    """The quota called ``limit`` is used up."""

    def __init__(self, message: str, limit: str) -> None:
        super().__init__("resource_limit_exceeded", message, {"limits": [{"name": limit}]})
        self.limit = limit


class Locked(ApiError):
    """An action runs on the resource."""

    def __init__(self, kind: str) -> None:
        text = f"cannot perform operation because {kind.replace('_', ' ')} is locked"
        super().__init__("locked", text)


class Conflict(ApiError):
    """The resource is being changed; trying again helps."""

    def __init__(self, kind: str) -> None:
        super().__init__("conflict", f"{kind.replace('_', ' ')} has changed during the request, please retry")


class Protected(ApiError):
    """The resource is protected against deletion or rebuild."""

    # As hcloud CLI's end-to-end tests expect them.
    _TEXTS: ClassVar[Mapping[str, str]] = {
        "network": "network is delete protected",
        "floating_ip": "Floating IP deletion is protected",
        "image": "snapshot deletion is protected",
        "rrset": "RRSet(s) is/are change protected",
    }

    def __init__(self, kind: str, what: str = "delete") -> None:
        text = self._TEXTS.get(kind, f"{kind.replace('_', ' ')} is protected against {what}")
        super().__init__("protected", text)
