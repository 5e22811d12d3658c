import json
import shutil
import subprocess

import pytest
from control_servers import DYNAMIC, of
from fake_programs import programs, sh
from hypothesis import given
from hypothesis import strategies as st

from ccm.hetzner.server_to_instance import _DATACENTERS
from ccm_pulumi.addons.autoscaler import MAX_USER_DATA, ZONES, cluster_config, user_data_problems
from ccm_pulumi.addons.autoscaler import arguments as command_line
from ccm_pulumi.addons.node_group import is_wanted, remove_servers, scales
from ccm_pulumi.cluster.k3s_scripts import choose_server, self_joining_script
from ccm_pulumi.config.k3s import Release
from ccm_pulumi.config.pools import parse_pools
from ccm_pulumi.lib.cloud_api import Cloud, Patience, call
from ccm_pulumi.lib.errors import NodeGroupError
from hetzner_emulator.testing.cloud import HetznerCloud
from tests.infra.infra_settings import configured, problems_of, read_settings

BURST = {"name": "burst", "max": 5, "serverType": "cpx32", "taints": ["dedicated=burst:NoSchedule"]}


def config_of(settings, addresses=("10.0.0.2",), token="TOKEN", installed=()):
    return json.loads(cluster_config(settings, list(addresses), token, list(installed)))


def declared_config(registered):
    (config,) = [item for item in registered if item.name == "autoscaler-config"]
    return json.loads(config.inputs["stringData"]["cluster-config.json"])


def script_of(config):
    return config["nodeConfigs"]["ccm-from-scratch--burst"]["cloudInit"]


def scaled(defaults, *pools, **more):
    return configured(defaults, **{"cloudProviderName": "hcloud", "pools": json.dumps(pools), **more})


def test_a_pool_with_bounds_has_no_servers_of_this_program(defaults):
    settings = read_settings(scaled(defaults, {"name": "a", "count": 2}, BURST))
    assert [server.role for server in settings.servers] == ["control", "a-1", "a-2"]
    assert settings.workers == 7  # ranges and network have room for all that there can be


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"count": 1}, "count"),
        ({"fallbacks": [{"location": "nbg1"}]}, "fallbacks"),
        ({"placementGroup": False}, "placementGroup"),
        ({"maxUnavailable": 2}, "maxUnavailable"),
        ({"firewall": [{"protocol": "tcp", "port": 1, "sources": "any"}]}, "firewall"),
        ({"max": None, "min": 1}, "max"),
        ({"name": "eu--burst"}, "name"),
    ],
)
def test_what_such_a_pool_cannot_have_is_named(defaults, more, key):
    assert set(problems_of(scaled(defaults, {**BURST, **more}))) == {f"pools[0].{key}"}


def test_what_it_needs_of_the_stack_is_named(defaults):
    said = problems_of(
        scaled(defaults, BURST, cloudProviderName="ccm-from-scratch", kubeconfigPath="Pulumi.yaml")
    )
    assert set(said) == {"pools[0].max", "kubeconfigPath"}
    assert "ccm-from-scratch:pools[0].max. To" in said["kubeconfigPath"]
    images = problems_of(scaled(defaults, BURST, {"name": "b", "max": 1, "image": "debian-12"}))
    assert "only one image" in images["pools"]


@given(bounds=st.tuples(st.integers(-1, 101), st.integers(-1, 101)))
def test_bounds_are_read_or_refused(bounds):
    (pool,), problems = parse_pools([{"name": "a", "min": bounds[0], "max": bounds[1]}], "pools")
    good = 0 <= bounds[0] <= bounds[1] and 1 <= bounds[1] <= 99
    assert not problems if good else problems
    assert not good or (pool.min, pool.max_size) == bounds


def test_the_command_line_and_the_file_name_the_same_groups(defaults):
    settings = read_settings(scaled(defaults, BURST, {"name": "b", "min": 1, "max": 2}))
    groups = [word.rpartition(":")[2] for word in command_line(settings) if word.startswith("--nodes=")]
    file = config_of(settings)
    assert groups == ["ccm-from-scratch--burst", "ccm-from-scratch--b"]
    assert set(groups) == set(file["nodeConfigs"])
    assert "--nodes=0:5:cpx32:fsn1:ccm-from-scratch--burst" in command_line(settings)
    assert file["nodeConfigs"][groups[0]]["taints"] == [
        {"key": "dedicated", "value": "burst", "effect": "NoSchedule"}
    ]


def test_what_the_autoscaler_expects_of_a_node_is_what_comes(defaults):
    settings = read_settings(scaled(defaults, {**BURST, "labels": {"disk": "fast"}}))
    group = config_of(settings)["nodeConfigs"]["ccm-from-scratch--burst"]
    assert group["labels"] == {"disk": "fast", "topology.kubernetes.io/zone": "fsn1-dc14"}
    assert "--node-label=hcloud/node-group=ccm-from-scratch--burst" in group["cloudInit"]
    assert ZONES == _DATACENTERS


@pytest.mark.parametrize(("network", "subnet"), [("", None), ("4711", "10.0.0.0/24")])
def test_servers_come_into_the_stacks_subnet_of_somebodys_network(defaults, network, subnet):
    settings = read_settings(scaled(defaults, BURST, importNetwork=network))
    assert config_of(settings).get("defaultSubnetIPRange") == subnet


@pytest.mark.parametrize("addresses", [["10.0.0.2"], ["10.0.0.2", "10.0.0.3", "10.0.0.4"]])
@pytest.mark.parametrize("cni", ["native", "cilium"])
def test_what_a_server_begins_with_is_a_script_that_hetzner_takes(defaults, cni, addresses):
    settings = read_settings(scaled(defaults, BURST, cni=cni))
    script = script_of(config_of(settings, addresses, "TOK'EN"))
    assert script.startswith("#!/bin/sh\n")
    assert len(script.encode()) < MAX_USER_DATA
    subprocess.run([shutil.which("sh") or "sh", "-n"], input=script, text=True, check=True, timeout=30)
    assert ("pod-network" in script) is (cni == "native")
    assert "K3S_TOKEN='TOK'\"'\"'EN'" in script


@pytest.mark.parametrize(
    ("installed", "asked"),
    [
        (["v1.36.2+k3s1"], "INSTALL_K3S_VERSION=v1.36.2+k3s1"),
        (["v1.36.3+k3s1", "v1.36.2+k3s1", None], "INSTALL_K3S_VERSION=v1.36.2+k3s1"),
        ([None], "INSTALL_K3S_CHANNEL=stable"),
    ],
)
def test_no_server_gets_a_newer_k3s_than_the_control_servers(defaults, installed, asked):
    settings = read_settings(scaled(defaults, BURST, k3sChannel="stable", k3sVersion=""))
    assert asked in script_of(config_of(settings, installed=installed))


def test_the_program_lets_servers_join_by_any_control_server(declared_with):
    registered = declared_with(cloudProviderName="hcloud", pools=json.dumps([BURST]), controlCount="3")
    script = script_of(declared_config(registered))
    addresses = [item.inputs["private_ip"] for item in of(registered, f"{DYNAMIC}K3sServer").values()]
    assert len(addresses) == 3
    assert f"for server in {' '.join(addresses)}; do" in script


@pytest.mark.parametrize("public", [True, False])
def test_servers_of_a_pool_have_public_addresses_as_it_says(declared_with, public):
    pools = json.dumps([{**BURST, "publicIpv4": public}])
    registered = declared_with(cloudProviderName="hcloud", pools=pools)
    script = script_of(declared_config(registered))
    subprocess.run([shutil.which("sh") or "sh", "-n"], input=script, text=True, check=True, timeout=30)
    assert ("--node-external-ip" in script) is public
    # what one has not, nobody is asked for
    assert ("/metadata/public-ipv4" in script) is public
    assert ("ip -4 route add default via 10.0.0.1" in script) is not public
    scaler = of(registered, "kubernetes:apps/v1:Deployment")["autoscaler"]
    (container,) = scaler.inputs["spec"]["template"]["spec"]["containers"]
    given = {item["name"]: item.get("value") for item in container["env"]}
    assert ("HCLOUD_FIREWALL" in given) is public
    said = {name: given.get(f"HCLOUD_PUBLIC_{name}") for name in ("IPV4", "IPV6")}
    assert said == dict.fromkeys(("IPV4", "IPV6"), None if public else "false")


def test_pools_with_bounds_are_public_or_not_together(defaults):
    pools = BURST, {"name": "b", "max": 1, "publicIpv4": False}
    assert "only one value" in problems_of(scaled(defaults, *pools))["pools"]


# What each control server answers, by its address; who is not named does not.
@pytest.mark.parametrize(
    ("said", "chosen"),
    [
        ({"10.0.0.2": "401"}, "10.0.0.2"),
        ({"10.0.0.2": "503", "10.0.0.3": "200"}, "10.0.0.3"),
        ({"10.0.0.4": "401"}, "10.0.0.4"),
        ({"10.0.0.3": "503"}, "10.0.0.2"),
    ],
)
def test_a_server_joins_by_one_that_is_ready(tmp_path, said, chosen):
    answers = "".join(f"*/{address}:6443/*) printf {code} ;; " for address, code in said.items())
    curl = f'case "$*" in {answers}*) printf 000; exit 7 ;; esac'
    path = programs(tmp_path, curl=curl, sleep="")
    script = f"set -eu\n{choose_server(['10.0.0.2', '10.0.0.3', '10.0.0.4'])}\nprintenv K3S_URL"
    assert sh(script, path).stdout.strip() == f"https://{chosen}:6443"


def deployment(*groups):
    words = ["./cluster-autoscaler", *(f"--nodes=0:5:cpx22:fsn1:{group}" for group in groups)]
    return {"metadata": {}, "spec": {"template": {"spec": {"containers": [{"command": words}]}}}}


def test_whether_a_group_is_still_scaled():
    assert is_wanted(deployment("blue--a", "blue--b"), "blue--b")
    assert not is_wanted(deployment("blue--a"), "blue--b")
    assert not is_wanted(deployment("not-blue--b"), "blue--b")
    assert not is_wanted(None, "blue--b")
    assert not is_wanted({**deployment("blue--b"), "metadata": {"deletionTimestamp": "now"}}, "blue--b")
    pod = deployment("blue--b")["spec"]["template"]["spec"]
    assert scales(pod, "blue--b")
    assert not scales({"containers": [{}]}, "blue--b")


@pytest.fixture
def api(hetzner_cloud: HetznerCloud) -> Cloud:
    return Cloud(hetzner_cloud.endpoint, hetzner_cloud.token)


def make_network(api, name):
    subnet = {"type": "cloud", "network_zone": "eu-central", "ip_range": "10.0.0.0/24"}
    body = {"name": name, "ip_range": "10.0.0.0/8", "subnets": [subnet]}
    return call(api, "POST", "/networks", body)["network"]["id"]


def make_server(api, name, group, network):
    body = {
        "name": name,
        "server_type": "cpx22",
        "image": "ubuntu-24.04",
        "location": "fsn1",
        "labels": {"hcloud/node-group": group},
        "networks": [network] if network else [],
    }
    return call(api, "POST", "/servers", body)["server"]["id"]


def test_servers_of_the_group_go_and_those_of_others_stay(api):
    ours, theirs = make_network(api, "ours"), make_network(api, "theirs")
    made = [make_server(api, f"blue-burst-{number}", "blue-burst", ours) for number in range(2)]
    make_server(api, "another-network", "blue-burst", theirs)
    make_server(api, "another-group", "blue-burst-2", ours)
    late = make_server(api, "not-yet-attached", "blue-burst", None)
    guarded = f"/servers/{made[0]}/actions/change_protection"
    call(api, "POST", guarded, {"delete": True, "rebuild": True})
    with pytest.raises(NodeGroupError, match=r"servers are left: blue-burst-0 .*protect"):
        remove_servers(api, "blue-burst", ours, Patience(seconds=0))
    call(api, "POST", guarded, {"delete": False, "rebuild": False})
    with pytest.raises(NodeGroupError, match=r"servers are left: .*not-yet-attached"):
        remove_servers(api, "blue-burst", ours, Patience(seconds=0))
    call(api, "POST", f"/servers/{late}/actions/attach_to_network", {"network": ours})
    remove_servers(api, "blue-burst", ours)
    left = {server["name"] for server in call(api, "GET", "/servers")["servers"]}
    assert left == {"another-network", "another-group"}
    remove_servers(api, "blue-burst", ours)


def test_labels_that_make_too_much_user_data_are_named(defaults):
    labels = {f"team.example.com/{number:050}": "x" * 60 for number in range(300)}
    settings = read_settings(scaled(defaults, {"name": "a", "count": 1}, {**BURST, "labels": labels}))
    (problem,) = user_data_problems(settings)
    assert problem.key == "ccm-from-scratch:pools[1]"
    assert str(MAX_USER_DATA) in problem.allowed


_STUBS = {
    # fails, then answers; the installer that it brings fails, too
    "curl": """
case "$*" in
  *private-networks*) echo '- ip: 10.0.0.9' ;;
  *public-ipv4*) echo 203.0.113.9 ;;
  *) echo fetched >>log
     [ "$(grep -c fetched log)" -gt 1 ] || exit 7
     while [ "$1" != -o ]; do shift; done
     echo 'echo "installed $*" >>log; [ "$(grep -c installed log)" -gt 1 ]' >"$2" ;;
esac""",
    "ip": "echo '2: eth1 inet 10.0.0.9/32'",
    "systemctl": "echo started >>log",
    "sleep": "echo waited >>log",
}


def test_a_server_whose_installation_fails_repeats_it(tmp_path):
    path = programs(tmp_path, **_STUBS)
    release = Release("https://get.k3s.io", "", "v1.36.3+k3s1")
    script = self_joining_script(release, ["10.0.0.2"], "t", flags=["--x"])
    done = subprocess.run(
        ["sh", "-c", f"{script}\necho after >>log"], cwd=tmp_path, env={"PATH": path}, check=False, timeout=60
    )
    assert done.returncode == 0
    log = (tmp_path / "log").read_text().splitlines()
    assert [line.split()[0] for line in log] == [
        "fetched", "waited", "fetched", "installed", "waited", "fetched", "installed", "started", "after",
    ]  # fmt: skip
    assert "--node-external-ip=203.0.113.9" in log[-3]
