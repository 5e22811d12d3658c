"""What a cloud wants told to the owner of an object.

A cloud does no Kubernetes I/O: it returns notices, and the controller turns them into Events.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notice:
    """One Event to be.

    Attributes:
        reason: CamelCase word that tools match on.
        message: One or two sentences for a person.
        warning: Whether the Event's type is Warning rather than Normal.
    """

    reason: str
    message: str
    warning: bool = True
