"""Everything that the embedded engine can refuse or fail at, one tree.

EngineError                      a person sees it as one message, without a stack trace
├── UsageError                   a command, option or argument that does not exist or does not fit
├── UnsupportedError             the genuine Pulumi can do it, the embedded engine can't
├── ProjectError                 Pulumi.yaml or a stack file is missing or wrong
├── ConfigError                  a configuration value is missing or has the wrong type
├── PassphraseError              the passphrase is missing or does not open the stack's secrets
├── StateError                   a stack's state can't be read, written or understood
│   ├── StackNotFoundError       there is no stack of this name
│   └── LockedError              another run works on the stack
├── ResourceError                an operation on one resource failed
│   ├── DuplicateUrnError        two resources of one type and name
│   └── ProtectedError           a protected resource would have to be deleted
├── ProviderError                a provider refused or failed an operation
│   ├── PartialError             something was made or changed, but not as it should be
│   ├── UnclearError             nobody knows whether something was made
│   ├── ClusterUnreachableError  a Kubernetes API server does not answer
│   └── ResourceNotFoundError    the resource that the state knows is no longer there
├── StoppedError                 the run is ending; no new operation is started
└── InternalError                a mistake in the engine itself
"""

from __future__ import annotations

from typing import Any

from sandbox.terminal import printable


class EngineError(Exception):
    """Base of all errors that a person sees as one message without a stack trace."""


class UsageError(EngineError):
    """A command, option or argument that does not exist or does not fit."""


class UnsupportedError(EngineError):
    """Something that the genuine Pulumi can do and the embedded engine can't."""

    def __init__(self, what: str, *, instead: str = "install the Pulumi CLI to use it") -> None:
        super().__init__(f"the embedded engine does not support {what}; {instead}")
        self.what = what


class ProjectError(EngineError):
    """Pulumi.yaml or a stack file is missing or wrong."""

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class ConfigError(EngineError):
    """A configuration value is missing or has the wrong type."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"configuration value '{key}' {reason}")
        self.key = key
        self.reason = reason


class PassphraseError(EngineError):
    """The passphrase is missing or does not open the stack's secrets."""


class StateError(EngineError):
    """A stack's state can't be read, written or understood."""


class StackNotFoundError(StateError):
    """There is no stack of this name."""

    def __init__(self, stack: str) -> None:
        super().__init__(f"no stack named '{stack}' found; 'pulumi stack init {stack}' makes one")
        self.stack = stack


class LockedError(StateError):
    """Another run works on the stack."""

    def __init__(self, stack: str, holder: str, path: object) -> None:
        super().__init__(
            f"the stack '{stack}' is locked by {holder}; wait for it to end, "
            f"or delete {path} if you are sure that it is gone ('pulumi cancel' does)"
        )
        self.stack = stack
        self.holder = holder


class ResourceError(EngineError):
    """An operation on one resource failed."""

    def __init__(self, urn: str, reason: str) -> None:
        super().__init__(reason)
        self.urn = urn
        self.reason = reason


class DuplicateUrnError(ResourceError):
    """The program registered two resources of one type and name."""

    def __init__(self, urn: str) -> None:
        super().__init__(urn, f"Duplicate resource URN '{urn}'; try giving it a unique name")


class ProtectedError(ResourceError):
    """A protected resource would have to be deleted."""

    def __init__(self, urn: str, action: str) -> None:
        super().__init__(
            urn,
            f"resource '{urn}' can't be {action} because it is protected: remove 'protect' "
            "from its resource options and run 'pulumi up' first",
        )


class ProviderError(EngineError):
    """A provider refused or failed an operation."""

    def __init__(self, text: str) -> None:
        # it may quote what a cloud or a kubelet has said, which others than this person choose
        super().__init__(printable(text, kept="\n\t"))


class PartialError(ProviderError):
    """Something was created or changed, but it did not become what it should be.

    It is kept in the state, and the next run goes on with it.

    Attributes:
        id: The resource's id.
        outputs: What is known of it.
    """

    def __init__(self, reason: str, identity: str, outputs: dict[str, Any]) -> None:
        super().__init__(reason)
        self.id = identity
        self.outputs = outputs


class UnclearError(ProviderError):
    """A creation failed after something of it may have been done.

    It stays in the state as one that is going on, and the next run looks what came of it.
    """


class ClusterUnreachableError(ProviderError):
    """A Kubernetes API server does not answer."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(
            f"the Kubernetes cluster at {server} is unreachable: {reason}. Is it running? If it is gone for "
            "good, set delete_unreachable=True on its provider (or PULUMI_K8S_DELETE_UNREACHABLE=true) "
            "and run 'pulumi refresh'"
        )
        self.server = server


class ResourceNotFoundError(ProviderError):
    """The resource that the state knows is no longer there."""


class StoppedError(EngineError):
    """The run is ending; no new operation is started. Never shown: its cause was."""


class InternalError(EngineError):
    """A mistake in the engine itself."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            f"internal error of the embedded engine: {type(error).__name__}: {error}. This is a bug; "
            "CCMFS_ENGINE_TRACEBACK=1 shows where"
        )
