import base64
import hashlib
import ipaddress
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pulumi_plugins.errors import ProviderError
from pulumi_plugins.hcloud.api import Api, ApiError
from pulumi_plugins.hcloud.parts import LoadBalancerNetwork, LoadBalancerService, NetworkSubnet
from pulumi_plugins.hcloud.provider import delete_begun
from pulumi_plugins.hcloud.server import Server
from tests.pulumi_cloud import EmulatedCloud, lab_at
from tests.pulumi_lab import TOKEN, Lab
from tests.waiting import wait

pytestmark = pytest.mark.slow

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJPCSXlGG8jFWcEXUQ5tPMuEPaVmBTbL5k5FQkCoNcGE"
BASE = f"""
import pulumi_hcloud as h
E = os.environ.get
k = h.SshKey("k", name="k", public_key="{KEY}")
n = h.Network("n", name="net", ip_range=E("RANGE", "10.0.0.0/16"), labels={{"a": E("LABEL", "b")}})
N = n.id.apply(int)
s = h.NetworkSubnet("s", network_id=N, type="cloud", network_zone="eu-central", ip_range="10.0.1.0/24")
g = h.PlacementGroup("g", type="spread")
f = h.Firewall("f", rules=[h.FirewallRuleArgs(direction="in", protocol="tcp", port=E("PORT", "22"),
    source_ips=["0.0.0.0/0", "::/0"])])
w = h.Server("w", name="w", server_type=E("TYPE", "cpx22"), image="ubuntu-24.04", location="fsn1",
    ssh_keys=[k.id], labels={{"x": E("LABEL", "b")}}, user_data="#!/bin/sh",
    placement_group_id=g.id.apply(int),
    firewall_ids=[f.id.apply(int)] if E("WALL", "1") == "1" else None)
p = h.ServerNetwork("p", server_id=w.id.apply(int), subnet_id=s.id)
i = h.Server("i", server_type="cpx22", image="ubuntu-24.04", location="fsn1")
q = h.ServerNetwork("q", server_id=i.id.apply(int), network_id=N, ip="10.0.1.9", opts=O(depends_on=[s]))
"""


COLLECTIONS = (
    "servers", "networks", "ssh_keys", "placement_groups", "firewalls", "primary_ips", "load_balancers",
)  # fmt: skip


def everything(cloud: EmulatedCloud) -> dict[str, list[str]]:
    return {name: found for name in COLLECTIONS if (found := cloud.names(name))}


@pytest.mark.smoke
def test_a_network_with_servers_is_created_changed_and_deleted(hetzner: Lab, cloud: EmulatedCloud) -> None:
    hetzner.up(BASE)
    state = hetzner.resources()
    server = cloud.get(f"/servers/{state['w']['id']}")["server"]
    inline = cloud.get(f"/servers/{state['i']['id']}")["server"]
    assert server["server_type"]["name"] == "cpx22"
    assert server["public_net"]["firewalls"][0]["id"] == int(state["f"]["id"])
    assert server["placement_group"]["id"] == int(state["g"]["id"])
    assert inline["private_net"][0]["ip"] == "10.0.1.9"
    assert state["w"]["outputs"]["userData"] == base64.b64encode(hashlib.sha1(b"#!/bin/sh").digest()).decode()
    assert state["s"]["outputs"]["gateway"] == "10.0.0.1"
    assert state["p"]["id"] == f"{state['w']['id']}-{state['n']['id']}"
    assert re.fullmatch("g-.{7}", state["g"]["inputs"]["name"])

    assert "10 unchanged" in hetzner.up()
    assert "10 unchanged" in hetzner.run("preview", "--refresh").out
    assert hetzner.resources() == state

    out = hetzner.up(LABEL="c", TYPE="cpx32", PORT="80", WALL="0")
    assert "~ 3 updated" in out
    changed = cloud.get(f"/servers/{state['w']['id']}")["server"]
    assert changed["server_type"]["name"] == "cpx32"
    assert changed["status"] == "running"
    assert changed["labels"] == {"x": "c"}
    assert not changed["public_net"]["firewalls"]
    assert cloud.get(f"/firewalls/{state['f']['id']}")["firewall"]["rules"][0]["port"] == "80"
    assert cloud.get(f"/networks/{state['n']['id']}")["network"]["labels"] == {"a": "c"}

    assert hetzner.run("destroy", "--yes").status == 0
    assert everything(cloud) == {}


PRIVATE = """
import pulumi_hcloud as h
E = os.environ.get
n = h.Network("n", name="net", ip_range="10.0.0.0/16")
N = n.id.apply(int)
s = h.NetworkSubnet("s", network_id=N, type="cloud", network_zone="eu-central", ip_range="10.0.1.0/24")
kind = dict(server_type="cpx22", image="ubuntu-24.04", location="fsn1")
g = h.Server("g", name="g", **kind)
p = h.ServerNetwork("p", server_id=g.id.apply(int), subnet_id=s.id)
r = h.NetworkRoute("r", network_id=N, destination=E("TO", "0.0.0.0/0"), gateway=p.ip, opts=O(deleted_with=n))
w = h.Server("w", name="w", public_nets=[{"ipv4_enabled": False, "ipv6_enabled": False}],
    networks=[{"subnet_id": s.id}], opts=O(depends_on=[r], ignore_changes=["networks"]), **kind)
q = h.ServerNetwork("q", server_id=w.id.apply(int), subnet_id=s.id, opts=O(deleted_with=w))
"""


def test_a_server_without_public_addresses_starts_in_its_network(hetzner: Lab, cloud: EmulatedCloud) -> None:
    hetzner.up(PRIVATE)
    state = hetzner.resources()
    server = cloud.get(f"/servers/{state['w']['id']}")["server"]
    assert server["public_net"]["ipv4"] is server["public_net"]["ipv6"] is None
    assert server["status"] == "running"
    (place,) = server["private_net"]
    assert place["ip"] == state["q"]["outputs"]["ip"]
    assert ipaddress.ip_address(place["ip"]) in ipaddress.ip_network("10.0.1.0/24")
    assert state["w"]["outputs"]["ipv4Address"] == ""
    assert len(cloud.names("primary_ips")) == 2  # of the other one

    def routes() -> list[dict[str, str]]:
        return cloud.get(f"/networks/{state['n']['id']}")["network"]["routes"]

    gateway = state["p"]["outputs"]["ip"]
    assert routes() == [{"destination": "0.0.0.0/0", "gateway": gateway}]
    assert state["r"]["id"] == f"{state['n']['id']}-0.0.0.0/0"
    assert "8 unchanged" in hetzner.up()
    assert "8 unchanged" in hetzner.run("preview", "--refresh").out

    hetzner.up(TO="172.16.0.0/24")
    assert routes() == [{"destination": "172.16.0.0/24", "gateway": gateway}]
    path = f"/networks/{state['n']['id']}/actions/delete_route"
    cloud.send("POST", path, {"destination": "172.16.0.0/24", "gateway": gateway})
    hetzner.run("refresh", "--yes")
    hetzner.up(TO="172.16.0.0/24")
    assert routes() == [{"destination": "172.16.0.0/24", "gateway": gateway}]
    assert hetzner.run("destroy", "--yes").status == 0
    assert everything(cloud) == {}


PROTECTED = """
import pulumi_hcloud as h
E = os.environ.get
P = {"yes": True, "no": False}.get(E("PROTECT", ""))
n = h.Network("n", name="net", ip_range="10.0.0.0/16", delete_protection=P)
w = h.Server("w", name=E("NAME", "w"), server_type="cpx22", image="ubuntu-24.04", delete_protection=P,
    rebuild_protection=P)
"""


def protections(cloud: EmulatedCloud) -> list[bool]:
    (server,), (network,) = cloud.get("/servers")["servers"], cloud.get("/networks")["networks"]
    return [*server["protection"].values(), *network["protection"].values()]


def test_protection_is_switched_on_and_off(hetzner: Lab, cloud: EmulatedCloud) -> None:
    hetzner.up(PROTECTED, PROTECT="yes")
    assert protections(cloud) == [True] * 3
    assert "unchanged" in hetzner.up(PROTECT="yes")
    refused = hetzner.run("destroy", "--yes")
    assert refused.status != 0
    assert "protected" in refused.out + refused.err
    assert protections(cloud) == [True] * 3
    assert "~ 2 updated" in hetzner.up(PROTECT="no", NAME="v")
    assert protections(cloud) == [False] * 3
    assert cloud.names("servers") == ["v"]
    assert "unchanged" in hetzner.up(NAME="v")
    hetzner.up(PROTECT="yes")
    hetzner.up()
    assert protections(cloud) == [False] * 3

    # drift is repaired; like the official plugin, it also resets an input that the program doesn't set
    hetzner.up(PROTECT="yes")
    path = f"/servers/{hetzner.resources()['w']['id']}"
    cloud.send("POST", f"{path}/actions/change_protection", {"delete": False, "rebuild": False})
    cloud.send("POST", f"{path}/actions/enable_backup", {})
    hetzner.run("refresh", "--yes")
    assert "~ 1 updated" in hetzner.up(PROTECT="yes")
    assert protections(cloud) == [True] * 3
    assert cloud.get(path)["server"]["backup_window"] is None


def test_a_named_network_is_replaced_after_everything_in_it(hetzner: Lab, cloud: EmulatedCloud) -> None:
    hetzner.up(BASE)
    before = hetzner.resources()
    out = hetzner.up(RANGE="10.0.0.0/15")
    order = [line.split()[2] for line in out.splitlines() if "deleted original" in line]
    assert order[-1] == "n"
    assert set(order) >= {"p", "q", "s", "n"}
    after = hetzner.resources()
    assert after["n"]["id"] != before["n"]["id"]
    assert after["w"]["id"] == before["w"]["id"]
    assert cloud.names("networks") == ["net"]


def test_a_deleted_server_is_created_again_with_its_network(hetzner: Lab, cloud: EmulatedCloud) -> None:
    hetzner.up(BASE)
    before = hetzner.resources()
    cloud.send("DELETE", f"/servers/{before['w']['id']}")
    out = hetzner.run("refresh", "--yes").out
    assert "- 2 deleted" in out
    hetzner.up()
    after = hetzner.resources()
    assert after["w"]["id"] != before["w"]["id"]
    assert cloud.get(f"/servers/{after['w']['id']}")["server"]["private_net"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("h.Volume('v', size=10)", "the resource type 'hcloud:index/volume:Volume'"),
        ("h.get_network(name='n')", "Method not implemented"),
        ("h.Server('s', server_type='cpx22', image='debian-12', iso='x')", "the input 'iso' of hcloud:"),
        ("h.SshKey('k', public_key='nonsense')", "POST /ssh_keys: "),
        ("h.SshKey('k', public_key='x', opts=O(provider=h.Provider('p', token='x')))", "exactly 64"),
    ],
)
def test_error_messages(hetzner: Lab, body: str, error: str) -> None:
    out = hetzner.up("import pulumi_hcloud as h\n" + body, status=1)
    assert error in out


def test_an_unreachable_api(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"HCLOUD_ENDPOINT": "http://127.0.0.1:9/v1"})
    out = lab.up(BASE, status=1)
    assert "the Hetzner Cloud API at http://127.0.0.1:9/v1 can't be reached" in out
    assert "pending_operations" not in lab.state()


def signalled(lab: Lab, number: signal.Signals, when: Callable[[], object]) -> int:
    """Signal an `up` as soon as something is so; its exit status."""
    lab.program(BASE)
    process = lab.start("up", "--yes")
    wait(when, 200)
    process.send_signal(number)
    process.communicate(timeout=200)
    return process.returncode


@pytest.mark.parametrize(
    "kind",
    ["servers", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("networks", "firewalls"))],
)
def test_the_run_after_a_killed_one_continues(tmp_path: Path, slow_cloud: EmulatedCloud, kind: str) -> None:
    lab = lab_at(tmp_path, slow_cloud)
    signalled(lab, signal.SIGKILL, lambda: slow_cloud.names(kind))
    assert lab.heal() or kind != "servers"
    assert "pending_operations" not in lab.state()
    known = {item["id"] for item in lab.resources().values()}
    left = {str(one["id"]) for name in COLLECTIONS[:5] for one in slow_cloud.get(f"/{name}")[name]}
    assert left <= known
    lab.up()
    # outdated notes: the state has everything
    made = lab.state()["resources"]
    assert not any("stackTrace" in item for item in made), "_omit_stack_traces has no effect"
    notes = [{"type": "creating", "resource": item} for item in made]
    assert delete_begun({"resources": made, "pending_operations": notes}, lab.environment) == []
    assert "unchanged" in lab.up()
    assert lab.run("destroy", "--yes").status == 0
    assert everything(slow_cloud) == {}


NETWORK = """
import pulumi_hcloud as h
network = h.Network("n", name="n", ip_range="10.0.0.0/8", labels={"of": "lab"})
"""


@pytest.mark.parametrize("fault", [{"drop": "after"}, {"code": "server_error", "after": True}])
def test_a_resource_whose_answer_was_lost_is_found(hetzner: Lab, cloud: EmulatedCloud, fault) -> None:
    cloud.admin("POST", "/faults", {"path": "/networks", "times": 1, "method": "POST", **fault})
    hetzner.up(NETWORK)
    (made,) = cloud.get("/networks")["networks"]
    assert hetzner.resources()["n"]["id"] == str(made["id"])


def test_a_refused_resource_is_not_adopted(hetzner: Lab, cloud: EmulatedCloud) -> None:
    cloud.send("POST", "/networks", {"name": "n", "ip_range": "10.0.0.0/8", "labels": {"of": "lab"}})
    for _ in range(2):
        assert "name is already used" in hetzner.up(NETWORK, status=1)
        assert "pending_operations" not in hetzner.state()


def test_a_part_added_by_an_earlier_run_is_kept(slow_cloud: EmulatedCloud) -> None:
    network = slow_cloud.send("POST", "/networks", {"name": "n", "ip_range": "10.0.0.0/8"})["network"]["id"]
    api = Api(TOKEN, slow_cloud.endpoint, 0.05, exponential=False, sleep=lambda _: time.sleep(0.05))
    wanted = {"networkId": network, "type": "cloud", "networkZone": "eu-central", "ipRange": "10.0.1.0/24"}
    body = {"type": "cloud", "network_zone": "eu-central", "ip_range": "10.0.1.0/24"}
    slow_cloud.send("POST", f"/networks/{network}/actions/add_subnet", body)
    assert NetworkSubnet().create(api, wanted)["id"] == f"{network}-10.0.1.0/24"
    with pytest.raises(ApiError):
        NetworkSubnet().create(api, {**wanted, "networkZone": "us-east"})
    made = {"name": "b", "load_balancer_type": "lb11", "location": "fsn1"}
    balancer = slow_cloud.send("POST", "/load_balancers", made)["load_balancer"]["id"]
    api.settle(f"/load_balancers/{balancer}")
    wanted = {"loadBalancerId": balancer, "protocol": "tcp", "listenPort": 80, "destinationPort": 80}
    LoadBalancerService().create(api, wanted)
    # the killed run's program had another port, which can be changed
    assert LoadBalancerService().create(api, {**wanted, "destinationPort": 81})["destinationPort"] == 81
    # the program refuses to attach a load balancer that is attached
    place = {"loadBalancerId": balancer, "subnetId": f"{network}-10.0.1.0/24"}
    LoadBalancerNetwork().create(api, place)
    kind = "hcloud:index/loadBalancerNetwork:LoadBalancerNetwork"
    note = {"type": "creating", "resource": {"type": kind, "inputs": place}}
    at = {"HCLOUD_TOKEN": TOKEN, "HCLOUD_ENDPOINT": slow_cloud.endpoint}
    for deleted in ([f"the attachment {balancer}-{network}"], []):
        assert delete_begun({"pending_operations": [note]}, at) == deleted


def test_deleting_waits_for_an_earlier_deletion(cloud: EmulatedCloud) -> None:
    body = {"name": "s", "server_type": "cpx22", "image": "ubuntu-24.04", "location": "fsn1"}
    server = cloud.send("POST", "/servers", body)["server"]["id"]
    locked = {"method": "DELETE", "path": "/servers/{id}", "code": "locked", "times": 10}
    cloud.admin("POST", "/faults", locked)
    api = Api(TOKEN, cloud.endpoint, sleep=lambda _: None)
    Server().delete(api, str(server))
    assert cloud.names("servers") == []
    # staying locked without a running action is an error
    server = cloud.send("POST", "/servers", body)["server"]["id"]
    cloud.admin("POST", "/faults", {**locked, "times": 11})
    with pytest.raises(ApiError, match="locked"):
        Server().delete(api, str(server))


def test_a_resource_with_other_labels_is_not_adopted(tmp_path: Path, slow_cloud: EmulatedCloud) -> None:
    lab = lab_at(tmp_path, slow_cloud)
    signalled(lab, signal.SIGKILL, lambda: slow_cloud.names("servers"))
    server = slow_cloud.get("/servers")["servers"][0]
    slow_cloud.send("PUT", f"/servers/{server['id']}", {"labels": {"whose": "theirs"}})
    with pytest.raises(ProviderError, match="have the labels of this stack"):
        lab.heal()
    assert slow_cloud.get(f"/servers/{server['id']}")["server"]["labels"] == {"whose": "theirs"}


def test_ctrl_c_finishes_running_operations_and_saves_them(tmp_path: Path, slow_cloud: EmulatedCloud) -> None:
    lab = lab_at(tmp_path, slow_cloud)
    assert signalled(lab, signal.SIGINT, lambda: slow_cloud.names("servers")) == 1
    assert "pending_operations" not in lab.state()
    saved = [item for name, item in lab.resources().items() if name in ("w", "i")]
    assert len(saved) == len(slow_cloud.names("servers"))
    lab.up()
    assert len(slow_cloud.names("servers")) == 2


SMALL = {"name": "w", "serverType": "cpx22", "image": "debian-13", "location": "fsn1"}
LARGE = {**SMALL, "serverType": "cpx32"}


@pytest.fixture
def api(cloud: EmulatedCloud) -> Api:
    return Api(TOKEN, cloud.endpoint, 0.05, exponential=False)


def seen(cloud: EmulatedCloud, identity: str) -> tuple[str, str, int | None]:
    server = cloud.get(f"/servers/{identity}")["server"]
    return server["status"], server["server_type"]["name"], (server["placement_group"] or {}).get("id")


def group(cloud: EmulatedCloud, name: str) -> int:
    return cloud.send("POST", "/placement_groups", {"name": name, "type": "spread"})["placement_group"]["id"]


def refuse(cloud: EmulatedCloud, action: str) -> None:
    path = f"/servers/*/actions/{action}"
    cloud.admin("POST", "/faults", {"path": path, "code": "resource_unavailable", "times": 1})


def test_a_server_is_on_after_its_new_type_was_unavailable(cloud: EmulatedCloud, api: Api) -> None:
    made = Server().create(api, SMALL)
    refuse(cloud, "change_type")
    with pytest.raises(ProviderError, match="resource_unavailable"):
        Server().change(api, made["id"], SMALL, LARGE, ["serverType"])
    assert seen(cloud, made["id"]) == ("running", "cpx22", None)
    Server().change(api, made["id"], SMALL, LARGE, ["serverType"])
    assert seen(cloud, made["id"]) == ("running", "cpx32", None)


def test_a_server_that_a_killed_run_left_off_is_started(cloud: EmulatedCloud, api: Api) -> None:
    made = Server().create(api, SMALL)
    api.act(f"/servers/{made['id']}/actions/poweroff")
    api.act(f"/servers/{made['id']}/actions/change_type", {"server_type": "cpx32", "upgrade_disk": True})
    api.act(f"/servers/{made['id']}/actions/poweroff")
    Server().change(api, made["id"], SMALL, LARGE, ["serverType"])
    assert seen(cloud, made["id"]) == ("running", "cpx32", None)


def test_a_change_of_type_and_placement_group_is_resumed(cloud: EmulatedCloud, api: Api) -> None:
    first, second = group(cloud, "a"), group(cloud, "b")
    here, there = {**SMALL, "placementGroupId": first}, {**LARGE, "placementGroupId": second}
    keys = ["placementGroupId", "serverType"]
    made = Server().create(api, here)
    for action, left in (("add_to_placement_group", None), ("change_type", second)):
        refuse(cloud, action)
        with pytest.raises(ProviderError, match="resource_unavailable"):
            Server().change(api, made["id"], here, there, keys)
        assert seen(cloud, made["id"]) == ("running", "cpx22", left)
    Server().change(api, made["id"], here, there, keys)
    assert seen(cloud, made["id"]) == ("running", "cpx32", second)
    Server().change(api, made["id"], there, LARGE, ["placementGroupId"])
    assert seen(cloud, made["id"]) == ("running", "cpx32", None)
