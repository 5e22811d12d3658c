import json
import shutil
import subprocess
from ipaddress import IPv4Network

import asyncssh
import pytest
from control_servers import DYNAMIC, PROPS, of
from fake_programs import programs
from hypothesis import given
from hypothesis import strategies as st
from infra_settings import configured, problems_of, read_settings

from ccm.hetzner.servers import NODE
from ccm_pulumi.addons.load_balancer_cleanup import LoadBalancerCleanupProvider
from ccm_pulumi.addons.node_group import NodeGroupProvider
from ccm_pulumi.addons.security_updates import SecurityUpdatesProvider
from ccm_pulumi.cluster.drain_on_delete import DrainOnDeleteProvider
from ccm_pulumi.cluster.etcd_member_guard import EtcdMemberGuardProvider
from ccm_pulumi.cluster.k3s_flags import Addresses, addresses_of, server_flags
from ccm_pulumi.cluster.k3s_installation import K3sAgentProvider, K3sServerProvider
from ccm_pulumi.cluster.node_readiness_gate import NodeReadinessGateProvider
from ccm_pulumi.cluster.node_registration import NodeRegistrationProvider
from ccm_pulumi.cluster.peers import Peer
from ccm_pulumi.cluster.pod_network import PodNetworkProvider
from ccm_pulumi.cluster.ready_nodes import ReadyNodesProvider, ssh_command
from ccm_pulumi.lib.errors import GatewayKeyError, HostKeyError, UnreachableError
from ccm_pulumi.lib.ssh import Host, connect
from ccm_pulumi.servers.nat import private_script
from ccm_pulumi.servers.server import BootProvider, NatSetupProvider, host_of
from infra.ccm_image import ImportedImageProvider

PRIVATE = {"privateNodes": "true", "apiEndpoint": "load-balancer"}
WINDOW = {"days": ["sun"], "start": "02:00", "end": "04:00", "timeZone": "Europe/Berlin"}
NETWORK = IPv4Network("10.0.0.0/8")
SH = shutil.which("sh") or "sh"


def problems(defaults, **changes):
    return problems_of(configured(defaults, **changes))


@pytest.mark.parametrize("endpoint", ["server", "private-load-balancer"])
def test_private_control_servers_need_an_address_of_the_api(defaults, endpoint):
    said = problems(defaults, privateNodes="true", apiEndpoint=endpoint)
    assert list(said) == ["apiEndpoint"]
    assert ": use load-balancer, because " in said["apiEndpoint"]


def test_what_else_they_cannot_have_is_named(defaults):
    rules = [{"protocol": "tcp", "port": 443, "sources": "any"}]
    pools = [{"name": "a", "count": 1, "firewall": rules}]
    said = problems(defaults, **PRIVATE, pools=json.dumps(pools))
    assert "without public addresses" in said["pools[0].firewall"]
    public = json.dumps([{**pools[0], "publicIpv4": True}])
    assert read_settings(configured(defaults, **PRIVATE, pools=public))
    said = problems(defaults, pools=json.dumps([{"name": "a", "count": 1, "publicIpv4": "no"}]))
    assert said["pools[0].publicIpv4"].endswith("give true or false")


def test_the_subnet_has_room_for_the_nat_server(defaults):
    # eight addresses: two servers, a load balancer and three that are Hetzner's leave two
    more = {"subnetCidr": "10.0.0.0/29", "workerCount": "2"}
    assert read_settings(configured(defaults, **PRIVATE, **more))
    assert "and the NAT server" in problems(defaults, **PRIVATE, **{**more, "workerCount": "3"})["subnetCidr"]


def test_the_network_has_room_for_the_nat_server_and_every_control_server(defaults):
    full = {"subnetCidr": "10.0.0.0/24", "controlCount": "3"}
    assert read_settings(configured(defaults, **PRIVATE, **full, workerCount="96"))
    said = problems(defaults, **PRIVATE, **full, workerCount="97")["controlCount"]
    assert "101 servers, including 97 workers and the NAT server, but" in said
    assert read_settings(configured(defaults, **full, workerCount="97"))
    assert "including 98 workers, but" in problems(defaults, **full, workerCount="98")["controlCount"]


@given(private=st.booleans(), pools=st.lists(st.sampled_from([None, True, False]), max_size=4))
def test_a_pool_that_says_nothing_is_as_the_stack(defaults, private, pools):
    given_pools = [
        {"name": f"p{index}", "count": 1, **({} if one is None else {"publicIpv4": one})}
        for index, one in enumerate(pools)
    ]
    changes = {"pools": json.dumps(given_pools), **(PRIVATE if private else {})}
    settings = read_settings(configured(defaults, **changes))
    if pools:
        wanted = [(not private) if one is None else one for one in pools]
        assert [pool.public_ipv4 for pool in settings.worker_pools] == wanted
    assert settings.has_nat is (private or False in pools)


def test_only_the_nat_server_is_public_and_all_go_through_it(declared_with):
    registered = declared_with(**PRIVATE, workerCount="1", protect="true")
    servers = of(registered, "server:Server")
    assert set(servers) == {"nat", "control", "worker-1"}
    nowhere = [{"ipv4Enabled": False, "ipv6Enabled": False}]
    for role in ("control", "worker-1"):
        inputs = servers[role].inputs
        assert inputs["publicNets"] == nowhere
        assert inputs["networks"] == [{"subnetId": inputs["networks"][0]["subnetId"], "aliasIps": []}]
        assert "firewallIds" not in inputs
        # they come after the route, and go before it
        assert any(urn.endswith("NetworkRoute::nat") for urn in servers[role].options.dependencies)
    assert "publicNets" not in servers["nat"].inputs
    made = of(registered, ":ServerPlan")["servers"].inputs["servers"]
    assert {role: "image" in one["inputs"] for role, one in made.items()} == {
        "nat": False,
        "control": True,
        "worker-1": True,
    }
    assert servers["nat"].inputs["deleteProtection"]
    assert servers["nat"].inputs["labels"][NODE] == "not_a_node", "no kubelet may say that it is its"
    assert NODE not in servers["worker-1"].inputs["labels"]
    assert set(of(registered, ":Protection")) >= {"nat", "control"}

    (route,) = of(registered, "networkRoute:NetworkRoute").values()
    (attached,) = of(registered, "serverNetwork:ServerNetwork").values()
    assert attached.name == "nat"
    assert route.inputs["destination"] == "0.0.0.0/0"
    assert "nat" in of(registered, ":WayOut")

    ways = [
        way
        for item in registered
        if item.type.startswith(DYNAMIC)
        for way in (item.inputs, item.inputs.get("reached"), *(item.inputs.get("controls") or {}).values())
        if way and "address" in way and item.name != "nat"
    ]
    assert len(ways) > 10
    (nat,) = {json.dumps(way["jump"], sort_keys=True) for way in ways}
    assert set(json.loads(nat)) == {"address", "host_key"}
    assert all(way["address"].startswith("10.0.0.") for way in ways)


def test_another_type_leaves_the_nat_server_its_address(declared_with):
    there = ["nat", "control", "control-2", "control-3", "worker-1", "worker-2"]
    registered = declared_with(there, **PRIVATE, controlCount="3", osUpgrades=json.dumps(WINDOW))
    recreated = {name for name, item in of(registered, ":ServerState").items() if "types" not in item.inputs}
    assert recreated == {*there} - {"nat"}
    # who faces the Internet has security updates, too
    assert set(of(registered, ":SecurityUpdates")) == {*there}


def test_of_a_private_pool_alone_the_way_goes_by_the_nat_server(declared_with):
    pools = [{"name": "a", "count": 1, "publicIpv4": False}, {"name": "b", "count": 1}]
    boots = of(declared_with(pools=json.dumps(pools)), ":Boot")
    assert {name: "jump" in boot.inputs for name, boot in boots.items()} == {
        "nat": False,
        "control": False,
        "a-1": True,
        "b-1": False,
    }


def test_what_is_somebodys_of_an_imported_network_stays(declared_with):
    (network,) = of(declared_with(importNetwork="4711"), "network:Network").values()
    theirs = ["exposeRoutesToVswitch", "name", "labels", "deleteProtection"]
    assert network.options.ignoreChanges == theirs
    assert network.options.retainOnDelete
    assert of(declared_with(), "network:Network")["network"].options.ignoreChanges == theirs[:1]


def test_k3s_knows_no_public_address_of_such_a_server():
    props = {**PROPS, "address": "10.0.0.3", "private_ip": "10.0.0.3"}
    assert addresses_of(props) == Addresses("", "10.0.0.3")
    flags = server_flags(props)
    assert not [flag for flag in flags if flag.endswith("=") or "external-ip" in flag]


def test_properties_lead_through_the_jump():
    jump = {"address": "203.0.113.9", "host_key": "J"}
    host = host_of({"address": "10.0.0.3", "private_key": "K", "host_key": "H", "jump": jump})
    assert host == Host("10.0.0.3", "K", "H", jump=Host("203.0.113.9", "K", "J"))
    command = ssh_command(host)
    assert command.startswith(
        "ssh -F none -o IdentitiesOnly=yes -i .dev-env.STACK.ssh "
        "-o ProxyCommand='ssh -F none -o IdentitiesOnly=yes -i .dev-env.STACK.ssh -W %h:%p "
    )
    assert command.endswith("root@10.0.0.3")
    assert ssh_command(host.jump).endswith(" -i .dev-env.STACK.ssh root@203.0.113.9")


THROUGH = {"jump": {"address": "203.0.113.9", "host_key": "J"}}
THROUGH_ANOTHER = {"jump": {"address": "203.0.113.10", "host_key": "K"}}


# The first two show whether it leads there. The others read or delete with what the state has.
AFFECTED = [BootProvider, NatSetupProvider, K3sServerProvider, DrainOnDeleteProvider]
AFFECTED += [NodeRegistrationProvider, NodeGroupProvider, ReadyNodesProvider, LoadBalancerCleanupProvider]
AFFECTED += [EtcdMemberGuardProvider, K3sAgentProvider, ImportedImageProvider, PodNetworkProvider]
AFFECTED += [SecurityUpdatesProvider]


@pytest.mark.parametrize("provider", [NodeReadinessGateProvider, *AFFECTED])
def test_which_resources_change_behind_another_nat_server(provider):
    props = {**PROPS, "private_key": "P"}
    result = provider().diff("7", {**props, **THROUGH}, {**props, **THROUGH_ANOTHER})
    assert (result.changes, result.replaces) == (provider in AFFECTED, [])


def test_another_way_to_a_control_server_is_noted_and_its_k3s_runs_on():
    # nobody could be connected to: the key is none
    olds = {**PROPS, **THROUGH, "private_key": "P", "installed": "v1.35.4+k3s1", "joined": "10.0.0.2"}
    news = {**PROPS, **THROUGH_ANOTHER, "private_key": "P"}
    outs = K3sServerProvider().update("7", olds, news).outs
    assert outs == {**olds, **THROUGH_ANOTHER}


def test_another_control_server_is_reached_where_it_can_be():
    jump = Host("203.0.113.9", "")
    assert Peer("1", "c", "203.0.113.1", "10.0.0.1", True, jump).host("K") == Host("203.0.113.1", "K")
    private = Peer("1", "c", "", "10.0.0.1", True, jump)
    assert private.host("K") == Host("10.0.0.1", "K", jump=Host("203.0.113.9", "K"))
    assert not private.unreachable
    assert "no NAT server" in Peer("1", "c", "", "10.0.0.1", True).unreachable


@pytest.fixture
def own(tmp_path, pair):
    (tmp_path / "key").write_text(pair["private_key"])
    host_key = pair["public_key"].rpartition(" ")[0]
    return {"ssh": "198.51.100.7", "hostKey": host_key, "keyFile": f"{tmp_path}/key"}


def test_through_a_gateway_of_ones_own(declared_with, own, pair):
    changes = {**PRIVATE, "importNetwork": "4711", "gateway": json.dumps({**own, "user": "admin"})}
    registered = declared_with(**changes, workerCount="1")
    assert set(of(registered, "server:Server")) == {"control", "worker-1"}
    assert not of(registered, "networkRoute:NetworkRoute")
    boot = of(registered, ":Boot")["control"].inputs
    # the key itself is in no state
    assert pair["private_key"] not in json.dumps(boot)
    jump = host_of({**boot, "private_key": "K"}).jump
    key = pair["private_key"]
    assert jump == Host("198.51.100.7", key, own["hostKey"], "admin", key_file=own["keyFile"])
    assert Peer("1", "c", "", "10.0.0.1", True, jump).host("K").jump == jump
    command = ssh_command(Host("10.0.0.3", "K", jump=jump))
    assert f"-i {own['keyFile']} -W %h:%p admin@198.51.100.7'" in command


@pytest.mark.parametrize("change", [{"ssh": None}, {"ssh": "a b"}, {"port": "1"}, {"keyFile": "Pulumi.yaml"}])
def test_a_gateway_that_cannot_be_used_is_refused(defaults, own, change):
    given_gateway = {name: value for name, value in {**own, **change}.items() if value is not None}
    said = problems(defaults, **PRIVATE, importNetwork="4711", gateway=json.dumps(given_gateway))
    assert "Example: pulumi config set --path gateway.ssh" in said["gateway"]
    good = json.dumps(own)
    assert "set ccm-from-scratch:importNetwork" in problems(defaults, **PRIVATE, gateway=good)["gateway"]


def test_a_missing_key_is_reported_immediately(own, tmp_path):
    (tmp_path / "key").unlink()
    jump = {"address": "198.51.100.7", "host_key": "H", "key_file": own["keyFile"]}
    with pytest.raises(GatewayKeyError, match=r"key in .*gateway\.keyFile can't be used: .*No such file"):
        host_of({"address": "10.0.0.3", "private_key": "K", "jump": jump})


class Forwards(asyncssh.SSHServer):
    asked: list[str] = []  # noqa: RUF012 (one server at a time)

    def connection_requested(self, dest_host, dest_port, orig_host, orig_port):
        self.asked.append(dest_host)
        return True


@pytest.fixture
async def jump(pair, server, monkeypatch):
    """A host through which others are reached; it is at another address than they are."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    listener, _ = server
    Forwards.asked.clear()
    async with asyncssh.listen(
        "127.0.0.2",
        0,
        server_factory=Forwards,
        server_host_keys=[key],
        authorized_client_keys=asyncssh.import_authorized_keys(pair["public_key"]),
    ) as forwarding:
        ports = {"127.0.0.1": listener.get_port(), "127.0.0.2": forwarding.get_port()}
        real = asyncssh.connect
        monkeypatch.setattr(
            asyncssh, "connect", lambda address, **options: real(address, ports[address], **options)
        )
        yield Host("127.0.0.2", pair["private_key"], key.export_public_key().decode().strip())


async def test_a_server_is_reached_through_another_one(jump, server):
    host = Host("127.0.0.1", jump.private_key, server[1], jump=jump)
    async with connect(host) as shell:
        assert await shell.run("echo here", what="echo", timeout=60) == "here\n"
        assert shell.host_key == server[1]
    assert Forwards.asked == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("key_file", "remedy"), [("", "pulumi up"), ("gateway.pem", "ccm-from-scratch:gateway.hostKey")]
)
async def test_an_unknown_host_key_is_reported(jump, server, key_file, remedy):
    stranger = Host(jump.address, jump.private_key, server[1], key_file=key_file)
    with pytest.raises(HostKeyError, match=rf"server at 127\.0\.0\.2 has changed.*{remedy}"):
        async with connect(Host("127.0.0.1", jump.private_key, server[1], jump=stranger), timeout=30):
            pass


async def test_who_is_missing_on_the_way_is_named(pair, unused_tcp_port_factory, monkeypatch):
    port, real = unused_tcp_port_factory(), asyncssh.connect
    monkeypatch.setattr(asyncssh, "connect", lambda address, **options: real(address, port, **options))
    host = Host("127.0.0.1", pair["private_key"], jump=Host("127.0.0.2", pair["private_key"]))
    said = r"to 127\.0\.0\.1 within 0 s: the gateway 127\.0\.0\.2 does not answer: "
    with pytest.raises(UnreachableError, match=said):
        async with connect(host, timeout=0):  # one attempt is enough to know
            pass


@pytest.mark.parametrize(
    ("there", "added"), [("", "-4 route add default via 10.0.0.1"), ("default via 10.9.9.9 dev ens10", "")]
)
def test_a_default_route_is_given_where_there_is_none(tmp_path, there, added):
    body = private_script(NETWORK).split("<<'END'\n")[1].split("END\n")[0]
    ip = f'case "$*" in *show*) echo "{there}" ;; *) echo "$*" > {tmp_path}/said ;; esac'
    environment = {"PATH": programs(tmp_path, ip=ip)}
    subprocess.run([SH, "-s"], input=body, env=environment, text=True, check=True, timeout=60)
    said = tmp_path / "said"
    assert (said.read_text().strip() if said.exists() else "") == added
