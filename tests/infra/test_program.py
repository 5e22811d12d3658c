import base64
import importlib
import json
import pickle
from collections import Counter
from pathlib import Path

import pytest
from control_servers import DYNAMIC, SERVER
from infra_settings import read_settings

from ccm_pulumi.config.labels import OURS
from ccm_pulumi.config.placement import Placement

TOKEN = "T" * 64
STACK = "pulumi:pulumi:Stack"


class Program:
    def __init__(self, registered):
        self.all = registered

    def of(self, kind):
        return [item for item in self.all if item.type == kind]

    def one(self, kind, name=None):
        (item,) = [item for item in self.of(kind) if name in (None, item.name)]
        return item


@pytest.fixture(scope="module")
def declared(declared_with):
    return lambda **changes: Program(declared_with(**changes))


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_servers_by_worker_count(declared, workers):
    program = declared(workerCount=str(workers))
    names = sorted(server.inputs["name"] for server in program.of(SERVER))
    expected = [f"ccm-from-scratch-worker-{number}" for number in range(1, workers + 1)]
    assert names == ["ccm-from-scratch-control", *expected]
    kinds = Counter(item.type for item in program.all)
    assert kinds[f"{DYNAMIC}K3sServer"] == 1
    assert kinds[f"{DYNAMIC}K3sAgent"] == workers
    assert kinds["hcloud:index/serverNetwork:ServerNetwork"] == workers + 1


def test_a_server_stands_where_it_was_placed(engine, defaults):
    program = importlib.import_module("infra.__main__")
    settings, fallback = read_settings(defaults), Placement("cx33", "nbg1")
    specs = [spec.at(fallback) if spec.role == "worker-1" else spec for spec in settings.servers]
    servers = Program(engine(lambda: program.declare(settings, TOKEN, specs)))
    one, other = (servers.one(SERVER, name).inputs for name in ("worker-1", "worker-2"))
    assert (one["serverType"], one["location"]) == ("cx33", "nbg1")
    assert one["labels"]["fallback-for"] == "cpx22.fsn1"
    # the settings refuse these keys
    assert set(one["labels"]) <= set(OURS)
    assert (other["serverType"], other["location"]) == ("cpx22", "fsn1")
    assert "fallback-for" not in other["labels"]


def test_everything_in_the_cloud_is_labelled(declared):
    program = declared(labels='{"team": "shop"}', clusterName="blue")
    labeled = [item for item in program.all if item.type.startswith("hcloud:") and "labels" in item.inputs]
    assert {item.type.rpartition(":")[2] for item in labeled} == {
        "Firewall",
        "Network",
        "PlacementGroup",
        "Server",
        "SshKey",
    }
    for item in labeled:
        assert item.inputs["labels"].items() >= {"cluster": "blue", "stack": "local", "team": "shop"}.items()
        assert item.inputs["name"].startswith("blue")


def test_a_name_is_free_before_it_is_taken_again_and_servers_go_before_their_network(declared):
    for item in declared().all:
        if item.type.startswith("hcloud:"):
            assert item.options.deleteBeforeReplace, item.type
        if item.type == SERVER:
            assert any(urn.endswith("network:Network::network") for urn in item.options.dependencies)


def test_what_goes_with_its_server_is_not_deleted_one_by_one(declared):
    program = declared(workerCount="1")
    servers = {item.inputs["name"].rpartition("scratch-")[2]: item for item in program.of(SERVER)}
    for kind in ("Boot", "K3sServer", "K3sAgent", "ImportedImage", "ReadyNodes"):
        for item in program.of(DYNAMIC + kind):
            role = item.name if item.name in servers else "control"
            assert item.options.deletedWith.endswith(f"::{role}"), item.name
    in_cluster = [item for item in program.all if item.type.startswith("kubernetes:")]
    assert len(in_cluster) >= 8
    assert all(item.options.deletedWith.endswith("ClusterIdentity::cluster") for item in in_cluster)
    assert program.one(f"{DYNAMIC}Kubeconfig").options.deletedWith == ""
    subnet = program.one("hcloud:index/networkSubnet:NetworkSubnet")
    assert subnet.options.deletedWith.endswith("network:Network::network")


def test_the_cleanup_is_deleted_first_and_never_skipped(declared):
    program = declared()
    cleanup = program.one(f"{DYNAMIC}Sweep")
    assert cleanup.options.deletedWith == ""
    depends = " ".join(cleanup.options.dependencies)
    assert "Deployment::deployment-ccm-from-scratch" in depends
    assert "K3sAgent::worker-2" in depends
    assert TOKEN not in str(cleanup.inputs)
    assert "/10.244.0.0/16/10.43.0.0/16/10.0.0." in cleanup.inputs["generation"]
    assert "generation" not in cleanup.secrets


@pytest.mark.parametrize(
    "changes",
    [
        {"cni": "cilium", "ingress": "traefik"},
        {"workerCount": "0"},
        {"kubeconfigPath": "K"},
        {"controlCount": "3", "apiEndpoint": "load-balancer"},
    ],
)
def test_what_refuses_the_deletion_of_what_is_protected_goes_before_everything(declared, tmp_path, changes):
    if "kubeconfigPath" in changes:
        (tmp_path / "kubeconfig").write_text("K")
        changes = {"kubeconfigPath": str(tmp_path / "kubeconfig")}
    program = declared(protect="true", **changes)
    guards = program.of(f"{DYNAMIC}Protection")
    several = ["control-2", "control-3", "api"] if "controlCount" in changes else []
    assert {guard.name for guard in guards} == {"network", "control", *several}
    # at the top of the stack a type and a name are enough to tell a resource
    by_end = {f"{item.type}::{item.name}": item for item in program.all}
    needed: set[str] = set()
    left = [urn for guard in guards for urn in guard.options.dependencies]
    while left:
        end = "::".join(left.pop().rpartition("$")[2].split("::")[-2:])
        if end not in needed:
            needed.add(end)
            left += [*by_end[end].options.dependencies, by_end[end].options.provider.rpartition("::")[0]]
            left = [urn for urn in left if urn]
    remote = ("hcloud:", "kubernetes:", DYNAMIC)
    everything = {end for end, item in by_end.items() if item.type.startswith(remote) and item not in guards}
    assert everything <= needed


def test_only_what_is_asked_for_is_protected(declared):
    said = ("deleteProtection", "rebuildProtection")
    plain = declared(ingress="traefik")
    assert not [item for item in plain.all if any(item.inputs.get(key) for key in said)]
    assert not plain.of(f"{DYNAMIC}Protection")
    program = declared(protect="true", ingress="traefik")
    assert all(program.one(SERVER, "control").inputs[key] for key in said)
    assert not any(program.one(SERVER, "worker-1").inputs.get(key) for key in said)
    assert program.one("hcloud:index/network:Network").inputs["deleteProtection"]
    key = "load-balancer.hetzner.cloud/delete-protection"
    annotations = [
        item.one("kubernetes:helm.sh/v3:Release").inputs["values"]["service"]["annotations"].get(key)
        for item in (plain, program)
    ]
    assert annotations == [None, "true"]
    balancer = "hcloud:index/loadBalancer:LoadBalancer"
    for protect in (False, True):
        program = declared(protect=str(protect).lower(), controlCount="3", apiEndpoint="load-balancer")
        assert program.one(balancer, "api").inputs.get("deleteProtection", False) is protect
        controls = [program.one(SERVER, name) for name in ("control", "control-2", "control-3")]
        assert all(server.inputs.get("deleteProtection", False) is protect for server in controls)


def test_of_an_unreachable_cluster_nothing_is_forgotten(declared):
    provider = declared().one("pulumi:providers:kubernetes")
    assert provider.inputs["skipUpdateUnreachable"] == provider.inputs["upsertExistingObjects"] == "true"
    assert "deleteUnreachable" not in provider.inputs
    assert "/10.244.0.0/16/10.43.0.0/16/10.0.0." in provider.inputs["clusterIdentifier"]


def test_secrets_are_never_plain(declared):
    program = declared(workerCount="1", controlCount="3")
    plain = {"private_key": "P", "token": "S" * 64, "agent_token": "S" * 64}
    plain |= {"kubeconfig": "K", "stringData": TOKEN}
    seen = Counter()
    for item in program.all:
        for name in plain.keys() & item.inputs.keys():
            assert name in item.secrets, (item.type, name)
            seen[name] += 1
        for name, value in item.inputs.items():
            if name not in item.secrets and name != "__provider":
                assert TOKEN not in str(value)
                assert "S" * 64 not in str(value)
    assert set(seen) == set(plain)
    for kind in ("KeyPair", "SharedSecret", "Kubeconfig"):
        assert program.of(DYNAMIC + kind)[0].options.additionalSecretOutputs


def test_providers_are_stored_by_name(declared):
    # what a provider holds by value would change the state with every edit, and with the place of the clone
    for item in declared().all:
        if item.type.startswith(DYNAMIC):
            stored = base64.b64decode(item.inputs["__provider"])
            assert len(stored) < 100
            assert type(pickle.loads(stored)).__module__.startswith(("ccm_pulumi.", "infra."))


def test_the_deployment_is_fitted_to_the_cluster(declared):
    program = declared(
        hcloudEndpoint="http://169.254.169.254/v1", cloudProviderName="hcloud", clusterCidr="10.100.0.0/16"
    )
    deployment = program.one("kubernetes:apps/v1:Deployment")
    (container,) = deployment.inputs["spec"]["template"]["spec"]["containers"]
    assert {"--cloud-provider=hcloud", "--cluster-cidr=10.100.0.0/16"} <= set(container["args"])
    assert sum(argument.startswith("--cloud-provider") for argument in container["args"]) == 1
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert environment["HCLOUD_ENDPOINT"] == "http://169.254.169.254/v1"
    assert environment["CCM_CLUSTER_ID"] == "ccm-from-scratch"
    assert environment["HCLOUD_LOAD_BALANCERS_LOCATION"] == "fsn1"
    real = declared().one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    assert "HCLOUD_ENDPOINT" not in [variable["name"] for variable in real["containers"][0]["env"]]


def test_an_image_in_a_registry_is_not_built(declared):
    program = declared(ccmImage="registry.example.com/ccm:7")
    assert not program.of(f"{DYNAMIC}CcmImage")
    pod = program.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "registry.example.com/ccm:7"


def test_the_image_is_built_while_servers_boot(declared):
    program = declared()
    assert not program.one(f"{DYNAMIC}CcmImage").options.dependencies
    needs = program.one(f"{DYNAMIC}ImportedImage").options.propertyDependencies["generation"].urns
    assert any("ClusterIdentity::cluster" in urn for urn in needs)
    identity = program.one(f"{DYNAMIC}ClusterIdentity").options.propertyDependencies["text"].urns
    assert any("K3sServer::control" in urn for urn in identity)


@pytest.mark.parametrize(("cni", "by_k3s"), [("native", True), ("cilium", False)])
def test_network_policies_are_enforced_once(declared, cni, by_k3s):
    server = declared(cni=cni, k3sDisable='["local-storage"]').one(f"{DYNAMIC}K3sServer")
    assert server.inputs["network_policy"] is by_k3s
    assert server.inputs["disable"] == ["local-storage"]


def test_agents_join_with_a_token_that_is_not_the_servers(declared):
    program = declared(workerCount="1")
    assert {item.name for item in program.of(f"{DYNAMIC}SharedSecret")} == {"k3s-token", "k3s-agent-token"}
    needs = program.one(f"{DYNAMIC}K3sAgent").options.propertyDependencies["token"].urns
    assert [urn.rpartition("::")[2] for urn in needs] == ["k3s-agent-token"]
    server = program.one(f"{DYNAMIC}K3sServer").options.propertyDependencies
    assert server["token"].urns != server["agent_token"].urns


def test_a_workers_name_is_free_before_it_joins(declared):
    program = declared(workerCount="1", controlCount="3")
    member = program.one(f"{DYNAMIC}Membership")
    assert member.options.deletedWith.endswith("SharedSecret::k3s-token")
    installed = {urn.rpartition("::")[2] for urn in member.options.dependencies if "K3sServer::" in urn}
    assert installed == {"control", "control-2", "control-3"}, "the Kubernetes API answers"
    agent = program.one(f"{DYNAMIC}K3sAgent")
    assert any("Membership::worker-1" in urn for urn in agent.options.dependencies)


def test_a_worker_is_drained_before_anything_of_it_goes(declared):
    departure = declared(workerCount="1", drainSeconds="7").one(f"{DYNAMIC}Departure")
    assert any("K3sAgent::worker-1" in urn for urn in departure.options.dependencies)
    # never replaced, as a control server may be, and gone only with the cluster
    assert departure.options.deletedWith.endswith("SharedSecret::k3s-token")
    assert departure.inputs["drain_seconds"] == 7


@pytest.mark.parametrize(
    ("most", "order"),
    [
        ("1", {"worker-1": set(), "worker-2": {"worker-1"}, "worker-3": {"worker-2"}}),
        ("2", {"worker-1": set(), "worker-2": set(), "worker-3": {"worker-1"}}),
    ],
)
def test_workers_that_leave_together_are_drained_one_after_the_other_the_last_one_first(
    declared, most, order
):
    """Dependencies are deleted last, also in the first run, which has no rollout order."""
    departures = declared(workerCount="3", maxUnavailable=most).of(f"{DYNAMIC}Departure")
    assert order == {
        item.name: {urn.rpartition("::")[2] for urn in item.options.dependencies if "Departure::" in urn}
        for item in departures
    }


def firewall_of(program):
    rules = program.one("hcloud:index/firewall:Firewall").inputs["rules"]
    return {(rule["protocol"], rule.get("port")): rule["sourceIps"] for rule in rules}


@pytest.mark.parametrize("existing_cluster", ["", "Pulumi.yaml"])
def test_every_server_is_behind_a_firewall(declared, existing_cluster):
    program = declared(sshAllowedCidrs='["198.51.100.7", "2001:db8::/48"]', kubeconfigPath=existing_cluster)
    some = ["198.51.100.7/32", "2001:db8::/48"]
    # nothing else: not the kubelet on 10250, not the CCM on 10258 and 8233, no node port
    assert firewall_of(program) == {
        ("tcp", "22"): some,
        ("tcp", "6443"): some,
        ("icmp", None): ["0.0.0.0/0", "::/0"],
    }
    assert all(len(server.inputs["firewallIds"]) == 1 for server in program.of(SERVER))


def test_node_ports_are_open_to_whom_the_settings_name(declared):
    rules = firewall_of(declared(nodePortAllowedCidrs='["any"]'))
    assert rules["tcp", "30000-32767"] == rules["udp", "30000-32767"] == ["0.0.0.0/0", "::/0"]


def test_cilium_only_when_chosen(declared):
    kind = "kubernetes:helm.sh/v3:Release"
    assert not declared().of(kind)
    release = declared(cni="cilium").one(kind)
    assert release.inputs["values"]["ipam"] == {"mode": "kubernetes"}
    assert release.inputs["values"]["ipv4NativeRoutingCIDR"] == "10.244.0.0/16"


@pytest.mark.parametrize("allowed", [True, False])
def test_pods_reach_the_metadata_service_only_where_that_is_set(declared, allowed):
    said = {"podsReachMetadata": "true"} if allowed else {}
    networks = declared(**said).of(f"{DYNAMIC}PodNetwork")
    assert {network.inputs["metadata"] for network in networks} == {allowed}
    policies = declared(cni="cilium", **said).of("kubernetes:cilium.io/v2:CiliumClusterwideNetworkPolicy")
    assert len(policies) == (0 if allowed else 1)
    for policy in policies:
        assert policy.inputs["spec"]["enableDefaultDeny"] == {"ingress": False, "egress": False}
        [rule] = policy.inputs["spec"]["egressDeny"]
        assert rule["toCIDR"] == ["169.254.169.254/32"]


def test_traefik_only_when_chosen_and_behind_a_load_balancer_of_ours(declared):
    release = declared(ingress="traefik", location="hel1").one("kubernetes:helm.sh/v3:Release")
    annotations = release.inputs["values"]["service"]["annotations"]
    assert annotations["load-balancer.hetzner.cloud/location"] == "hel1"
    assert annotations["load-balancer.hetzner.cloud/name"] == "ccm-from-scratch-ingress"


@pytest.fixture
def existing(declared, tmp_path):
    """The program for a cluster that is there already."""
    (tmp_path / "kubeconfig").write_text("K")
    return declared(kubeconfigPath=str(tmp_path / "kubeconfig"), workerCount="1")


def test_an_existing_cluster_is_used_as_it_is(existing):
    kinds = {item.type.removeprefix(DYNAMIC) for item in existing.all}
    assert {SERVER, "KeyPair", "Sweep", "kubernetes:core/v1:Secret"} <= kinds
    assert not {"Boot", "K3sServer", "K3sAgent", "ImportedImage", "kubernetes:apps/v1:Deployment"} & kinds
    assert "address" not in existing.one(f"{DYNAMIC}Sweep").inputs
    provider = existing.one("pulumi:providers:kubernetes")
    assert "kubeconfig" in provider.secrets


def test_nothing_comes_into_an_existing_cluster_before_its_names_are_ours(existing):
    # With the name of another stack's cluster, in that one's network, the servers can't be made. A cleanup
    # that were there all the same would delete the other's load balancers when this stack is destroyed.
    for last in (existing.one(f"{DYNAMIC}Sweep"), existing.one("kubernetes:core/v1:Secret")):
        after = {urn.rpartition("::")[2] for urn in last.options.dependencies if "server:Server::" in urn}
        assert after == {"control", "worker-1"}


def test_its_resources_are_called_as_ever(declared):
    # A stack that is there finds its resources by these names: who changes one gives the resource an alias.
    # Without it the stack gets a new server, network or cluster in place of the old one.
    known = (Path(__file__).parent / "urns.txt").read_text().splitlines()
    assert sorted(urn_of(item) for item in declared().all if item.type != STACK) == known


def test_nothing_depends_on_the_files(declared):
    # Another clone lacks the files, so resources that depend on a file would be recreated there.
    needs = [urn for item in declared().all for urn in item.options.dependencies]
    assert [urn for urn in needs if urn.endswith("KeyPair::key")]
    assert not [urn for urn in needs if "PrivateFile" in urn]


def urn_of(item):
    parents = item.options.parent.split("::")[2].removeprefix("pulumi:pulumi:Stack").removeprefix("$")
    return f"{parents}{'$' if parents else ''}{item.type}::{item.name}"


def test_pods_are_replaced_when_their_service_account_is_a_new_one(declared):
    pools = [{"name": "burst", "max": 2, "serverType": "cpx22"}]
    window = {"days": ["sun"], "start": "02:00", "end": "05:00", "timeZone": "Europe/Berlin"}
    changes = {"pools": json.dumps(pools), "osUpgrades": json.dumps(window), "cloudProviderName": "hcloud"}
    program = declared(**changes)
    found = program.of("kubernetes:core/v1:ServiceAccount")
    accounts = {item.inputs["metadata"]["name"]: f"uid-{item.name}" for item in found}
    specs = [item.inputs.get("spec", {}) for item in program.all]
    users = [spec["template"] for spec in specs if "template" in spec]
    assert len(users) == len(accounts) == 3
    for template in users:
        uid = accounts[template["spec"]["serviceAccountName"]]
        assert uid in template["metadata"]["annotations"].values()
