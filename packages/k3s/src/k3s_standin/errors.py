"""What goes wrong in the stand-in; the text is what a person reads in the journal.

K3sError
├── UsageError       something that was typed or configured is wrong
└── ChildEndedError  a component ended by itself
"""

from __future__ import annotations


class K3sError(Exception):
    """Root of the stand-in's errors."""


class UsageError(K3sError):
    """Something that was typed or configured is wrong; the text names it."""


class ChildEndedError(K3sError):
    """A component ended by itself.

    Attributes:
        component: Its name.
        status: Exit status.
        tail: The last lines of its log.
    """

    def __init__(self, component: str, status: int | None, tail: str) -> None:
        self.component = component
        self.status = status
        self.tail = tail
        super().__init__(f"{component} ended with {status}; the end of its log:\n{tail}")
