"""The reply of a handler, independent of the HTTP library."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reply:
    """Status, JSON body (None for no body), and headers."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)
