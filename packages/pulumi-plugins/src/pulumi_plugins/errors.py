"""Errors of the sandbox's providers."""

from typing import Any

from ccmfs_common.terminal import printable


class ProviderError(Exception):
    """A provider refused or failed an operation."""

    def __init__(self, text: str) -> None:
        # it may quote text of a cloud or a kubelet, which isn't trusted
        super().__init__(printable(text, kept="\n\t"))


class UnsupportedError(ProviderError):
    """A feature of the official plugin, such as ``hcloud``, that the sandbox's plugin lacks."""

    def __init__(self, what: str, plugin: str) -> None:
        super().__init__(
            f"the sandbox's plugin '{plugin}' does not support {what}. Install the official plugin: "
            f"pulumi plugin install resource {plugin}"
        )


class PartialError(ProviderError):
    """Something was created or changed, but isn't complete.

    The engine keeps it in the state, and the next run updates it.
    """

    def __init__(self, reason: str, identity: str, outputs: dict[str, Any]) -> None:
        super().__init__(reason)
        self.id = identity  # the resource's id
        self.outputs = outputs  # its known outputs


class ClusterUnreachableError(ProviderError):
    """A Kubernetes API server doesn't answer."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(
            f"the Kubernetes cluster at {server} is unreachable: {reason}. If the cluster is gone, set "
            "delete_unreachable=True on the provider of the cluster (or "
            "PULUMI_K8S_DELETE_UNREACHABLE=true) and run 'pulumi refresh'"
        )


class ResourceNotFoundError(ProviderError):
    """The resource in the state doesn't exist any more."""
