import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from ccm.errors import ConfigurationError
from ccm.manager.flags import FLAGS, parse_flags
from ccm.testing.memory_transport import MemoryTransport
from ccm.tools.deployed_settings import Deployed, settings_from
from ccm.tools.plan import read_command_line, together

MANIFEST = yaml.safe_load((Path(__file__).parents[3] / "manifests" / "deployment.yaml").read_text())
METRICS = {"HCLOUD_METRICS_ENABLED": "true", "HCLOUD_METRICS_ADDRESS": "127.0.0.1:8233"}  # of the manifest


def cluster(one: dict[str, Any], kind: str = "deployments", **secrets: dict[str, str]) -> MemoryTransport:
    transport = MemoryTransport()
    namespace = one["metadata"]["namespace"]
    transport.put(f"/apis/apps/v1/namespaces/{namespace}/{kind}", one)
    for name, values in secrets.items():
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        transport.put(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": name}, "data": data})
    return transport


def workload(container: dict[str, Any], **pod: Any) -> dict[str, Any]:
    spec = {"template": {"spec": {"containers": [container], **pod}}}
    return {"metadata": {"name": "ccm", "namespace": "kube-system"}, "spec": spec}


async def test_our_own_manifest_with_the_token_from_its_mounted_file() -> None:
    transport = cluster(MANIFEST, hcloud={"token": "secret\n", "network": "net"})
    found = await settings_from("deployment/kube-system/ccm-from-scratch", transport, {})
    assert found.variables == METRICS | {"HCLOUD_TOKEN": "secret", "HCLOUD_NETWORK": "net"}
    assert "--cluster-cidr=10.244.0.0/16" in found.flags
    assert "secret" not in found.describe("deployment/x")


async def test_what_the_caller_has_himself_wins_and_no_secret_is_read_for_it() -> None:
    transport = cluster(MANIFEST)
    own = {"HCLOUD_TOKEN": "mine", "HCLOUD_NETWORK": "other", "CCM_CLUSTER_ID": "c", "HOME": "/"}
    found = await settings_from("deployment/ccm-from-scratch", transport, own)
    assert found.variables == METRICS
    assert found.own == ("CCM_CLUSTER_ID", "HCLOUD_NETWORK", "HCLOUD_TOKEN")
    assert "your shell's variables take precedence: CCM_CLUSTER_ID, HCLOUD_NETWORK" in found.describe("x")
    assert not [request for request in transport.requests if "/secrets/" in request.path]


async def test_the_official_chart_has_flags_in_the_command_and_optional_keys() -> None:
    def key(name: str, **more: Any) -> dict[str, Any]:
        return {"secretKeyRef": {"name": "hcloud", "key": name, **more}}

    container = {
        "command": [
            "/bin/hcloud-cloud-controller-manager",
            "--allow-untagged-cloud",
            "--cloud-provider=hcloud",
        ],
        "env": [
            {"name": "HCLOUD_TOKEN", "valueFrom": key("token")},
            {"name": "ROBOT_USER", "valueFrom": key("robot-user", optional=True)},
            {"name": "HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP", "value": "true"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
    }
    transport = cluster(workload(container), "daemonsets", hcloud={"token": "t"})
    found = await settings_from("daemonset/kube-system/ccm", transport, {})
    assert found.flags == ("--allow-untagged-cloud", "--cloud-provider=hcloud")
    assert found.variables == {"HCLOUD_TOKEN": "t", "HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP": "true"}


async def test_the_manager_among_sidecars_whole_secrets_projections_and_references() -> None:
    manager = {
        "args": ["--cloud-provider=hcloud", "--cluster-cidr=$(CIDR)", "--v=$(NOBODY)"],
        "env": [{"name": "CIDR", "value": "10.0.0.0/16"}, {"name": "ROBOT_USER_FILE", "value": "/run/all/u"}],
        "envFrom": [{"prefix": "HCLOUD_", "secretRef": {"name": "all"}}],
        "volumeMounts": [
            {"name": "sub", "mountPath": "/run/all/u", "subPath": "u"},
            {"name": "all", "mountPath": "/run/all"},
        ],
    }
    sources = [
        {"configMap": {"name": "none"}},
        {"secret": {"name": "robot", "items": [{"key": "user", "path": "u"}]}},
    ]
    pod = workload(manager, volumes=[{"name": "all", "projected": {"sources": sources}}])
    pod["spec"]["template"]["spec"]["containers"].insert(0, {"args": ["--sidecar"]})
    transport = cluster(pod, all={"TOKEN": "t"}, robot={"user": "me"})
    found = await settings_from("deployment/kube-system/ccm", transport, {})
    assert found.flags == ("--cloud-provider=hcloud", "--cluster-cidr=10.0.0.0/16", "--v=$(NOBODY)")
    assert found.variables == {"HCLOUD_TOKEN": "t", "CIDR": "10.0.0.0/16", "ROBOT_USER": "me"}


@pytest.mark.parametrize(
    "name", ["ccm", "pod/a/b", "deployment/", "deployment/a/b/c", "deployment/kube-system/no"]
)
async def test_wrong_names_are_named(name: str) -> None:
    with pytest.raises(ConfigurationError, match="--settings-from: "):
        await settings_from(name, MemoryTransport(), {})


def test_the_command_line() -> None:
    asked = read_command_line(["services", "--for", "official", "--settings-from=deployment/a/b", "--v=2"])
    assert (asked.subject, asked.other, asked.settings_from) == ("services", "official", "deployment/a/b")
    assert asked.flags == ("--v=2",)
    assert read_command_line([]).subject == ""


def test_what_is_given_here_wins_over_the_deployment_but_for_the_pods_way_to_the_api_server() -> None:
    deployed = Deployed(
        ("--cloud-provider=hcloud", "--kubeconfig=/in/the/pod", "--v=4"), {"HCLOUD_NETWORK": "net"}
    )
    asked = read_command_line(["--settings-from=deployment/a", "--cloud-provider=ccm-from-scratch"])
    own = parse_flags(FLAGS, asked.flags)
    flags, variables = together(asked, own, deployed, {"HCLOUD_TOKEN": "mine"})
    assert flags.problems == ()
    assert flags["cloud-provider"] == "ccm-from-scratch"
    assert flags["v"] == 4
    assert flags["kubeconfig"] == ""
    assert variables == {"HCLOUD_NETWORK": "net", "HCLOUD_TOKEN": "mine"}
