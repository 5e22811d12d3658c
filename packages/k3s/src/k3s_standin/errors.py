"""Errors of the stand-in. The journal shows their messages.

K3sError
├── UsageError       a command line or a configuration file is wrong
└── ChildEndedError  a component ended
"""

from __future__ import annotations


class K3sError(Exception):
    """Root of the stand-in's errors."""


class UsageError(K3sError):
    """A command line or a configuration file is wrong; the message names it."""


class ChildEndedError(K3sError):
    """A component ended.

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
