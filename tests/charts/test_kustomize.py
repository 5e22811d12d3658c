import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ccm.manager.flags import FLAGS, parse_flags
from sandbox.kubernetes.controlplane import ControlPlane
from sandbox.kubernetes.toolchain import Toolchain
from tests import child_processes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TREE = Path(__file__).parents[2]
MANIFESTS = TREE / "manifests"
GUIDE = TREE / "docs" / "guides" / "kustomize.md"
Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def kubectl(kubernetes: Toolchain) -> Kubectl:
    def run(*arguments: object) -> str:
        done = child_processes.run([kubernetes.bin / "kubectl", *map(str, arguments)], timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """The guide's file in a folder beside a clone."""
    (content,) = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    shutil.copytree(MANIFESTS / "kustomize", tmp_path / "ccm-from-scratch" / "manifests" / "kustomize")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(content, encoding="utf-8")
    return folder


def objects(text: str) -> dict[str, dict[str, Any]]:
    found = [item for item in yaml.safe_load_all(text) if item]
    return {f"{item['kind']}/{item['metadata']['name']}": item for item in found}


def test_the_base_has_the_objects_of_the_manifests(kubectl: Kubectl) -> None:
    written = "---\n".join(file.read_text(encoding="utf-8") for file in sorted(MANIFESTS.glob("*.yaml")))
    assert objects(kubectl("kustomize", MANIFESTS / "kustomize")) == objects(written)


def test_the_overlay_of_the_guide_changes_image_flags_and_environment(
    kubectl: Kubectl, overlay: Path
) -> None:
    found = objects(kubectl("kustomize", overlay))
    (container,) = found["Deployment/ccm-from-scratch"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/me/ccm-from-scratch:1.0"
    flags = parse_flags(FLAGS, container["args"])
    assert not flags.problems
    assert flags["cluster-cidr"] == "10.42.0.0/16"
    variables = {one["name"]: one.get("value") for one in container["env"]}
    assert variables["HCLOUD_LOAD_BALANCERS_LOCATION"] == "nbg1"
    assert "HCLOUD_TOKEN_FILE" in variables


def test_a_prefix_leaves_the_lease(kubectl: Kubectl, overlay: Path) -> None:
    with (overlay / "kustomization.yaml").open("a", encoding="utf-8") as file:
        file.write("namePrefix: my-\n")
    found = objects(kubectl("kustomize", overlay))
    account = found["Deployment/my-ccm-from-scratch"]["spec"]["template"]["spec"]["serviceAccountName"]
    assert f"ServiceAccount/{account}" in found
    assert found["Role/my-ccm-from-scratch"]["rules"][1]["resourceNames"] == ["cloud-controller-manager"]


async def test_an_api_server_takes_both(kubectl: Kubectl, overlay: Path, cluster: ControlPlane) -> None:
    """A file for Kustomize among the others would be an error of ``kubectl apply -f``."""
    access = f"--kubeconfig={cluster.kubeconfig}"
    applied = kubectl("apply", access, "-f", MANIFESTS)
    assert "deployment.apps/ccm-from-scratch created" in applied
    changed = kubectl("apply", access, "-k", overlay).splitlines()
    assert [line for line in changed if not line.endswith(" unchanged")] == [
        "deployment.apps/ccm-from-scratch configured"
    ]
