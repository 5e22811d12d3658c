import dataclasses
import re
from pathlib import Path

import pulumi
import pytest

from ccm_pulumi.components import CloudControllerManager, HetznerNetwork, HetznerServers, K3sCluster, settings
from ccm_pulumi.config.pools import Pool
from ccm_pulumi.config.setting_types import key_of
from ccm_pulumi.config.settings import Settings

GUIDE = Path(__file__).parents[2] / "docs/guides/components.md"

DYNAMIC = "pulumi-python:dynamic/ccm-from-scratch:"
GIVEN = {"cluster_name": "shop", "ssh_allowed_cidrs": ["any"], "ccm_image": "registry.example.com/ccm:1"}
TOKEN = "T" * 64


def cluster(name="shop", **more):
    wanted = settings(**{**GIVEN, **more})
    network = HetznerNetwork(name, wanted)
    servers = HetznerServers(name, wanted, network)
    made = K3sCluster(name, wanted, servers)
    CloudControllerManager(name, wanted, made, network, token=TOKEN)
    return made


def test_they_make_what_the_program_makes(engine):
    registered = engine(lambda: cluster(worker_count=1, labels={"team": "shop"}))
    names = {item.inputs["name"] for item in registered if item.type == "hcloud:index/server:Server"}
    assert names == {"shop-control", "shop-worker-1"}
    for kind in ("K3sServer", "K3sAgent", "Kubeconfig", "PodNetwork", "Sweep", "ReadyNodes"):
        assert [item for item in registered if item.type == DYNAMIC + kind], kind
    (deployment,) = (item for item in registered if item.type.endswith(":Deployment"))
    (container,) = deployment.inputs["spec"]["template"]["spec"]["containers"]
    assert container["image"] == GIVEN["ccm_image"]
    assert "--cluster-name=shop" in container["args"]
    server = next(item for item in registered if item.type == "hcloud:index/server:Server")
    assert server.inputs["labels"].items() >= {"team": "shop", "cluster": "shop"}.items()


def test_everything_belongs_to_one_of_them(engine):
    # So what a program says of a component (protect, providers, …) holds for all of it.
    for item in engine(cluster):
        parents = ("Network", "Servers", "K3sCluster", "CloudControllerManager")
        if item.options.parent and not item.type.endswith(tuple(f":index:{parent}" for parent in parents)):
            assert "::shop" in item.options.parent, item.type


def test_a_program_may_have_two(engine):
    def program():
        cluster("blue", cluster_name="blue")
        cluster("green", cluster_name="green")

    seen = [
        (item.options.parent.split("::")[2], item.type, item.name)
        for item in engine(program)
        if item.options.parent
    ]
    assert len(seen) == len(set(seen)) > 80


def test_secrets_stay_in_the_state(engine):
    for item in engine(cluster):
        assert item.type != f"{DYNAMIC}PrivateFile"
        for name, value in item.inputs.items():
            if name not in item.secrets and name != "__provider":
                assert TOKEN not in str(value), item.type


def test_what_is_not_given_is_as_in_the_programs_own_stack(defaults):
    wanted = settings(ssh_allowed_cidrs="any")
    assert wanted.worker_count == int(defaults["ccm-from-scratch:workerCount"])
    assert wanted.k3s_version == defaults["ccm-from-scratch:k3sVersion"]


def test_pools_are_said_in_pythons_spelling():
    arm = {"name": "arm", "count": 2, "server_type": "cax11", "taints": ["a:NoExecute"]}
    (pool,) = settings(**GIVEN, pools=[{**arm, "placement_group": False}]).pools
    assert pool == Pool("arm", 2, "cax11", taints=("a:NoExecute",), placement_group=False)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"worker_count": 100}, "worker_count: 100 is not possible: give a whole number from 0 to 99"),
        (
            {"worker_cuont": 1},
            "worker_cuont: 1 is not possible: there is no such setting; did you mean worker_count?",
        ),
        ({"kubeconfig_path": "x"}, "kubeconfig_path: 'x' is not possible: there is no such setting"),
        ({"subnet_cidr": "10.244.1.0/24"}, "cluster_cidr: "),
        ({"ssh_allowed_cidrs": []}, "ssh_allowed_cidrs: "),
        ({"ccm_image": object()}, "ccm_image: <object object"),  # as an output is
        (
            {"pools": [{"name": "a", "count": 1, "server_typ": "x"}]},
            "pools[0].server_typ: 'x' is not possible: there is no such key; did you mean server_type?",
        ),
        ({"pools": [{"name": "a", "count": 1, "server_type": 7}]}, "pools[0].server_type: 7 is not possible"),
        ({"labels": {"a": {1}}}, "labels: {'a': {1}} is not possible: give a plain value"),
    ],
)
def test_wrong_settings_are_named_as_they_were_given(given, says):
    with pytest.raises(pulumi.RunError) as raised:
        settings(**{**GIVEN, **given})
    assert says in str(raised.value)
    assert "ccm-from-scratch:" not in str(raised.value)
    assert "pulumi config" not in str(raised.value)
    assert str(raised.value).count("\n") == 1


def test_the_guide_names_all_keys_of_a_pool_that_components_do_not_have():
    given = {"fallbacks": [{"location": "nbg1"}], "max_unavailable": 2}
    for name, value in given.items():
        with pytest.raises(pulumi.RunError, match=rf"pools\[0\]\.{name}: .* check of the cloud"):
            settings(**GIVEN, pools=[{"name": "db", "count": 1, name: value}])
    pages = {
        "components": r"The keys (.*?) aren't available:",
        "pools": r"not for a pool\. You can't set (.*?)\.",
    }
    for page, said in pages.items():
        text = " ".join(GUIDE.with_name(f"{page}.md").read_text(encoding="utf-8").split())
        (listed,) = re.findall(said, text)
        assert re.findall(r"`(\w+)`", listed) == [*given]


def test_the_guide_names_all_settings_that_components_do_not_have():
    fields = [field.name for field in dataclasses.fields(Settings)]
    with pytest.raises(pulumi.RunError) as raised:
        settings(**dict.fromkeys(fields, "…"))
    refused = re.findall(
        r"^  - (\w+): .* is not possible: there is no such setting", str(raised.value), re.MULTILINE
    )
    (listed,) = re.findall(
        r"These settings aren't available in components, .*?: (.*?)\.",
        GUIDE.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert re.findall(r"`(\w+)`", listed) == sorted(key_of(name).partition(":")[2] for name in refused)
    assert set(refused) < set(fields)


def test_without_an_image_it_says_how_to_have_one(engine):
    with pytest.raises(Exception, match="ccm_image: is not set: give an image in a registry"):
        engine(lambda: cluster(ccm_image=""))
