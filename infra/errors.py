"""Everything that can go wrong in the Pulumi program, told to a person in one message.

InfraError
├── ConfigurationError      settings are wrong; names all of them
├── CloudError              the cloud's API could not be asked, or refused
│   └── AnswerError         it answered with something that can't be read
├── UnreachableError        no SSH connection in time
├── HostKeyError            another server answers than before
├── GatewayKeyError         the key of a gateway of one's own can't be read
├── RemoteCommandError      a command on a server failed
├── ProbeError              a server answered with something else than its report
├── LostClusterError        the only control server has lost its cluster
├── KubeconfigError         the certificate in the kubeconfig has expired
├── EndpointError           the Kubernetes API does not answer at the load balancer
├── NodesError              nodes are not ready in time
├── ReadyAgainError         a node does not take Pods again after its server was replaced or upgraded
├── VersionError            k3s can't go from the version that is installed to the one that is wanted
├── DrainError              Pods are left on a node whose server is to go
├── UndrainedError          the cluster that should drain a node could not be asked
├── UnknownClusterError     whether a control server begins a cluster or joins one can't be told
├── AnotherClusterError     several control servers have the cluster, which would be another one
├── AnotherTokenError       several control servers have the cluster, and its token would be another one
├── AnotherSubnetError      several control servers have the cluster, and its subnet would be made anew
├── QuorumError             the cluster would not outlive a control server's leaving
├── RestartError            nor that its k3s restarts
├── UpgradeError            k3s on a node could not be upgraded
├── NodeGroupError          servers of the cluster-autoscaler are left
├── ImageBuildError         the CCM's image could not be built
├── SweepError              load balancers are left
├── AddressTakenError       another server has a server's private address
├── PlanError               the plan would delete servers that must stay
└── ProtectedError          something is protected against deletion
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .k3s import DATASTORE

LONGEST_VALUE = 200
"""So many characters of a wrong value, or of its key, are shown."""
LONGEST_ALLOWED = 1500
"""So many of what is allowed, which may name many things that are not."""


class InfraError(Exception):
    """Root of the program's errors. Its text is complete: it is shown without a stack trace."""

    def __init__(self, text: str) -> None:
        # it may quote what a server, a kubelet or an API has said, which others than this person choose
        super().__init__(_printable(text))


@dataclass(frozen=True)
class Problem:
    """One wrong setting: the key, the value as given, and what is allowed."""

    key: str
    value: object
    allowed: str

    def __str__(self) -> str:
        given = "is not set" if self.value is None else f"{_shortened(repr(self.value))} is not possible"
        # both may quote names that somebody gave
        key, allowed = _shortened(_printable(self.key)), _printable(self.allowed)
        return f"{key}: {given}: {_shortened(allowed, LONGEST_ALLOWED)}"


class ConfigurationError(InfraError):
    """The stack's configuration is wrong; holds every problem that was found, not just the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = _listed(self.problems)
        super().__init__(
            f"the configuration has {_count(len(self.problems))}; nothing was created\n{lines}\n"
            "Change a value with: pulumi config set KEY VALUE"
        )


class CloudError(InfraError):
    """The cloud's API could not be asked, or refused: then with HTTP's status and the code of the API."""

    def __init__(self, endpoint: str, what: str, status: int | None = None, code: str = "") -> None:
        self.endpoint = endpoint
        self.what = what
        self.status = status
        self.code = code
        where = f" at {endpoint}" if endpoint else ""
        super().__init__(f"the cloud API{where} {_shortened(what, LONGEST_ALLOWED)}")


class AnswerError(CloudError, LookupError):
    """The cloud's API answered with something else than its documentation says.

    A ``LookupError``, too, so who can do without what is missing looks for it as in any mapping.
    """

    def __init__(self, request: str, why: str) -> None:
        """Says what was asked, and why the answer can't be read."""
        super().__init__("", f"answered {request} with something that can't be read: {why}")


class UnreachableError(InfraError):
    """No SSH connection to a server within the time allowed."""

    def __init__(self, address: str, seconds: float, reason: str) -> None:
        self.address = address
        self.seconds = seconds
        self.reason = reason
        super().__init__(
            f"no SSH connection to {address} within {seconds:.0f} s: {reason}. "
            "Is the server running, and does a firewall let port 22 through "
            "(ccm-from-scratch:sshAllowedCidrs names who may)?"
        )


class HostKeyError(InfraError):
    """A server shows another host key than it did before."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(
            f"the server at {address} shows another SSH host key than when it was created; "
            "it was reinstalled, or somebody is in between. 'pulumi up' accepts a server that was rebuilt at "
            "Hetzner. If you gave it another key: pulumi up --replace URN, with the URN of its Boot that "
            "'pulumi stack --show-urns' lists"
        )


class ProbeError(InfraError):
    """A server answered with something else than a report of what the program wrote on it."""

    def __init__(self) -> None:
        super().__init__("the server did not say what is on it")


class LostClusterError(InfraError):
    """The only control server has no datastore any more. The program begins no empty cluster in its place."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(
            f"the control server at {address} has no cluster any more, and there is no other control server "
            f"that has it: {DATASTORE} is gone, as after a rebuild in the console. Nothing was changed, so "
            "that no empty cluster takes its place. To begin from a snapshot, name it first: pulumi config "
            "set ccm-from-scratch:restoreFrom SNAPSHOT. Then, or to begin an empty cluster: pulumi up "
            "--replace URN, with the URN of the K3sServer that 'pulumi stack --show-urns' lists"
        )


class GatewayKeyError(InfraError):
    """The private key for a gateway of one's own can't be read, or has a passphrase."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"the key in ccm-from-scratch:gateway.keyFile {path} can't be used: {reason}")


class RemoteCommandError(InfraError):
    """A command on a server failed or took too long; holds the last lines that it wrote."""

    def __init__(self, address: str, what: str, result: str, tail: str) -> None:
        self.address = address
        self.what = what
        self.result = result
        self.tail = tail
        output = f"; its last lines:\n{tail}" if tail else "; it wrote nothing"
        super().__init__(f"{what} on {address} {result}{output}")


class KubeconfigError(InfraError):
    """The certificate in the kubeconfig has expired, and with it nobody gets into the cluster."""

    def __init__(self, first: str) -> None:
        """Says what to do.

        Args:
            first: What has to be done on the servers before; empty: nothing.
        """
        before = f" {first}. Then" if first else " So"
        super().__init__(
            "the certificate in the kubeconfig has expired, so Pulumi can't see what is in the cluster."
            f"{before} type: pulumi up --refresh=false, which reads the kubeconfig anew. With that flag "
            "pulumi destroy works, too"
        )


class EndpointError(InfraError):
    """The Kubernetes API does not answer where this program runs, at any of its addresses."""

    def __init__(self, seconds: float, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(
            f"the Kubernetes API does not answer within {seconds:.0f} s:\n{_listed(reasons)}\n"
            "Nothing in the cluster was changed. Is k3s running (systemctl status k3s, on a control server), "
            "does the firewall let your address through (ccm-from-scratch:sshAllowedCidrs), and does a load "
            "balancer, if there is one, find a healthy control server (hcloud load-balancer describe)? "
            "Correct it, then repeat the command"
        )


class NodesError(InfraError):
    """The cluster's nodes did not become ready and initialised in time."""


class ReadyAgainError(InfraError):
    """A worker that was replaced or upgraded is not what it was before."""

    def __init__(self, node: str, seconds: float, lacks: str) -> None:
        self.node = node
        self.lacks = lacks
        super().__init__(
            f"{seconds:.0f} s after its server was replaced or upgraded, the node {node} does not take Pods: "
            f"{lacks}\nServers whose turn comes after it are as they were. Look at it with: kubectl describe "
            f"node {node}; when that is mended, repeat the command, which goes on with it"
        )


class DrainError(InfraError):
    """A node could not be drained; names what is left on it, and why."""

    def __init__(self, node: str, seconds: int, blockers: Sequence[str]) -> None:
        self.node = node
        self.seconds = seconds
        self.blockers = tuple(blockers)
        lines = _listed(blockers)
        super().__init__(
            f"the node {node} could not be drained within {seconds} s, so its server stays; left on it:\n"
            f"{lines}\n"
            "The node is cordoned. Make room for them (more replicas, another budget, another server) and "
            f"repeat the command. Without regard to budgets: kubectl drain {node} --ignore-daemonsets "
            "--delete-emptydir-data --force --disable-eviction. For longer, or not at all with 0: pulumi "
            "config set ccm-from-scratch:drainSeconds SECONDS. To keep the server, put it back into the "
            f"settings, and: kubectl uncordon {node}. Should it be behind no load balancer: kubectl "
            f"label node {node} node.kubernetes.io/exclude-from-external-load-balancers-"
        )


class UndrainedError(InfraError):
    """A node could not be drained, because its cluster could not be asked."""

    def __init__(self, node: str, reason: InfraError) -> None:
        self.node = node
        self.reason = reason
        super().__init__(
            f"the node {node} could not be drained, so its server stays: {reason}\n"
            "Repeat the command when that is mended, or let it go with what runs on it: "
            "pulumi config set ccm-from-scratch:drainSeconds 0"
        )


class UnknownClusterError(InfraError):
    """A control server can neither begin a cluster nor join one; names what each of the others said."""

    def __init__(self, node: str, reasons: Sequence[str]) -> None:
        self.node = node
        self.reasons = tuple(reasons)
        lines = _listed(reasons)
        super().__init__(
            f"{node} has joined no cluster, and begins none: there may be one that it can't join.\n{lines}\n"
            "Mend that, or delete servers that are lost for good (hcloud server delete NAME). Then repeat "
            "the command"
        )


class AnotherClusterError(InfraError):
    """A setting would make another cluster of one that several control servers have."""

    def __init__(self, key: str, before: str, wanted: str) -> None:
        self.key = key
        super().__init__(
            f"ccm-from-scratch:{key}: {wanted!r} is not possible while several control servers have the "
            f"cluster; it was made with {before!r}. Set that again; or go back to one control server first "
            "(pulumi config set ccm-from-scratch:controlCount 1; pulumi up), with which "
            f"another {key} makes a new, empty cluster; or use another stack"
        )


class ProviderNameError(InfraError):
    """The cloud-controller-manager would not know the cluster's Nodes any more."""

    def __init__(self, before: str, wanted: str) -> None:
        self.before = before
        super().__init__(
            f"ccm-from-scratch:cloudProviderName: {wanted!r} is not possible in a cluster whose Nodes have "
            f"provider IDs that begin with {before}://. Kubernetes does not change a Node's provider ID, "
            f"and a cloud-controller-manager called {wanted} takes Nodes of another one out of all load "
            "balancers. Set it back: pulumi config set ccm-from-scratch:cloudProviderName "
            f"{before}; or use another stack, or start again: pulumi destroy"
        )


class AnotherTokenError(InfraError):
    """The token of k3s servers would be another one, though several control servers have the cluster."""

    def __init__(self) -> None:
        super().__init__(
            "the token of k3s servers is not made anew while several control servers have the cluster: one "
            "after the other would leave it, and none could join again. Nothing of the cluster was changed. "
            "Leave the token out of --replace and --target-replace. Where the state has another one already, "
            "because there was no preview: put back the copy of the state from before (pulumi stack import)"
        )


class AnotherSubnetError(InfraError):
    """The subnet would be made anew, though several control servers are in it."""

    def __init__(self) -> None:
        super().__init__(
            "the subnet is not made anew while several control servers are in it: one after the other would "
            "be detached from it, and leave the cluster for that. Nothing was changed. Leave it out of "
            "--replace and --target-replace, and set back ccm-from-scratch:networkZone if you have changed "
            "it; or go back to one control server first (pulumi config set ccm-from-scratch:controlCount 1; "
            "pulumi up), with which another subnet makes a new, empty cluster"
        )


class QuorumError(InfraError):
    """A control server stays, because without it the others would not have a majority; names their state."""

    def __init__(self, node: str, states: Sequence[str]) -> None:
        self.node = node
        self.states = tuple(states)
        lines = _listed(states)
        super().__init__(
            f"the control server {node} stays: without it the others would have no majority.\n{lines}\n"
            "Mend those that don't answer; one that is lost for good is replaced once it is deleted (hcloud "
            "server delete NAME). Then repeat the command"
        )


class RestartError(InfraError):
    """K3s on a control server is not restarted: the others would not have a majority; names their state."""

    def __init__(self, node: str, states: Sequence[str]) -> None:
        self.node = node
        self.states = tuple(states)
        super().__init__(
            f"k3s on the control server {node} is left as it is: while it restarts, the others would have no "
            f"majority.\n{_listed(states)}\n"
            "Mend those that don't answer, or delete the server of one that is lost for good (hcloud server "
            "delete NAME) and repeat the command without this change first"
        )


class UpgradeError(InfraError):
    """The k3s of a node could not be upgraded."""

    def __init__(self, node: str, reason: InfraError) -> None:
        self.node = node
        self.reason = reason
        left = isinstance(reason, DrainError)
        why = _listed(reason.blockers) if left else f"  - {reason}"
        said = f"it could not be drained within {reason.seconds} s; left on it" if left else "the reason"
        super().__init__(
            f"k3s on the node {node} was not upgraded, nor on those whose turn comes after it; {said}:\n"
            f"{why}\n"
            "The node stays cordoned. When that is mended (more replicas, another budget, another server), "
            "repeat the command, which goes on with it. For longer, or without a drain with 0: pulumi config "
            "set ccm-from-scratch:drainSeconds SECONDS. To let it take Pods again until then: "
            f"kubectl uncordon {node}; kubectl annotate node {node} ccm-from-scratch/upgrading-; kubectl "
            f"label node {node} node.kubernetes.io/exclude-from-external-load-balancers-"
        )


class VersionError(InfraError):
    """k3s can't go from the version that is installed to the one that is wanted."""

    def __init__(self, problem: Problem, *, done: bool = False) -> None:
        self.problem = problem
        so_far = (
            "the control server has it already; no worker has, and the next command gives it to them"
            if done
            else "nothing of the cluster was changed"
        )
        super().__init__(f"{problem}; {so_far}")


class NodeGroupError(InfraError):
    """Servers that the cluster-autoscaler made could not be removed."""

    def __init__(self, group: str, why: str) -> None:
        self.group = group
        super().__init__(f"the servers of the node group {group} could not all be removed: {why}")


class ImageBuildError(InfraError):
    """The cloud-controller-manager's image could not be built on this machine."""


class SweepError(InfraError):
    """Load balancers of the cluster could not be removed."""


class AddressTakenError(InfraError):
    """A server can't be attached to its network again with the address that it had."""

    def __init__(self, server: str, address: str, holder: str, network: str) -> None:
        """Says what to do.

        Args:
            server: Name or ID of the server.
            address: Its private address.
            holder: What has that address now.
            network: ID of the network.
        """
        super().__init__(
            f"the server {server} is not in the network {network} with its private address {address}, and "
            f"{holder} has that address now. The cluster knows the server by it, so nothing was changed. "
            f"Detach {holder} from the network {network}, then repeat the command"
        )


class PlanError(InfraError):
    """The plan would delete servers that must stay; names each of them and the reason."""

    def __init__(self, reasons: Mapping[str, str], switch: str) -> None:
        """Says what to do.

        Args:
            reasons: By the ID of each server.
            switch: What to type to go on; ``{}`` stands for the IDs.
        """
        self.ids = tuple(reasons)
        super().__init__(
            "the plan deletes servers that must stay; none of these was changed\n"
            f"{_listed(reasons.values())}\n"
            "Take back the change or the option that leads to this. If you want to lose these servers: "
            f"{switch.replace('{}', json.dumps(self.ids))}; then repeat the command. The IDs allow this "
            "once: a server that is created again has another one"
        )


class StateError(InfraError):
    """The state of the stack could not be read."""

    def __init__(self, stack: str, reason: str) -> None:
        super().__init__(f"the state of {stack} can't be read: {reason}. Nothing was changed; try again")


class ForeignObjectError(InfraError):
    """An object with the name and labels of this stack is there, and may not be its own."""

    def __init__(self, collection: str, name: str, identity: int, reason: str) -> None:
        self.name = name
        self.identity = identity
        what = collection.removesuffix("s").replace("_", "-")
        super().__init__(
            f"the {what} {name} ({identity}) has the name and labels of this stack, which does not adopt it: "
            f"{reason}. Nothing of it was changed.\n"
            "If it is in a newer copy of the state, such as a colleague's, put that back: pulumi stack "
            f"import --file FILE. If nobody needs it: hcloud {what} delete {name}. Otherwise choose another "
            "name: pulumi config set ccm-from-scratch:clusterName NAME"
        )


class ProtectedError(InfraError):
    """Something that is protected against deletion would have been deleted, now or later in the run."""

    def __init__(self, kind: str, name: str, identity: int, switch: str) -> None:
        self.kind = kind
        self.name = name
        self.identity = identity
        what = f"the {kind.replace('_', ' ')} {name} ({identity})"
        super().__init__(
            f"{what} is protected against deletion; nothing of it was deleted. "
            f"To let it go: {switch}; then, without any other change: pulumi up; then repeat the command"
        )


def _listed(items: Iterable[object]) -> str:
    return "\n".join(f"  - {item}" for item in items)


def _shortened(text: str, longest: int = LONGEST_VALUE) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"


def _printable(text: str) -> str:
    """The text without what a terminal would obey, such as the colours and moves of the cursor."""
    return "".join(
        sign if sign.isprintable() or sign == "\n" else sign.encode("unicode_escape").decode()
        for sign in text
    )


def _count(number: int) -> str:
    return "1 problem" if number == 1 else f"{number} problems"
