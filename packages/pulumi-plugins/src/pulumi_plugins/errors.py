"""Everything that the sandbox's providers can refuse or fail at."""

from __future__ import annotations

from typing import Any

from ccmfs_common.terminal import printable


class ProviderError(Exception):
    """A provider refused or failed an operation."""

    def __init__(self, text: str) -> None:
        # it may quote what a cloud or a kubelet has said, which others than this person choose
        super().__init__(printable(text, kept="\n\t"))


class UnsupportedError(ProviderError):
    """A feature that the official plugin has, such as ``hcloud``, and the sandbox's plugin has not."""

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
