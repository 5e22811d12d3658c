"""Every worker is made anew, then upgraded, one after the other; a client asks through a load balancer."""

from __future__ import annotations

import re
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.cluster_lab.workload import MANIFEST
from tests.e2e.conftest import eventually

pytestmark = [pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]

CLIENTS = 4
OLDER, NEWER = "1.35", "1.36"


class Client:
    """Asks all the time, each time over a connection of its own, and notes what went wrong."""

    def __init__(self, url):
        self._url = url
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(CLIENTS)
        self.answered = 0
        self.lost = []

    def __enter__(self):
        self._asking = [self._pool.submit(self._ask) for _ in range(CLIENTS)]
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._pool.shutdown()
        self.answered = sum(asking.result() for asking in self._asking)

    def _ask(self):
        answered = 0
        while not self._stopped.wait(0.02):  # short: a client's pace
            try:
                with urllib.request.urlopen(self._url, timeout=30) as answer:
                    answer.read()
                answered += 1
            except OSError as error:
                self.lost.append((time.monotonic(), str(error)))
        return answered


def configure(clone, **pool):
    clone.configure(pools=[{"name": "a", "count": 2, **pool}])


def kubelets(clone):
    return {name: node["status"]["nodeInfo"]["kubeletVersion"] for name, node in clone.nodes().items()}


def order(printed, *steps):
    """Where in what was printed each step first stands."""
    places = [printed.find(step) for step in steps]
    assert -1 not in places, (steps, printed)
    return places


@pytest.fixture(scope="module")
def address(clone):
    configure(clone)
    clone.dev("up", "--kubernetes", OLDER)
    (clone.root / "workload.yaml").write_text(MANIFEST)
    clone.dev("kubectl", "apply", "-f", "workload.yaml")
    clone.dev("kubectl", "rollout", "status", "deployment/web", "--timeout=120s")
    given = clone.kubectl("get", "service", "web")["status"]["loadBalancer"].get("ingress")
    if not given:
        given = eventually(
            lambda: clone.kubectl("get", "service", "web")["status"]["loadBalancer"].get("ingress"),
            120,
            "an address",
        )
    url = f"http://{next(item['ip'] for item in given if '.' in item['ip'])}/"
    eventually(lambda: answers(url), 120, "an answer through the load balancer")
    return url


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status == 200
    except OSError:
        return False


def test_nobody_notices_that_every_worker_is_made_anew(clone, address):
    before = clone.servers()
    configure(clone, serverType="cpx32", image="debian-12")
    with Client(address) as client:
        printed = clone.dev("up").stdout
    after = clone.servers()
    print(f"made anew: {len(client.lost)} of {client.answered + len(client.lost)} requests were lost")
    assert client.lost == []
    assert client.answered > 1000
    assert {name: server["server_type"]["name"] for name, server in after.items()} == {
        "control": "cpx22",
        "a-1": "cpx32",
        "a-2": "cpx32",
    }
    assert all(after[name]["id"] != before[name]["id"] for name in ("a-1", "a-2"))
    assert after["control"]["id"] == before["control"]["id"]
    places = order(
        printed, "Server a-1 replaced", "ReadyAgain a-1 updated", "Departure a-2 deleting original"
    )
    assert places == sorted(places)
    again = clone.dev("up").stdout
    assert not re.search(r" (created|updated|replaced|deleted)", again), again


def test_nobody_notices_that_k3s_is_upgraded(clone, address):
    assert all(version.startswith(f"v{OLDER}.") for version in kubelets(clone).values())
    ids = clone.server_ids()
    with Client(address) as client:
        printed = clone.dev("up", "--kubernetes", NEWER).stdout
    print(f"upgraded: {len(client.lost)} of {client.answered + len(client.lost)} requests were lost")
    assert client.lost == []
    assert client.answered > 1000
    assert all(version.startswith(f"v{NEWER}.") for version in kubelets(clone).values())
    assert clone.server_ids() == ids
    places = order(
        printed,
        "K3sServer control updated",
        "K3sAgent a-1 updating",
        "ReadyAgain a-1 updated",
        "K3sAgent a-2 updating",
        "ReadyAgain a-2 updated",
    )
    assert places == sorted(places)
    for node in clone.nodes().values():
        assert not node["spec"].get("unschedulable")
        assert "ccm-from-scratch/upgrading" not in node["metadata"].get("annotations", {})
        assert "node.kubernetes.io/exclude-from-external-load-balancers" not in node["metadata"]["labels"]


def test_a_way_down_is_refused_before_anything_happens(clone, address):
    before = clone.writes()
    refused = clone.dev("up", "--kubernetes", OLDER, check=False)
    assert refused.returncode
    assert "ccm-from-scratch:k3sVersion" in refused.stdout
    assert "there is no way back to an older one" in refused.stdout
    assert clone.writes() == before
    assert all(version.startswith(f"v{NEWER}.") for version in kubelets(clone).values())
    assert answers(address)
