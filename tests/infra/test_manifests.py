import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.manager.flags import FLAGS, parse_flags
from ccm_pulumi.addons.controller_manager import fitted, merged_arguments, read_manifests

MANIFESTS = read_manifests()


@pytest.fixture
def deployment():
    (found,) = [item for item in MANIFESTS if item["kind"] == "Deployment"]
    return found


@pytest.fixture
def pod(deployment):
    return deployment["spec"]["template"]["spec"]


@pytest.fixture
def container(pod):
    (only,) = pod["containers"]
    return only


RULES = [rule for item in MANIFESTS if item["kind"] in ("Role", "ClusterRole") for rule in item["rules"]]


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_has_a_wildcard_or_reads_secrets(rule):
    assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
    resources = {resource.partition("/")[0] for resource in rule["resources"]}
    assert not {"secrets", "pods", "serviceaccounts"} & resources
    assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"])


def test_leases_are_limited_to_one():
    limited = [rule for rule in RULES if rule["resources"] == ["leases"] and rule["verbs"] != ["create"]]
    assert [rule["resourceNames"] for rule in limited] == [["cloud-controller-manager"]]


def test_bindings_are_for_our_account_to_roles_that_exist():
    own = {(item["kind"], item["metadata"]["name"]) for item in MANIFESTS}
    upstream = {
        ("ClusterRole", "system:auth-delegator"),
        ("Role", "extension-apiserver-authentication-reader"),
    }
    bindings = [item for item in MANIFESTS if item["kind"].endswith("Binding")]
    assert {(item["roleRef"]["kind"], item["roleRef"]["name"]) for item in bindings} <= own | upstream
    for item in bindings:
        assert item["subjects"] == [
            {"kind": "ServiceAccount", "name": "cloud-controller-manager", "namespace": "kube-system"}
        ]


def test_the_container_can_do_nothing_special(pod, container):
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_it_starts_on_a_node_that_it_has_to_initialize(pod):
    tolerated = {toleration["key"] for toleration in pod["tolerations"]}
    assert "node.cloudprovider.kubernetes.io/uninitialized" in tolerated
    assert {"node.kubernetes.io/not-ready", "node-role.kubernetes.io/control-plane"} <= tolerated
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "Default")
    assert pod["priorityClassName"] == "system-cluster-critical"


@pytest.mark.parametrize(
    ("probe", "path"), [("startup", "/livez"), ("liveness", "/livez"), ("readiness", "/readyz")]
)
def test_probes(container, probe, path):
    action = container[f"{probe}Probe"]["httpGet"]
    assert (action["scheme"], action["port"], action["path"]) == ("HTTPS", 10258, path)
    assert f"--bind-address={action['host']}" in container["args"]


def test_nothing_listens_for_the_world(container):
    """The Pod is in the host's network, and on Hetzner Cloud that is the public one."""
    flags = parse_flags(FLAGS, container["args"])
    environment = {variable["name"]: variable.get("value", "") for variable in container["env"]}
    assert flags["bind-address"] == "127.0.0.1"
    assert environment["HCLOUD_METRICS_ADDRESS"].startswith("127.0.0.1:")


def test_the_token_is_read_from_a_file(container):
    environment = {variable["name"]: variable for variable in container["env"]}
    assert environment["HCLOUD_TOKEN_FILE"]["value"] == "/etc/hcloud/token"
    assert "HCLOUD_TOKEN" not in environment
    assert environment["HCLOUD_NETWORK"]["valueFrom"]["secretKeyRef"] == {"name": "hcloud", "key": "network"}


def test_fitting_leaves_the_manifest_alone(deployment):
    before = copy.deepcopy(deployment)
    result = fitted(deployment, ["--cloud-provider=hcloud", "--v=4"], {"A": "1", "HCLOUD_NETWORK": "7"})
    assert deployment == before
    (container,) = result["spec"]["template"]["spec"]["containers"]
    before["spec"]["template"]["spec"]["containers"][0] |= {key: container[key] for key in ("args", "env")}
    assert result == before
    assert container["args"][0] == "--cloud-provider=hcloud"
    assert container["args"][-1] == "--v=4"
    assert {"name": "HCLOUD_NETWORK", "value": "7"} in container["env"]
    assert sum(variable["name"] == "HCLOUD_NETWORK" for variable in container["env"]) == 1


arguments = st.lists(st.builds("--{}={}".format, st.sampled_from("abcd"), st.integers(0, 9)), max_size=6)


@given(old=arguments, new=arguments)
def test_new_flags_win_and_every_flag_is_there_once(old, new):
    merged = merged_arguments(old, new)
    names = [argument.partition("=")[0] for argument in merged]
    assert len(names) == len(set(names))
    last = {argument.partition("=")[0]: argument for argument in [*old, *new]}
    assert sorted(merged) == sorted(last.values())
