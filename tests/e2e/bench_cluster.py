"""Times of a cluster's operations, each measured once: ``./dev bench cluster [PART ...]``.

Creates three control servers behind a load balancer, and three workers in two pools, in its own clone in a
temporary folder. The parts run in this order:

- ``up`` creates the cluster.
- ``again`` runs ``up`` without a change.
- ``lost`` powers off the control server whose CCM holds the lease.
- ``replaced`` replaces every worker while clients send requests to a Service.
- ``upgrade`` upgrades Kubernetes by a minor version.
- ``restore`` restores all control servers from a snapshot.
- ``destroy`` deletes everything.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.lab.report import Row, main, say, timed
from sandbox.kubernetes import releases
from tests.e2e import cluster_state, probing_clients, server_loss, workload
from tests.e2e.cluster_changes import CONTROLS, NEWER, OLDER
from tests.e2e.conftest import Clone, eventually
from tests.e2e.looks import answers, load_balancer_ip
from tests.e2e.probing_clients import Api, ApiClient, ServiceClient
from tests.e2e.temporary_clone import temporary_clone

POOLS = ({"name": "a", "count": 2}, {"name": "b", "count": 1})
OTHER_TYPE = "cpx32"
OBSERVED_SECONDS = 60.0
"""After the loss of a control server: longer than anything that is wanted then."""
REQUESTS = 10_000
"""So many are answered while every worker is replaced, or soon afterwards."""
PATIENCE = 300.0
UP_SECONDS = 1800.0


@dataclass
class TestBed:
    clone: Clone
    seconds: float = 0.0  # that its ``up`` took
    url: str = ""  # of the Service; empty until it runs

    def service(self) -> str:
        self.url = self.url or workload.deploy(self.clone)
        return self.url

    def api(self) -> Api:
        return Api(self.clone.site.kubeconfig)

    def up(self) -> str:
        return self.clone.pulumi(*cluster_state.UP, seconds=UP_SECONDS).stdout

    def until_ready(self) -> None:
        eventually(lambda: cluster_state.ready(self.clone), PATIENCE, "every server is a ready Node")


def begin(clone: Clone, kubernetes: str) -> TestBed:
    clone.dev("doctor", check=False)  # the first command of a clone makes its Python environment
    clone.configure(controlCount=len(CONTROLS), apiEndpoint="load-balancer", pools=[*POOLS])
    return TestBed(clone, timed(lambda: clone.dev("up", "--kubernetes", kubernetes, seconds=UP_SECONDS)))


def up(bed: TestBed) -> list[Row]:
    return [
        Row("up, 3 control servers + 3 workers in two pools, Ready and initialized", bed.seconds, 75, "s")
    ]


def again(bed: TestBed) -> list[Row]:
    said: list[str] = []
    seconds = timed(lambda: said.append(bed.up()))
    return [
        Row("up again", seconds, 8, "s"),
        Row("up again: changes", len(cluster_state.changed(said[0])), 0, ""),
    ]


def lost(bed: TestBed) -> list[Row]:
    clone, url, api = bed.clone, bed.service(), bed.api()
    before = eventually(api.lease_holder, PATIENCE, "somebody has the lease")
    role = cluster_state.role_of(before.partition("_")[0])
    with ServiceClient(url) as service, ApiClient(api.reads) as asking:
        began = time.monotonic()
        server_loss.power(clone, role, "poweroff")
        eventually(lambda: api.lease_holder() not in ("", before), PATIENCE, "somebody else has the lease")
        moved = time.monotonic() - began
        while time.monotonic() < began + OBSERVED_SECONDS:
            time.sleep(1)
    server_loss.power(clone, role, "poweron")
    # its Node may still be Ready
    eventually(lambda: cluster_state.etcd_healthy(clone, role), PATIENCE, f"{role} is a member of etcd again")
    bed.until_ready()
    answering = probing_clients.answers_again(asking.calls, began)
    return [
        Row(
            f"{role} loses its power: until the API answers each call at its address",
            OBSERVED_SECONDS if answering is None else answering,
            10,
            "s",
            note=f"{probing_clients.failures(asking.calls)} meanwhile",
        ),
        Row(f"{role} loses its power: until the CCM's lease moved", moved, 20, "s"),
        Row(
            "the longest time in which no request to a Service was answered",
            probing_clients.longest_failure(service.calls),
            unit="s",
            note=f"{probing_clients.failures(service.calls)} meanwhile",
        ),
    ]


def replaced(bed: TestBed) -> list[Row]:
    clone, url = bed.clone, bed.service()
    before = clone.server_ids()
    clone.configure(pools=[{**pool, "serverType": OTHER_TYPE} for pool in POOLS])
    with ServiceClient(url) as service:
        seconds = timed(bed.up)
        eventually(lambda: service.answered >= REQUESTS, PATIENCE, f"{REQUESTS} requests are answered")
    after = clone.server_ids()
    kept = [role for role in before if role not in CONTROLS and after.get(role) == before[role]]
    return [
        Row(
            "every worker replaced: requests lost",
            len(service.lost),
            0,
            "",
            note=f"of {len(service.calls)}, in {seconds:.0f} s; first: {service.lost[:1]}",
        ),
        Row("every worker replaced: workers that were not", len(kept), 0, ""),
    ]


def upgrade(bed: TestBed) -> list[Row]:
    clone = bed.clone
    clone.configure(k3sVersion=releases.k3s_name(NEWER))
    url = bed.service()
    with ApiClient(bed.api().reads) as asking, ServiceClient(url) as service:
        seconds = timed(bed.up)
    versions = {*cluster_state.kubelets(clone).values()}
    return [
        Row(
            f"upgrade of 3 + 3 from {OLDER} to {NEWER}",
            seconds / 60,
            4,
            "min",
            note=f"kubelets: {', '.join(sorted(versions))}",
        ),
        Row(
            "upgrade: the longest time without an answer of the API",
            probing_clients.longest_failure(asking.calls),
            5,
            "s",
            note=probing_clients.failures(asking.calls),
        ),
        Row(
            "upgrade: requests to a Service lost", len(service.lost), unit="", note=f"of {len(service.calls)}"
        ),
    ]


def restore(bed: TestBed) -> list[Row]:
    clone = bed.clone
    bed.service()
    before, taken = cloud_of(clone), clone.root / "taken"
    server_loss.take_snapshot(clone, taken)
    server_loss.lose(clone, CONTROLS)
    clone.configure(restoreFrom=str(taken))
    began = time.monotonic()
    bed.up()
    bed.until_ready()
    seconds = time.monotonic() - began
    eventually(lambda: answers(bed.url), PATIENCE, "the Service answers")
    difference = differing(before, cloud_of(clone))
    return [
        Row("restore after the loss of all control servers", seconds, 120, "s"),
        Row("restore: cloud objects doubled or lost", len(difference), 0, "", note="; ".join(difference)),
    ]


def cloud_of(clone: Clone) -> Counter[tuple[str, str, str]]:
    """Everything in the cloud, as what it stays when control servers are replaced."""
    return Counter(
        (item.kind, item.name, "" if cluster_state.role_of(item.name) in CONTROLS else str(item.id))
        for item in cluster_state.in_cloud(clone)
    )


def differing(before: Counter[tuple[str, str, str]], after: Counter[tuple[str, str, str]]) -> list[str]:
    doubled = [f"{kind} {name} too many" for kind, name, _ in (after - before).elements()]
    return doubled + [f"{kind} {name} lost" for kind, name, _ in (before - after).elements()]


def destroy(bed: TestBed) -> list[Row]:
    clone = bed.clone
    bed.service()
    clone.dev("kubectl", "expose", "deployment", "web", "--name=shop", "--type=LoadBalancer", "--port=80")
    eventually(lambda: load_balancer_ip(clone, "service/shop"), PATIENCE, "an address of the second Service")
    seconds = timed(lambda: clone.pulumi(*cluster_state.DESTROY, seconds=UP_SECONDS))
    left = [str(item) for item in cluster_state.in_cloud(clone)]
    return [
        Row("destroy, with two Services of a user's", seconds, 30, "s"),
        Row("destroy: left in the cloud", len(left), 0, "", note=", ".join(left)),
    ]


PARTS: Mapping[str, Callable[[TestBed], list[Row]]] = {
    part.__name__: part for part in (up, again, lost, replaced, upgrade, restore, destroy)
}


def chosen(asked: list[str]) -> list[str]:
    """The parts that are measured, in their order; all where none was asked for."""
    return [name for name in PARTS if not asked or name in asked]


async def measure(arguments: argparse.Namespace) -> list[Row]:
    names, rows = chosen(arguments.parts), list[Row]()
    with temporary_clone() as clone:
        say("up")
        bed = begin(clone, OLDER if "upgrade" in names else NEWER)
        for name in names:
            say(name)
            for row in PARTS[name](bed):
                say(f"  {row.what}: {row.ours:.1f} {row.unit} {row.note}")
                rows.append(row)
    return rows


def options(parser: argparse.ArgumentParser) -> Any:
    # choices of "*" would have to hold its default, too
    parser.add_argument(
        "parts", nargs="*", metavar="PART", type=part, help=f"the parts: {', '.join(PARTS)} (default: all)"
    )


def part(text: str) -> str:
    if text not in PARTS:
        raise argparse.ArgumentTypeError(f"there is no part {text!r}; there are: {', '.join(PARTS)}")
    return text


if __name__ == "__main__":
    sys.exit(main("A cluster that one keeps", __doc__, measure, options, peer=False))
