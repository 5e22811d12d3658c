"""Errors of the Pulumi program; each text is a complete message for a person."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAX_VALUE_LENGTH = 200
"""A message shows at most this number of characters of an invalid value, and of its key."""
MAX_ALLOWED_LENGTH = 1500
"""Maximum number of characters in the part of a message that lists the allowed values."""


class InfraError(Exception):
    """Root of the program's errors. Its text is complete: it is shown without a stack trace."""

    def __init__(self, text: str) -> None:
        # it may quote the output of a server, a kubelet or an API, which another person may control
        super().__init__(_printable(text))


@dataclass(frozen=True)
class Problem:
    """One wrong setting: the key, the value as given, and what is allowed."""

    key: str
    value: object
    allowed: str

    def __str__(self) -> str:
        given = "is not set" if self.value is None else f"{_shortened(repr(self.value))} is not possible"
        # both may quote names that other people chose
        key, allowed = _shortened(_printable(self.key)), _printable(self.allowed)
        return f"{key}: {given}: {_shortened(allowed, MAX_ALLOWED_LENGTH)}"


class ConfigurationError(InfraError):
    """The stack's configuration is invalid; has all problems."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines, noun = listed(self.problems), "problem" if len(self.problems) == 1 else "problems"
        super().__init__(
            f"the configuration has {len(self.problems)} {noun}; nothing was created\n{lines}\n"
            "Change a value with: pulumi config set KEY VALUE"
        )


class CloudError(InfraError):
    """A request to the cloud's API failed; if the API refused it, with the HTTP status and the API's code."""

    def __init__(self, endpoint: str, what: str, status: int | None = None, code: str = "") -> None:
        self.status = status
        self.code = code
        where = f" at {endpoint}" if endpoint else ""
        super().__init__(f"the cloud API{where} {_shortened(what, MAX_ALLOWED_LENGTH)}")


class UnreachableError(InfraError):
    """No SSH connection to a server within the time allowed."""

    def __init__(self, address: str, seconds: float, reason: str) -> None:
        super().__init__(
            f"no SSH connection to {address} within {seconds:.0f} s: {reason}. "
            "Is the server running, and does its firewall allow port 22 "
            "from your address (ccm-from-scratch:sshAllowedCidrs)?"
        )


class HostKeyError(InfraError):
    """A server shows another host key than it did before."""

    def __init__(self, address: str, *, is_own_gateway: bool = False) -> None:
        self.address = address  # also of a gateway on the way to another server
        advice = (
            "If you reinstalled it, set ccm-from-scratch:gateway.hostKey to its new key. Then run 'pulumi "
            "up' before you remove or replace servers"
            if is_own_gateway
            else "If the server was rebuilt at Hetzner, run 'pulumi up', which accepts the new key. If you "
            "changed the key yourself, run 'pulumi up --replace URN'. To find the URN of the server's "
            "resource of type Boot, run 'pulumi stack --show-urns'"
        )
        super().__init__(
            f"the SSH host key of the server at {address} has changed. The server was reinstalled, or "
            f"someone intercepts the connection. {advice}"
        )


class GatewayKeyError(InfraError):
    """The private key of the user's own gateway can't be read, or has a passphrase."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"the private key {path} in ccm-from-scratch:gateway.keyFile can't be used: {reason}"
        )


class RemoteCommandError(InfraError):
    """A command on a server failed or took too long; holds the last lines that it wrote."""

    def __init__(self, address: str, what: str, result: str, tail: str) -> None:
        self.tail = tail
        output = f"; its last lines:\n{tail}" if tail else "; it wrote nothing"
        super().__init__(f"{what} on {address} {result}{output}")


class DrainError(InfraError):
    """A node could not be drained; names the Pods that are left on it, and why."""

    def __init__(self, node: str, seconds: int, blockers: Sequence[str]) -> None:
        self.seconds = seconds
        self.blockers = tuple(blockers)
        lines = listed(blockers)
        super().__init__(
            f"the node {node} could not be drained within {seconds} s, so its server was not deleted. "
            f"These Pods are left:\n{lines}\nThe node is cordoned. Make the eviction of the Pods possible: "
            "add replicas, change the PodDisruptionBudget, or add a server. Then repeat the command. To "
            f"ignore PodDisruptionBudgets: kubectl drain {node} --ignore-daemonsets --delete-emptydir-data "
            "--force --disable-eviction. To change the timeout: pulumi config set "
            "ccm-from-scratch:drainSeconds SECONDS (0 disables drains). To keep the server, add the server "
            f"to the settings again, and run kubectl uncordon {node}. If load balancers then send no traffic "
            f"to the node: kubectl label node {node} node.kubernetes.io/exclude-from-external-load-balancers-"
        )


class UnknownClusterError(InfraError):
    """A control server can neither start a cluster nor join one; has the answers of the others."""

    def __init__(self, node: str, reasons: Sequence[str]) -> None:
        lines = listed(reasons)
        super().__init__(
            f"{node} can't join a cluster now. The server does not start a new cluster, because another "
            f"control server may have the data of the existing cluster:\n{lines}\nRepair these servers, or "
            "delete servers that are lost (hcloud server delete NAME). Then repeat the command"
        )


class AnotherClusterError(InfraError):
    """A setting would replace a cluster that several control servers have."""

    def __init__(self, key: str, before: str, wanted: str) -> None:
        super().__init__(
            f"ccm-from-scratch:{key}: {wanted!r} is not possible while there are several control servers. "
            f"To keep the cluster, change the setting back to {before!r}. To create another cluster, use "
            "another stack. To replace the cluster with a new, empty cluster, first remove all but one "
            f"control server: pulumi config set ccm-from-scratch:controlCount 1; pulumi up. Then change {key}"
        )


class QuorumError(InfraError):
    """A control server stays, because without it etcd would lose quorum; has the state of the others."""

    def __init__(self, node: str, states: Sequence[str]) -> None:
        lines = listed(states)
        super().__init__(
            f"the control server {node} was not deleted, because etcd would lose quorum.\n{lines}\nRepair "
            "the servers that don't answer. If a server can't be repaired, delete it (hcloud server "
            "delete NAME). Then repeat the command, which recreates the deleted server"
        )


class UpgradeError(InfraError):
    """The k3s of a node could not be upgraded."""

    def __init__(self, node: str, reason: InfraError) -> None:
        left = isinstance(reason, DrainError)
        why = listed(reason.blockers) if left else f"  - {reason}"
        said = (
            f"The node could not be drained within {reason.seconds} s, because these Pods are left"
            if left
            else "The reason"
        )
        super().__init__(
            f"k3s on the node {node} was not upgraded. The remaining nodes of the rollout are unchanged. "
            f"{said}:\n{why}\nThe node stays cordoned. Fix the cause: for example, add replicas, change the "
            "PodDisruptionBudget, or add a server. Repeat the command to continue the rollout. To change "
            "the timeout: pulumi config set ccm-from-scratch:drainSeconds SECONDS (0 disables drains). "
            f"To let the node run Pods until you repeat the command: kubectl uncordon {node}; kubectl "
            f"annotate node {node} ccm-from-scratch/upgrading-; kubectl label node {node} "
            "node.kubernetes.io/exclude-from-external-load-balancers-"
        )


class VersionError(InfraError):
    """k3s does not support the change from the installed version to the wanted one."""

    def __init__(self, problem: Problem, *, done: bool = False) -> None:
        so_far = (
            "the control server already has this version, and the next pulumi up upgrades the workers"
            if done
            else "the cluster was not changed"
        )
        super().__init__(f"{problem}; {so_far}")


class NodeGroupError(InfraError):
    """Servers that the cluster-autoscaler created could not be removed."""

    def __init__(self, group: str, why: str) -> None:
        super().__init__(f"some servers of the node group {group} could not be removed: {why}")


def listed(items: Iterable[object]) -> str:
    """Each on a line of its own."""
    return "\n".join(f"  - {item}" for item in items)


def _shortened(text: str, longest: int = MAX_VALUE_LENGTH) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"


def _printable(text: str) -> str:
    """The text with control characters escaped, which a terminal would interpret."""
    return "".join(
        sign if sign.isprintable() or sign == "\n" else sign.encode("unicode_escape").decode()
        for sign in text
    )
