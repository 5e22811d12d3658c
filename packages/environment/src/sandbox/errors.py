"""Errors of ``./dev``. Each ends the command with exit code 1 and its message.

Most functions of this package may raise SandboxError. Docstrings name only the errors that callers catch.
"""


class SandboxError(Exception):
    """Base class. Its message is printed as it is, so it says what to do."""


class MissingRequirement(SandboxError):
    """A package, a permission or a kernel feature is missing."""


class CloudError(SandboxError):
    """The emulated API refuses a request, or its response can't be decoded."""

    def __init__(self, call: str, what: str) -> None:
        super().__init__(f"{call}: {what}; './dev faults' lists the fault rules")


class EnvironmentBusy(SandboxError):
    """Another command changes the environment."""

    def __init__(self, holder: str, name: str) -> None:
        super().__init__(
            f"{holder} is still changing this clone's environment; when it ends, run './dev {name}'"
        )
        self.holder = holder
