"""Everything that the sandbox's providers can refuse or fail at, one tree.

EngineError                      a person sees it as one message, without a stack trace
├── StateError                   a stack's state can't be read
└── ProviderError                a provider refused or failed an operation
    ├── UnsupportedError         the official plugin can do it, the sandbox's can't
    ├── PartialError             something was made or changed, but not as it should be
    ├── ClusterUnreachableError  a Kubernetes API server does not answer
    └── ResourceNotFoundError    the resource that the state knows is no longer there
"""

from __future__ import annotations

from typing import Any

from sandbox.terminal import printable


class EngineError(Exception):
    """Base of all errors that a person sees as one message without a stack trace."""


class StateError(EngineError):
    """A stack's state can't be read."""


class ProviderError(EngineError):
    """A provider refused or failed an operation."""

    def __init__(self, text: str) -> None:
        # it may quote what a cloud or a kubelet has said, which others than this person choose
        super().__init__(printable(text, kept="\n\t"))


class UnsupportedError(ProviderError):
    """Something that the official plugin can do and the sandbox's plugin can't.

    Args:
        what: The feature.
        plugin: Name of the plugin, such as ``hcloud``.
    """

    def __init__(self, what: str, plugin: str) -> None:
        super().__init__(
            f"the sandbox's plugin '{plugin}' does not support {what}; "
            f"the official one does: pulumi plugin install resource {plugin}"
        )


class PartialError(ProviderError):
    """Something was created or changed, but it did not become what it should be.

    The engine keeps it in the state, and the next run updates it.

    Attributes:
        id: The resource's id.
        outputs: What is known of it.
    """

    def __init__(self, reason: str, identity: str, outputs: dict[str, Any]) -> None:
        super().__init__(reason)
        self.id = identity
        self.outputs = outputs


class ClusterUnreachableError(ProviderError):
    """A Kubernetes API server does not answer."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(
            f"the Kubernetes cluster at {server} is unreachable: {reason}. Is it running? If it is gone for "
            "good, set delete_unreachable=True on its provider (or PULUMI_K8S_DELETE_UNREACHABLE=true) "
            "and run 'pulumi refresh'"
        )


class ResourceNotFoundError(ProviderError):
    """The resource that the state knows is no longer there."""
