"""What can go wrong in the sandbox, as one tree.

SandboxError
├── MissingRequirement   a package, a permission or a kernel feature is not there
├── SiteError            this clone's addresses or ports can't be had
├── NotRunning           a command needs the sandbox, and it does not run
├── CloudError           the cloud refuses a call, or gives no answer that can be read
├── StateError           a stack's state or settings can't be read
├── EnvironmentBusy      another command works on the environment
└── StepFailed           a command that the sandbox started ended with an error
"""

from __future__ import annotations


class SandboxError(Exception):
    """Base class: its text is shown to a person as it is, so it says what to do."""


class MissingRequirement(SandboxError):
    """A package, a permission or a kernel feature is not there."""


class SiteError(SandboxError):
    """This clone's addresses or ports can't be had."""


class NotRunning(SandboxError):
    """A command needs the sandbox, and it does not run."""


class CloudError(SandboxError):
    """The cloud refuses a call of ours, or gives no answer that can be read."""

    def __init__(self, call: str, what: str) -> None:
        super().__init__(f"{call}: {what}; './dev faults' lists what goes wrong in the cloud on purpose")


class StateError(SandboxError):
    """A stack's state or settings can't be read."""


class EnvironmentBusy(SandboxError):
    """Another command works on the environment."""

    def __init__(self, who: str, name: str) -> None:
        super().__init__(
            f"{who} works on the environment of this clone; wait for its end, then './dev {name}' again"
        )
        self.who = who


class StepFailed(SandboxError):
    """A command that the sandbox started ended with an error."""

    def __init__(self, what: str, code: int, hint: str = "") -> None:
        super().__init__(f"{what} failed (exit code {code})" + (f". {hint}" if hint else ""))
        self.code = code
