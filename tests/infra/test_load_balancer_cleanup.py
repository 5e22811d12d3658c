import asyncio
import json
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

import pytest

from ccm_pulumi.addons.load_balancer_cleanup import (
    clean_up_certificates,
    clean_up_load_balancers,
    delete_services,
    delete_services_by_cluster,
    released_meanwhile,
)
from ccm_pulumi.lib.cloud_api import Cloud, Patience, power_off
from ccm_pulumi.lib.errors import CloudError, InfraError
from ccm_pulumi.lib.ownership import ADOPTED, Ownership
from ccm_pulumi.lib.ssh import Host
from ccm_pulumi.servers.keys import new_key_pair
from tests.http_server import Json, serving

OURS = Ownership("blue", 7, frozenset({"uid-1"}))


def balancer(identity=1, *, labels=None, networks=(), **more):
    named = {"hcloud-ccm/service-uid": f"uid-{identity}", **(labels or {})}
    return {
        "id": identity,
        "name": f"lb-{identity}",
        "labels": named,
        "private_net": [{"network": network} for network in networks],
        "services": [],
        **more,
    }


def service(name, kind, finalizers=()):
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": name, "finalizers": list(finalizers)},
        "spec": {"type": kind},
    }


MARKED = {"ccm-from-scratch/cluster": "blue"}


@dataclass
class FakeCloud:
    balancers: dict[int, dict] = field(default_factory=dict)  # by ID
    refusals: dict[int, str] = field(default_factory=dict)  # codes of errors, by ID of the load balancer
    locked: int = 0  # attempts that find a load balancer locked
    port: int = 0

    @property
    def cloud(self):
        return Cloud(f"http://127.0.0.1:{self.port}/v1", "t" * 64)

    def add(self, *balancers):
        self.balancers |= {item["id"]: item for item in balancers}

    def refuse(self, identity):
        if self.locked:
            self.locked -= 1
            return "locked"
        return self.refusals.get(identity)


@pytest.fixture
def site():
    fake = FakeCloud()

    class Asked(Json, BaseHTTPRequestHandler):
        def do_GET(self):
            paging = {"pagination": {"next_page": None}}
            status = 500 if "/certificates" in self.path else 200
            return self.answer(status, {"load_balancers": list(fake.balancers.values()), "meta": paging})

        def do_PUT(self):
            size = int(self.headers["Content-Length"])
            self._change(json.loads(self.rfile.read(size)))

        def do_DELETE(self):
            self._change(None)

        def _change(self, body):
            identity = int(self.path.rpartition("/")[2])
            code = fake.refuse(identity)
            if code:
                status = {"locked": 423, "protected": 423, "not_found": 404}.get(code, 500)
                return self.answer(status, {"error": {"code": code, "message": f"it is {code}"}})
            if body is None:
                del fake.balancers[identity]
                return self.answer(204, None)
            fake.balancers[identity] |= body
            return self.answer(200, {"load_balancer": fake.balancers[identity]})

    with serving(Asked) as port:
        fake.port = port
        yield fake


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.seconds = 0.0

    def patience(self):
        return Patience(now=lambda: self.seconds, sleep=self._sleep)

    def _sleep(self, seconds):
        self.seconds += seconds


def test_left_over_load_balancers_are_deleted_and_others_are_not(site):
    site.add(balancer(1), balancer(2), balancer(4, networks=[8]))
    reported = []
    clean_up_load_balancers(site.cloud, OURS, reported.append)
    assert set(site.balancers) == {2, 4}
    assert reported == [
        "deleted the load balancer lb-1 (1), because the cloud-controller-manager had not deleted it"
    ]


def test_what_was_adopted_stays_without_our_labels(site):
    adopted = {**MARKED, "ccm-from-scratch/adopted": "true", "team": "shop"}
    site.add(balancer(1, labels=adopted), balancer(5, labels=adopted, networks=[7]))
    reported = []
    clean_up_load_balancers(site.cloud, OURS, reported.append)
    assert {identity: item["labels"] for identity, item in site.balancers.items()} == {
        1: {"team": "shop"},
        5: {"team": "shop"},
    }
    assert "kept the load balancer lb-1 (1)" in reported[0]


def test_a_locked_load_balancer_is_waited_for(site):
    site.add(balancer(1))
    site.locked, clock = 5, Clock()
    clean_up_load_balancers(site.cloud, OURS, print, clock.patience())
    assert not site.balancers
    assert clock.seconds == 5


def test_a_lock_that_stays_is_named_after_a_minute(site):
    site.add(balancer(1))
    site.locked, clock = 10**6, Clock()
    with pytest.raises(InfraError, match=r"load balancer lb-1 \(1\): .* with 423: it is locked \(locked\)"):
        clean_up_load_balancers(site.cloud, OURS, print, clock.patience())
    assert 60 <= clock.seconds < 62


def test_a_protected_one_is_named_at_once_with_the_remedy_and_the_rest_goes(site):
    site.add(balancer(3, labels=MARKED, networks=[7]), balancer(1))
    site.refusals[3], clock = "protected", Clock()
    with pytest.raises(InfraError) as caught:
        clean_up_load_balancers(site.cloud, OURS, print, clock.patience())
    said = str(caught.value)
    assert "hcloud load-balancer disable-protection 3 delete." in said
    assert "hcloud load-balancer remove-label 3 hcloud-ccm/service-uid." in said
    assert "tttt" not in said
    assert set(site.balancers) == {3}
    assert clock.seconds == 0


def test_what_is_gone_meanwhile_is_no_failure(site):
    site.add(balancer(1))
    site.refusals[1] = "not_found"
    clean_up_load_balancers(site.cloud, OURS, print)


def test_what_is_perhaps_ours_is_left_and_asked_about(site):
    site.add(balancer(3, networks=[7]), balancer(1))
    with pytest.raises(InfraError, match=r"lb-3 \(3\): .* no label .* load-balancer delete 3\."):
        clean_up_load_balancers(site.cloud, OURS, print)
    assert set(site.balancers) == {3}


def test_certificates_that_cannot_be_listed_are_reported_and_stop_nothing(site):
    said = []
    whose = Ownership("blue", 1, frozenset({"uid"}))
    clean_up_certificates(site.cloud, whose, [], said.append, Patience(seconds=0))
    assert len(said) == 1
    assert said[0].startswith("could not list the certificates of the cluster: ")


def test_load_balancers_that_the_ccm_released_are_reported():
    """It has taken its labels away, so that nothing in the cloud says any more that it was ours."""
    adopted = {ADOPTED: "true"}
    before = [balancer(1), balancer(2), balancer(3, labels=adopted), balancer(6, labels=MARKED, networks=[7])]
    after = [{**before[0], "labels": {}}, before[1], {**before[2], "labels": {}}]
    ours = Ownership("blue", 7, frozenset({"uid-1", "uid-3"}))
    protected, given_back = released_meanwhile(ours, before, after)
    assert "lb-1 (1)" in protected
    assert "protected" in protected
    assert "lb-3 (3)" in given_back
    assert "adopted" in given_back


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        (["running", "running", "off"], None),
        (["stopping"], None),
        ([404], None),
        (["running"] * 99, "server 1, but the server is still running"),
    ],
)
def test_a_server_is_switched_off(answers, outcome):
    left, switched = list(answers), []

    class Asked(Json, BaseHTTPRequestHandler):
        def do_GET(self):
            status = left.pop(0)
            self.answer(404 if status == 404 else 200, {"server": {"status": status}})

        def do_POST(self):
            switched.append(self.path)
            self.answer(404 if left == [404] else 201, {"action": {}})

    with serving(Asked) as port:
        cloud = Cloud(f"http://127.0.0.1:{port}/v1", "x")
        if outcome:
            with pytest.raises(CloudError, match=outcome):
                power_off(cloud, "1", Clock().patience())
        else:
            power_off(cloud, "1", Clock().patience())
    assert switched == ["/v1/servers/1/actions/poweroff"]


class FakeCluster:
    """A shell on a control server with Services, and with a cloud-controller-manager that lets go of some."""

    host_key = ""

    def __init__(self, *services, running="1", lets_go=True):
        self.services = {item["metadata"]["name"]: item for item in services}
        self._running = running
        self._lets_go = lets_go

    async def run(self, script, *, what, timeout):
        if "get deployment" in script:
            return self._running
        if "delete service" in script:
            for line in script.splitlines()[1:]:
                assert "--namespace=shop " in line
                if self._lets_go:
                    del self.services[line.split()[-1]]
            return ""
        return json.dumps({"items": list(self.services.values())})


async def test_services_are_deleted_and_others_stay():
    former = service("former", "ClusterIP", ["service.kubernetes.io/load-balancer-cleanup"])
    cluster = FakeCluster(service("web", "LoadBalancer"), service("internal", "ClusterIP"), former)
    assert await delete_services(cluster, print) == ["web", "former"]
    assert list(cluster.services) == ["internal"]
    reported = []
    assert await delete_services(cluster, reported.append) == reported == []


async def test_a_missing_ccm_causes_no_wait():
    cluster = FakeCluster(service("web", "LoadBalancer"), running="", lets_go=False)
    reported = []
    assert await delete_services(cluster, reported.append) == ["web"]
    assert reported[-1].startswith("the cloud-controller-manager is not running, ")
    assert reported[-1].endswith(": shop/web")


@pytest.mark.looptime
async def test_a_ccm_that_does_not_let_go_is_left_after_a_minute():
    cluster = FakeCluster(service("web", "LoadBalancer"), lets_go=False)
    reported = []
    assert await delete_services(cluster, reported.append) == ["web"]
    assert reported[-1].endswith("within 60 s: shop/web")
    assert 60 <= asyncio.get_running_loop().time() < 62


async def test_a_dead_cluster_is_reported_and_does_not_stop_the_cleanup(monkeypatch):
    monkeypatch.setattr("ccm_pulumi.addons.load_balancer_cleanup.CONNECT_SECONDS", 0.2)
    reported = []
    host = Host("127.0.0.1", new_key_pair("")["private_key"])
    assert await delete_services_by_cluster([host], reported.append) == []
    assert "127.0.0.1" in reported[0]
