import pytest
import yaml

from ccm_pulumi.lib.files import ROOT
from hetzner_emulator.address import past_proxies
from sandbox import cluster
from sandbox.commands import up
from sandbox.commands.load import reach
from sandbox.commands.ssh import choose, require_machines
from sandbox.daemon import Running
from sandbox.dev import COMMANDS, parse
from sandbox.environment import shell_lines
from sandbox.errors import SandboxError
from sandbox.hollow import ccm
from sandbox.images.send import Answer, Result
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.remote import Way, ssh, ways
from tests.child_processes import run, script

PUBLIC, PRIVATE = Way("203.0.113.4"), Way("10.0.0.5", jump="203.0.113.9")
SERVERS = {"dev-control": PUBLIC, "dev-worker-1": PRIVATE, "dev-worker-11": None}


def test_finding_a_machine():
    for name, way in (("control", PUBLIC), ("dev-worker-1", PRIVATE), ("1", PRIVATE)):
        assert choose(SERVERS, name) == way
    for name, says in (("nope", "no server matches 'nope'; servers: dev-control"), ("11", "isn't running")):
        with pytest.raises(SandboxError, match=says):
            choose(SERVERS, name)
    require_machines(Running(1, "machines"))
    with pytest.raises(SandboxError, match="servers exist only as API records"):
        require_machines(Running(1, "hollow"))


def listed(name, role, public="", private="", status="running"):
    return {
        "id": 7,
        "name": name,
        "status": status,
        "labels": {"role": role},
        "public_net": {"ipv4": {"ip": public} if public else None},
        "private_net": [{"ip": private}] if private else [],
    }


def test_ssh_through_the_nat_server(site):
    control, nat = listed("control", "control", private="10.0.0.5"), listed("nat", "nat", "203.0.113.9")
    assert ways(site, [control, nat]) == {"control": PRIVATE, "nat": Way("203.0.113.9")}
    words = ssh(site, PRIVATE, "BatchMode=yes")
    assert words[-1] == "root@10.0.0.5"
    (proxy,) = [word for word in words if word.startswith("ProxyCommand=")]
    assert proxy.endswith(" -W %h:%p root@203.0.113.9")
    assert f" -i {words[words.index('-i') + 1]} " in proxy
    assert "BatchMode=yes" in proxy
    # an agent's keys and a person's configuration are left out, on the way as well
    for command in (" ".join(words), proxy):
        assert all(part in command for part in ("-F none", "IdentitiesOnly=yes", "IdentityAgent=none"))


@pytest.mark.parametrize("private", ["10.0.0.5", ""])
def test_ssh_in_the_namespace_of_a_machine(site, private):
    server = listed("control", "control", private=private)
    (way,) = ways(site, [server]).values()
    words = ssh(site, way)
    assert words[:3] == ["nsenter", f"--net=/run/netns/ccmfs-{site.id}-srv-7", "ssh"]
    assert words[-1] == "root@127.0.0.1"
    for status in ("off", "initializing", "starting"):
        assert ways(site, [server | {"status": status}]) == {"control": None}


def test_machines_for_images(site):
    servers = [
        listed("public", "worker", "203.0.113.4"),
        listed("private", "worker", private="10.0.0.5"),
        listed("starting", "worker", status="starting"),
        listed("off", "worker", "203.0.113.5", status="off"),
    ]
    logins, others = reach(site, servers)
    assert {name: words[-1] for name, words in logins.items()} == {
        "public": "root@203.0.113.4",
        "private": "root@127.0.0.1",
    }
    assert others == {"starting": Answer(Result.UNREACHED), "off": Answer(Result.OFF)}


def test_exports_are_quoted():
    lines = [*shell_lines({"A": "it's; $HOME", "PATH": "/x y"}), 'printf "%s\\n%s" "$A" "$PATH"']
    said = run(["sh", "-c", "\n".join(lines)], env={"PATH": "/bin"}, check=True)
    assert said.stdout.splitlines() == ["it's; $HOME", "/x y:/bin"]


def test_no_proxy_for_local_addresses(site):
    assert past_proxies({"NO_PROXY": "corp.example"}, site.public_range) == {}
    set_up = {"https_proxy": "http://proxy.example:3128", "NO_PROXY": "corp.example, 127.0.0.1"}
    found = past_proxies(set_up, site.public_range)
    assert found["NO_PROXY"] == found["no_proxy"]
    hosts = found["NO_PROXY"].split(",")
    assert hosts[:3] == ["corp.example", "127.0.0.1", "localhost"]
    assert set(hosts) >= {str(address) for address in site.public_range}
    assert past_proxies(set_up | found, site.public_range) == found


def test_options_that_differ_from_the_running_sandbox(tmp_path):
    running = Running(7, "machines", "instant", "")
    up.refuse_other_ways(None, "realistic", tmp_path)
    up.refuse_other_ways(running, None, None)
    up.refuse_other_ways(running, "instant", None)
    with pytest.raises(SandboxError, match=r"--actions realistic: .*process 7\) has the value instant\."):
        up.refuse_other_ways(running, "realistic", None)
    with pytest.raises(SandboxError, match=f"--k3s {tmp_path}: .* the value none"):
        up.refuse_other_ways(running, None, tmp_path)
    up.refuse_other_ways(Running(7, "machines", "instant", str(tmp_path)), None, tmp_path)


def test_variables_of_the_ccm_of_hollow_nodes(monkeypatch, site):
    monkeypatch.setenv("HCLOUD_TOKEN", "an older one")
    monkeypatch.setenv("LANG", "C")
    variables = ccm.variables(site)
    assert "HCLOUD_TOKEN" not in variables
    assert variables["HCLOUD_TOKEN_FILE"] == str(site.state / "token")
    assert variables["LANG"] == "C"
    # the names that the Pulumi program gives cluster and network, and looks for when it is destroyed
    defaults = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]
    name = defaults["ccm-from-scratch:clusterName"]["default"]
    assert (variables["CCM_CLUSTER_ID"], variables["HCLOUD_NETWORK"]) == (name, name)


def test_misuse_ends_with_2(capsys):
    with pytest.raises(SystemExit, match="2"):
        parse(["upp"])
    assert "upp" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        parse([])
    shown = capsys.readouterr().err
    assert all(f"\n    {name} " in shown or f"\n    {name}\n" in shown for name in COMMANDS)


NODE = {
    "metadata": {"name": "n", "labels": {"topology.kubernetes.io/region": "eu-central"}},
    "spec": {"providerID": "ccm-from-scratch://1", "taints": [{"key": "other", "effect": "NoSchedule"}]},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "ExternalIP", "address": ip} for ip in ("203.0.113.4", "2001:db8::1")],
    },
}


def test_reading_a_node():
    state = cluster.node_state(NODE)
    assert (state.ready, state.initialized, state.external_ip) == (True, True, "203.0.113.4")
    assert state.region == "eu-central"
    taints = [{"key": cluster.UNINITIALIZED_TAINT, "effect": "NoSchedule"}]
    for spec in ({}, {"providerID": "x://1", "taints": taints}):
        assert not cluster.node_state({**NODE, "spec": spec}).initialized


def test_a_kubectl_that_does_not_end(site, tmp_path):
    site.kubeconfig.touch()
    built = Toolchain(tmp_path / "built")
    script(built.bin / "kubectl", "exec sleep 600")
    with pytest.raises(SandboxError, match=r"^no nodes: kubectl didn't finish within 0\.2 s$"):
        cluster.ask(site, built, ["get"], "no nodes", seconds=0.1)
