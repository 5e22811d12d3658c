from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from infra.errors import SweepError
from infra.preflight import Cloud
from infra.remote import Host
from infra.sweep import (
    Ownership,
    delete_services,
    deletion_script,
    load_balancer_services,
    server_runs,
    sweep_cloud,
    sweep_services,
)

OURS = Ownership("blue", 7, frozenset({"uid-1"}))


def balancer(identity=1, networks=(), **labels):
    names = {"uid": "hcloud-ccm/service-uid", "cluster": "ccm-from-scratch/cluster"}
    return {
        "id": identity,
        "name": f"lb-{identity}",
        "labels": {names[key]: value for key, value in labels.items()},
        "private_net": [{"network": network} for network in networks],
    }


@pytest.mark.parametrize(
    ("load_balancer", "ours"),
    [
        (balancer(uid="uid-1"), True),
        (balancer(uid="uid-9", cluster="blue"), True),
        (balancer(uid="uid-9", networks=[7]), True),
        (balancer(uid="uid-9", networks=[8], cluster="green"), False),
        (balancer(uid="uid-9"), False),
        # a person's own, even in our network and with our label
        (balancer(cluster="blue", networks=[7]), False),
        (balancer(), False),
    ],
)
def test_only_what_a_ccm_made_for_us_is_ours(load_balancer, ours):
    assert OURS.owns(load_balancer) is ours


def service(name, kind, finalizers=()):
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": name, "finalizers": list(finalizers)},
        "spec": {"type": kind},
    }


def test_services_that_have_or_had_a_load_balancer():
    listing = {
        "items": [
            service("web", "LoadBalancer"),
            service("internal", "ClusterIP"),
            service("former", "ClusterIP", ["service.kubernetes.io/load-balancer-cleanup"]),
        ]
    }
    found = load_balancer_services(listing)
    assert [item["name"] for item in found] == ["web", "former"]
    assert "--namespace=shop web" in deletion_script(found)
    assert "internal" not in deletion_script(found)


@pytest.fixture
def cloud():
    """A cloud with load balancers; number 3 is protected."""
    there = {
        1: balancer(1, uid="uid-1"),
        2: balancer(2, uid="uid-2"),
        3: balancer(3, uid="uid-3", cluster="blue"),
        4: balancer(4),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path.startswith("/v1/servers/"):
                status = {"1": "running", "2": "off"}.get(self.path.rpartition("/")[2])
                return self._answer(200 if status else 404, {"server": {"status": status}})
            paging = {"pagination": {"next_page": None}}
            return self._answer(200, {"load_balancers": list(there.values()), "meta": paging})

        def do_DELETE(self):
            identity = int(self.path.rpartition("/")[2])
            if identity == 3:
                return self._answer(423, {"error": {"code": "protected"}})
            del there[identity]
            return self._answer(204, None)

        def _answer(self, status, content):
            body = b"" if content is None else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield Cloud(f"http://127.0.0.1:{server.server_port}/v1", "t" * 64), there
        server.shutdown()
        thread.join()


def test_left_over_load_balancers_are_deleted_and_others_are_not(cloud):
    where, there = cloud
    del there[3]
    told = []
    sweep_cloud(where, OURS, told.append)
    assert set(there) == {2, 4}
    assert told == ["deleted the load balancer lb-1 (1), which the cluster had left behind"]


def test_what_cannot_be_deleted_is_named_and_the_rest_goes(cloud):
    where, there = cloud
    with pytest.raises(SweepError, match=r"cost money:\nload balancer lb-3 \(3\): .*423") as caught:
        sweep_cloud(where, OURS, lambda _: None)
    assert "tttt" not in str(caught.value)
    assert set(there) == {2, 3, 4}


@pytest.mark.parametrize(("server_id", "runs"), [("1", True), ("2", False), ("3", False)])
def test_only_a_server_that_runs_is_worth_an_attempt(cloud, server_id, runs):
    assert server_runs(cloud[0], server_id) is runs


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
                if self._lets_go:
                    del self.services[line.split()[-1]]
            return ""
        return json.dumps({"items": list(self.services.values())})


async def test_services_are_deleted_and_others_stay():
    cluster = FakeCluster(service("web", "LoadBalancer"), service("internal", "ClusterIP"))
    told = []
    assert await delete_services(cluster, told.append) == ["web"]
    assert list(cluster.services) == ["internal"]
    assert told == ["deleting 1 Services of type LoadBalancer"]


async def test_without_services_nothing_is_said():
    told = []
    assert await delete_services(FakeCluster(service("internal", "ClusterIP")), told.append) == []
    assert told == []


async def test_nobody_waits_for_a_ccm_that_is_not_there():
    cluster = FakeCluster(service("web", "LoadBalancer"), running="", lets_go=False)
    told = []
    assert await delete_services(cluster, told.append) == ["web"]
    assert told[-1] == "the cloud-controller-manager has not been running: shop/web"


@pytest.mark.looptime
async def test_a_ccm_that_does_not_let_go_is_left_after_a_minute():
    cluster = FakeCluster(service("web", "LoadBalancer"), lets_go=False)
    told = []
    assert await delete_services(cluster, told.append) == ["web"]
    assert told[-1] == "the cloud-controller-manager has not let go of them within 60 s: shop/web"
    assert 60 <= asyncio.get_running_loop().time() < 62


async def test_a_dead_cluster_is_told_and_does_not_stop_the_sweep(monkeypatch):
    monkeypatch.setattr("infra.sweep.CONNECT_SECONDS", 0.2)
    from infra.keys import new_key_pair

    told = []
    host = Host("127.0.0.1", new_key_pair("")["private_key"])
    assert await sweep_services(host, told.append) == []
    assert "could not be asked" in told[0]
