"""Errors of the stand-in. The journal shows their messages.

Most functions of this package may raise K3sError. Docstrings name only the errors that callers distinguish.
"""


class K3sError(Exception):
    """Root of the stand-in's errors."""


class UsageError(K3sError):
    """A command line or a configuration file is wrong; the message names it."""


class StatusError(K3sError):
    """Another server refused a request (HTTP ``status``), or did not answer (0)."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class ChildEndedError(K3sError):
    """A component ended with a ``status``; ``tail`` has the last lines of its log."""

    def __init__(self, component: str, status: int | None, tail: str) -> None:
        self.component = component
        self.status = status
        self.tail = tail
        super().__init__(f"{component} ended with exit status {status}. Last lines of its log:\n{tail}")
