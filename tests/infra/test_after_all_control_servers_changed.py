import asyncio
import json
import urllib.parse
from http.server import BaseHTTPRequestHandler

import pytest
from control_servers import at_cloud, cloud_server, node
from fake_programs import programs

from ccm_pulumi.addons.load_balancer_cleanup import LoadBalancerCleanupProvider
from ccm_pulumi.addons.node_group import NodeGroupProvider
from ccm_pulumi.cluster.etcd_member_guard import leaving_server
from ccm_pulumi.cluster.peers import control_hosts
from ccm_pulumi.lib.cloud_api import Cloud
from ccm_pulumi.lib.ssh import Host
from tests.http_server import Json, serving

LABELS = {"cluster": "shop", "stack": "dev"}
FORMER = {"address": "203.0.113.1", "private_key": "key", "host_key": "", "server_id": "1"}
PROPS = {**FORMER, "others": {"control-2": {**FORMER, "server_id": "2"}}, "network_id": "7"}
CONTROL = {**LABELS, "role": "control"}


@pytest.fixture
def site():
    """A cloud whose servers a test names; without servers 1 and 2, which the state has."""
    there: dict[int, dict] = {}
    rebuilds: list[dict] = []

    class Asked(Json, BaseHTTPRequestHandler):
        def do_GET(self):
            url = urllib.parse.urlsplit(self.path)
            kind = url.path.rpartition("/")[2]
            if kind == "actions":
                return self.answer(200, {kind: rebuilds, "meta": {"pagination": {"next_page": None}}})
            if kind.isdigit() and int(kind) in there:
                return self.answer(200, {"server": there[int(kind)]})
            if kind.isdigit():
                return self.answer(404, {"error": {"code": "not_found", "message": "none"}})
            selector = dict(urllib.parse.parse_qsl(url.query)).get("label_selector", "")
            wanted = dict(part.split("==") for part in selector.split(",") if part)
            found = [item for item in there.values() if wanted.items() <= item["labels"].items()]
            content = {kind: found if kind == "servers" else []}
            return self.answer(200, {**content, "meta": {"pagination": {"next_page": None}}})

        def do_DELETE(self):
            del there[int(self.path.rpartition("/")[2])]
            self.answer(200, {"action": {}})

    def has(*servers, rebuilt=()):
        there.update({item["id"]: item for item in servers})
        rebuilds.extend({"id": one, "command": "rebuild_server", "status": "success"} for one in rebuilt)
        return there

    with serving(Asked) as port:
        yield has, f"http://127.0.0.1:{port}/v1"


def server(number, labels, **more):
    return cloud_server(number, name="shop", labels=labels, **more)


def addresses(site, **more):
    cloud = Cloud(site[1], "t" * 64)
    return [host.address for host in control_hosts(cloud, {**PROPS, "labels": LABELS, **more})]


def test_those_that_run_now_are_asked_and_no_other_clusters(site):
    site[0](
        server(21, CONTROL, public="203.0.113.21"),
        server(22, CONTROL, public="203.0.113.22", status="off"),
        server(23, {**LABELS, "role": "worker"}, public="203.0.113.23"),
        server(24, {**CONTROL, "stack": "prod"}, public="203.0.113.24"),
        server(25, CONTROL, public="203.0.113.25", places={8: "10.0.0.25"}),
    )
    assert addresses(site) == ["203.0.113.21"]
    assert addresses(site, labels=None) == []
    # who had one control server has another cluster now
    assert addresses(site, others={}) == []


def jump_of(site, number, nat, rebuilt, **jump):
    """Address and host key of the jump host to the only private control server that runs."""
    servers = server(number, CONTROL, public=""), server(5, {**LABELS, "role": "nat"}, public=nat)
    site[0](*servers, rebuilt=rebuilt)
    jump = {"address": "203.0.113.5", "host_key": "former", **jump}
    state = {**PROPS, "labels": LABELS, "address": "10.0.0.21", "jump": jump}
    (host,) = control_hosts(Cloud(site[1], "t" * 64), state)
    assert host.address == "10.0.0.21"
    return host.jump.address, host.jump.host_key


@pytest.mark.parametrize("number", [1, 21])  # a control server in the state, and one that replaced it
@pytest.mark.parametrize(
    ("nat", "rebuilt", "expected"),
    [
        ("203.0.113.5", (), ("203.0.113.5", "former")),
        ("203.0.113.5", (7,), ("203.0.113.5", None)),
        ("203.0.113.6", (), ("203.0.113.6", None)),
    ],
)
def test_private_control_servers_are_reached_by_the_current_nat_server(site, number, nat, rebuilt, expected):
    assert jump_of(site, number, nat, rebuilt) == expected


def test_a_leaving_control_server_and_its_peers_are_reached_by_the_current_nat_server(site):
    controls = (server(number, CONTROL, public="", places={7: f"10.0.0.{number}"}) for number in (20, 21))
    site[0](*controls, server(5, {**LABELS, "role": "nat"}, public="203.0.113.5"), rebuilt=[7])
    state = {**PROPS, "server_id": "20", "private_ip": "10.0.0.20", "member": {"node": "n", "labels": LABELS}}
    state |= {"address": "10.0.0.20", "jump": {"address": "203.0.113.5", "host_key": "former"}}
    leaving, (peer,) = leaving_server(Cloud(site[1], "t" * 64), state, 60)
    assert (peer.server_id, peer.jump) == ("21", leaving.host.jump)
    assert leaving.host.jump == Host("203.0.113.5", "key")


def test_the_users_own_gateway_keeps_its_host_key(site, tmp_path, pair):
    (tmp_path / "key").write_text(pair["private_key"])
    found = jump_of(site, 1, "203.0.113.6", (7,), key_file=f"{tmp_path}/key")
    assert found == ("203.0.113.5", "former")


@pytest.fixture
def k3s(tmp_path, monkeypatch, host):
    """A ``k3s`` of the control server on loopback, with a Service; gives what was said to it."""
    metadata = {"namespace": "web", "name": "shop", "uid": "u-1"}
    services = {"items": [{"metadata": metadata, "spec": {"type": "LoadBalancer"}}]}
    (tmp_path / "services").write_text(json.dumps(services))
    (tmp_path / "node").write_text(json.dumps(node("shop-30")))
    k3s = f"""echo "$*" >> {tmp_path}/log
case "$*" in
  *"get deployment ccm-from-scratch"*) echo 1 ;;
  *"get deployment "*) ;;
  *"get services"*) cat {tmp_path}/services ;;
  *"delete service"*) echo '{{"items": []}}' > {tmp_path}/services ;;
  *"get node "*) cat {tmp_path}/node ;;
  *"get p"*) echo '{{"items": []}}' ;;
esac"""
    monkeypatch.setenv("PATH", programs(tmp_path, k3s=k3s))
    return (tmp_path / "log").read_text


async def delete(provider, site, pair, **props):
    everything = {**PROPS, "private_key": pair["private_key"], "labels": LABELS, **props}
    await asyncio.to_thread(at_cloud(provider, site[1]).delete, "", everything)


async def test_services_are_deleted_by_the_control_servers_that_there_are(site, pair, k3s):
    site[0](server(21, CONTROL))
    await delete(LoadBalancerCleanupProvider(), site, pair, cluster="shop", generation="g")
    assert "delete service --wait=false --ignore-not-found --namespace=web shop" in k3s()


async def test_autoscaled_servers_are_drained_by_the_control_servers_that_there_are(site, pair, k3s):
    there = site[0](server(21, CONTROL), server(30, {"hcloud/node-group": "shop-burst"}))
    await delete(NodeGroupProvider(), site, pair, group="shop-burst", drain_seconds=5)
    assert "cordon shop-30" in k3s()
    assert [*there] == [21]
