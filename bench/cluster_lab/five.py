"""Five control servers: two are lost at once, come back anew, and four leave again.

Without workers: these play no part in it, and five control servers are what a host with the kernel's own
limits carries.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.cluster_lab import calls, losses, views
from bench.cluster_lab.clients import Api, ApiClient
from bench.lab.report import Row
from bench.lab.stopwatch import timed
from tests.e2e.conftest import Clone, eventually

CONTROLS = ("control", "control-2", "control-3", "control-4", "control-5")
FEWER = (3, 1)
"""To so many control servers it goes down, one `up` after the other."""
OBSERVED_SECONDS = 60.0
"""After the loss: longer than anything that is wanted then."""
PATIENCE = 300.0
UP_SECONDS = 1800.0


@dataclass(frozen=True)
class Kept:
    """What stays where a change does not concern it.

    Attributes:
        identity: Of the cluster.
        servers: Ids by role.
        nodes: Uids by role.
        cloud: Everything else in the cloud, as kind, name and id.
    """

    identity: str
    servers: Mapping[str, str]
    nodes: Mapping[str, str]
    cloud: frozenset[str]


def measure(clone: Clone, kubernetes: str) -> Iterator[Row]:
    """All rows, from nothing to nothing.

    Args:
        clone: Without an environment.
        kubernetes: Its version.
    """
    clone.dev("doctor", check=False)  # the first command of a clone makes its Python environment
    clone.configure(controlCount=len(CONTROLS), apiEndpoint="load-balancer", workerCount=0)
    seconds = timed(lambda: clone.dev("up", "--kubernetes", kubernetes, seconds=UP_SECONDS))
    yield Row("up, 5 control servers, Ready and initialised", seconds, unit="s")
    yield _members("up", clone, CONTROLS)
    begun, lost = views.identity(clone), _leaders(clone)
    yield from _lost_at_once(clone, lost)
    yield from _changed("2 of 5 made anew", clone, CONTROLS, lost)
    before = len(CONTROLS)
    for count in FEWER:
        clone.configure(controlCount=count)
        yield from _changed(f"{before} to {count}", clone, CONTROLS[:count], CONTROLS[count:before])
        before = count
    yield Row("5, 3, 1: the cluster is another one", int(views.identity(clone) != begun), 0, "")
    yield from _destroyed(clone)


def look(clone: Clone) -> Kept:
    """What there is, of what a change may leave alone."""
    listed = clone.kubectl("get", "nodes")["items"]
    return Kept(
        identity=views.identity(clone),
        servers={role: str(number) for role, number in clone.server_ids().items()},
        nodes={views.role_of(node["metadata"]["name"]): node["metadata"]["uid"] for node in listed},
        cloud=frozenset(f"{item} ({item.id})" for item in views.in_cloud(clone) if item.kind != "servers"),
    )


def disturbed(before: Kept, after: Kept, roles: Collection[str]) -> list[str]:
    """What a change of some servers did to anything else, a line each. Pure.

    What is gone with the last server that used it, such as a placement group, is not counted.

    Args:
        before: What there was.
        after: What there is.
        roles: Of the servers that were to change.
    """
    found = [] if before.identity == after.identity else ["the cluster is another one"]
    for what, old, new in (("server", before.servers, after.servers), ("Node", before.nodes, after.nodes)):
        others = sorted({*old, *new} - {*roles})
        found += [f"the {what} {role} is another one" for role in others if old.get(role) != new.get(role)]
    return found + [f"{item} is new" for item in sorted(after.cloud - before.cloud)]


def most_at_once(output: str, kind: str) -> int:
    """How many resources of a kind were worked on at the same time, at most. Pure.

    Args:
        output: What a run of Pulumi printed.
        kind: Of the resources, such as ``K3sServer``.
    """
    begun: set[str] = set()
    most = 0
    for name, doing in re.findall(rf":{kind} (\S+) (\w+)", output):
        if doing.endswith("ing"):
            begun.add(name)
            most = max(most, len(begun))
        else:
            begun.discard(name)
    return most


def _leaders(clone: Clone) -> tuple[str, str]:
    """Whom it costs most to lose: who has the cloud-controller-manager's lease, and who leads etcd."""
    api = Api(clone.site.kubeconfig)
    holder = eventually(api.lease_holder, PATIENCE, "somebody has the lease")
    first = views.role_of(holder.partition("_")[0])
    leader = eventually(lambda: views.etcd_leader(clone, CONTROLS[0]), PATIENCE, "somebody leads etcd")
    others = [leader, *CONTROLS]
    return first, next(role for role in others if role != first)


def _lost_at_once(clone: Clone, lost: Sequence[str]) -> list[Row]:
    """Two lose their power, and are deleted; the others go on."""
    api = Api(clone.site.kubeconfig)
    with ApiClient(api.reads) as reading, ApiClient(api.writes) as writing:
        began = time.monotonic()
        for role in lost:
            losses.power(clone, role, "poweroff")
        while time.monotonic() < began + OBSERVED_SECONDS:
            time.sleep(1)
    losses.lose(clone, lost)
    names = " and ".join(lost)
    return [
        _again(f"{names} lose their power at once: until each read is answered", reading.calls, began, 10),
        # Not judged: one of them led etcd, whose members wait 5 to 10 s for a leader before they elect one.
        _again(f"{names} lose their power at once: until each write is", writing.calls, began),
    ]


def _again(what: str, made: Sequence[calls.Call], began: float, most: float | None = None) -> Row:
    answering = calls.answers_again(made, began)
    seconds = OBSERVED_SECONDS if answering is None else answering
    return Row(what, seconds, most, "s", note=calls.failures(made))


def _changed(what: str, clone: Clone, stay: Sequence[str], roles: Sequence[str]) -> list[Row]:
    """One ``up`` that makes servers, or has them leave, and nothing else."""
    before, said = look(clone), list[str]()
    with ApiClient(Api(clone.site.kubeconfig).reads) as reading:
        seconds = timed(lambda: said.append(clone.pulumi(*views.UP, seconds=UP_SECONDS).stdout))
    members = _members(what, clone, stay)
    eventually(lambda: views.ready(clone), PATIENCE, "every server is a ready Node")
    others = disturbed(before, look(clone), roles)
    return [
        Row(f"{what}: up", seconds, unit="s"),
        Row(
            f"{what}: control servers that join or leave at the same time",
            most_at_once(said[0], "K3sServer"),
            1,
            "",
        ),
        members,
        Row(f"{what}: of anything else made anew", len(others), 0, "", note="; ".join(others)),
        Row(
            f"{what}: the longest time without an answer of the API",
            calls.longest_failure(reading.calls),
            unit="s",
            note=calls.failures(reading.calls),
        ),
    ]


def _members(what: str, clone: Clone, roles: Sequence[str]) -> Row:
    """Who is no healthy member of etcd and should be one, or is one and should not."""
    differing = Counter(views.etcd_members(clone, roles[0]))
    differing.subtract(roles)
    wrong = {role for role, count in differing.items() if count}
    wrong |= {role for role in roles if not views.etcd_healthy(clone, role)}
    title = f"{what}: members of etcd missing, ill or too many, of {len(roles)}"
    return Row(title, len(wrong), 0, "", note=", ".join(sorted(wrong)))


def _destroyed(clone: Clone) -> list[Row]:
    seconds = timed(lambda: clone.pulumi(*views.DESTROY, seconds=UP_SECONDS))
    left = [str(item) for item in views.in_cloud(clone)]
    return [
        Row("destroy of what five became", seconds, 30, "s"),
        Row("destroy of what five became: left in the cloud", len(left), 0, "", note=", ".join(left)),
    ]
