"""Drains a Node before its server is deleted: no new Pods, no traffic from load balancers, no Pods.

kubectl honors a PodDisruptionBudget: it tries an eviction again as long as the budget forbids it.
"""

import asyncio
import json
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ..lib.errors import DrainError, InfraError
from ..lib.ssh import Shell, read_object

EXCLUDED = "node.kubernetes.io/exclude-from-external-load-balancers"
"""A Node with this label and any value except false gets no traffic from load balancers."""
BY_US = "drained-by-ccm-from-scratch"
"""The program's value of the label ``EXCLUDED``. An aborted drain removes the label only with this value."""
UPGRADING = "ccm-from-scratch/upgrading"
"""Annotation of a Node that is cordoned for an upgrade. After the upgrade, the program uncordons the Node."""
TRAFFIC_POLLS = 15
TRAFFIC_PAUSE = 2.0
# what Go's strconv.ParseBool takes for false, as the cloud-controller-manager does
_FALSE = ("0", "f", "F", "FALSE", "false", "False")
_AT_ONCE = 30.0
_SKIP_LOST_SECONDS = 60
"""kubectl drain ignores a Pod whose deletion began more than this number of seconds ago. So a Pod on a failed
node does not block the drain."""

LEADER_POLLS = 30
LEADER_PAUSE = 1.0
STARTING = timedelta(seconds=5)
"""After a kube-controller-manager acquires the lease, its controllers need one or two seconds to start and
list objects."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class Traffic:
    """How to check whether load balancers send to a server."""

    senders: Callable[[], Sequence[str]]  # names of the load balancers that send to the server now; may block
    polls: int = TRAFFIC_POLLS  # number of checks
    pause: float = TRAFFIC_PAUSE  # seconds between two checks

    async def left(self) -> Sequence[str]:
        """The load balancers of the last check; none as soon as a check finds none."""
        senders: Sequence[str] = ()
        for _ in range(self.polls):
            senders = await asyncio.to_thread(self.senders)
            if not senders:
                break
            await asyncio.sleep(self.pause)
        return senders


async def empty(shell: Shell, node: str, seconds: int, traffic: Traffic, report: Report) -> None:
    """Cordons a Node, removes it from its load balancers, and drains it. Does nothing if it does not exist. A
    Node whose kubelet is silent is not drained. Pods are evicted only while a kube-controller-manager runs,
    which removes them from their Services (``is_led``).

    A DrainError means that Pods are left: the Node is cordoned, and its load balancers send to it again.
    """
    name, what = shlex.quote(node), f"draining the node {node}"
    there = await read_object(shell, "node", node, what=what)
    if there is None:
        return
    if is_silent(there):
        report(f"the node {node} is not drained, because its kubelet doesn't respond")
        return
    before = there["metadata"].get("labels", {}).get(EXCLUDED)
    exclude, serve_on = _label_scripts(name, before)
    await shell.run(" && ".join([f"k3s kubectl cordon {name}", *exclude]), what=what, timeout=_AT_ONCE)
    try:
        lease = await read_lease(shell, what)
        await _await_silence(node, traffic, report)
        await await_leader(shell, node, lease, what, report)
        await shell.run(drain_script(node, seconds), what=what, timeout=seconds + _AT_ONCE)
    except InfraError as error:
        left = await _left(shell, node, what, serve_on, report)
        raise DrainError(node, seconds, left or [str(error)]) from error


def _label_scripts(name: str, before: str | None) -> tuple[list[str], list[str]]:
    """Commands that remove a Node from its load balancers, and those that undo it. A label (its value is
    ``before``) that already excludes the Node stays, unless this program set it.
    """
    if before not in (None, BY_US, *_FALSE):
        return [], []
    label = f"k3s kubectl label node {name}"
    undone = f"{EXCLUDED}={before} --overwrite" if before in _FALSE else f"{EXCLUDED}-"
    return [f"{label} {EXCLUDED}={BY_US} --overwrite"], [f"{label} {undone}"]


async def _left(shell: Shell, node: str, what: str, serve_on: Sequence[str], report: Report) -> list[str]:
    """Undoes the labels, and returns what is left on a Node. A failure does not hide the earlier error."""
    try:
        for command in serve_on:
            await shell.run(command, what=what, timeout=_AT_ONCE)
        pods = await _list(shell, f"pods --field-selector=spec.nodeName={shlex.quote(node)}")
        return blockers(pods, await _list(shell, "poddisruptionbudgets"))
    except InfraError as error:
        report(f"could not find out why the drain of {node} failed: {error}")
        return []


def drain_script(node: str, seconds: int) -> str:
    """Evicts a Node's Pods, except those of DaemonSets, and waits. Data in an emptyDir is lost."""
    return (
        f"k3s kubectl drain {shlex.quote(node)} --ignore-daemonsets --delete-emptydir-data "
        f"--timeout={seconds}s --skip-wait-for-delete-timeout={_SKIP_LOST_SECONDS}"
    )


def is_silent(node: Mapping[str, Any]) -> bool:
    """Whether a Node's kubelet reports no status. A Node that is not ready may still run its Pods."""
    conditions = node.get("status", {}).get("conditions", [])
    return not any(item["type"] == "Ready" and item["status"] != "Unknown" for item in conditions)


def senders_to(server_id: int, balancers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the load balancers that have a server among their targets."""
    return [item["name"] for item in balancers if server_id in healthy_targets(item["targets"])]


def healthy_targets(targets: Sequence[Mapping[str, Any]]) -> dict[int, bool]:
    """Whether each server among a load balancer's targets is healthy on all of its ports, by id."""
    # a target of type label_selector lists the servers that it selects
    below = [inner for target in targets for inner in target.get("targets") or []]
    return {
        target["server"]["id"]: all(port["status"] == "healthy" for port in target.get("health_status") or [])
        for target in [*targets, *below]
        if target.get("server")
    }


async def _await_silence(node: str, traffic: Traffic, report: Report) -> None:
    still, then = f"still send traffic to the node {node}", "The program continues with the drain"
    try:
        senders = await traffic.left()
    except InfraError as error:
        report(f"could not check whether load balancers {still}: {error}. {then}")
        return
    if senders:
        seconds = traffic.polls * traffic.pause
        report(f"after {seconds:.0f} s, these load balancers {still}: {', '.join(senders)}. {then}")


async def _list(shell: Shell, kind: str) -> list[Mapping[str, Any]]:
    command = f"k3s kubectl get {kind} --all-namespaces -o json"
    return json.loads(await shell.run(command, what=f"listing {kind}", timeout=_AT_ONCE))["items"]


def blockers(pods: Sequence[Mapping[str, Any]], budgets: Sequence[Mapping[str, Any]]) -> list[str]:
    """For a person, why each remaining Pod was not evicted. If a Pod has no controller, kubectl refuses
    before it evicts any: then these are only the Pods without one.
    """
    bare, others = [], []
    for pod in pods:
        metadata = pod["metadata"]
        owners = [owner for owner in metadata.get("ownerReferences", []) if owner.get("controller")]
        kinds = {owner["kind"] for owner in owners}
        finished = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        mirrored = "kubernetes.io/config.mirror" in metadata.get("annotations", {})
        if finished or mirrored or "DaemonSet" in kinds:
            continue
        line = f"{metadata['namespace']}/{metadata['name']}: {_why(metadata, owners, budgets)}"
        (others if owners else bare).append(line)
    return bare or others


def _why(
    metadata: Mapping[str, Any], owners: Sequence[Mapping[str, Any]], budgets: Sequence[Mapping[str, Any]]
) -> str:
    if metadata.get("deletionTimestamp"):
        return "the Pod has not terminated yet"
    if not owners:
        return "no controller recreates this Pod. If you don't need the Pod, delete the Pod"
    for budget in budgets:
        status = budget.get("status", {})
        same = budget["metadata"]["namespace"] == metadata["namespace"]
        if same and not status.get("disruptionsAllowed") and _selects(budget, metadata.get("labels", {})):
            healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
            name = budget["metadata"]["name"]
            return (
                f"the PodDisruptionBudget {name} allows no disruption: "
                f"{healthy} Pods are healthy, and {wanted} must be healthy"
            )
    return "the Pod was not evicted in time"


def _selects(budget: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    selector = budget["spec"].get("selector")
    if selector is None:
        return False
    fits = all(labels.get(name) == value for name, value in selector.get("matchLabels", {}).items())
    return fits and all(_meets(rule, labels) for rule in selector.get("matchExpressions", []))


def _meets(rule: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    has, values = rule["key"] in labels, rule.get("values", [])
    among = has and labels[rule["key"]] in values
    return {"In": among, "NotIn": not among, "Exists": has, "DoesNotExist": not has}[rule["operator"]]


def is_led(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> bool:
    """Whether a kube-controller-manager is active: without one, Services send to deleted Pods.

    With several servers, only the leader is active. If the leader ends, as in an upgrade of its server, no
    manager is active until its lease expires. A single manager runs without a lease (None).

    This needs no clock. A leader is active if it has renewed its lease between two reads, and if it acquired
    the lease long enough before that.
    """
    if now is None:
        return True
    spec = now["spec"]
    taken, renewed = spec.get("acquireTime"), spec.get("renewTime")
    if not (spec.get("holderIdentity") and taken and renewed):
        return False
    moves = before is None or before["spec"].get("renewTime") != renewed
    return moves and datetime.fromisoformat(renewed) - datetime.fromisoformat(taken) >= STARTING


async def read_lease(shell: Shell, what: str) -> Mapping[str, Any] | None:
    """The lease as the API returns it; None if it does not exist."""
    return await read_object(shell, "lease", "kube-controller-manager", namespace="kube-system", what=what)


async def await_leader(
    shell: Shell, node: str, before: Mapping[str, Any] | None, what: str, report: Report
) -> None:
    """Waits until a manager is active, and reports if none is. ``before`` is the lease as it was some time
    ago.
    """
    for _ in range(LEADER_POLLS):
        if is_led(before, await read_lease(shell, what)):
            return
        await asyncio.sleep(LEADER_PAUSE)
    seconds = LEADER_POLLS * LEADER_PAUSE
    report(
        f"within {seconds:.0f} s, no kube-controller-manager became the active leader. "
        f"The program continues with the drain of the node {node}"
    )


def readmission(node: str, labels: Mapping[str, str], marks: Collection[str]) -> list[str]:
    """Commands that let a Node accept Pods and traffic again after its upgrade. What its owner set stays."""
    name = shlex.quote(node)
    commands = [f"k3s kubectl uncordon {name}"] if UPGRADING in marks else []
    if labels.get(EXCLUDED) == BY_US:
        commands.append(f"k3s kubectl label node {name} {EXCLUDED}-")
    # last, so that the annotation is still there if this is interrupted
    return [*commands, *([f"k3s kubectl annotate node {name} {UPGRADING}-"] if UPGRADING in marks else [])]


async def readmit(shell: Shell, node: str) -> bool:
    """Lets a Node accept Pods and traffic again. Returns whether load balancers may send to it; False: it is
    gone.
    """
    what = f"uncordoning the node {node}"
    found = await read_object(shell, "node", node, what=what)
    if found is None:
        return False
    labels = found["metadata"].get("labels", {})
    if commands := readmission(node, labels, found["metadata"].get("annotations", {})):
        await shell.run(" && ".join(commands), what=what, timeout=_AT_ONCE)
    return labels.get(EXCLUDED) in (None, BY_US)
