import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_chart import CHART, IMAGE, NAME

from sandbox.kubernetes.controlplane import ControlPlane
from sandbox.kubernetes.toolchain import Toolchain

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # Helm may have to be built

HERE = Path(__file__).parent
GUIDE = HERE.parents[1] / "docs" / "guides" / "helm.md"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def way_back() -> list[list[str]]:
    """The guide's commands, without the program and the namespace: stop ours, wait, history, roll back."""
    section = GUIDE.read_text(encoding="utf-8").partition("\n## Back to the official chart\n")[2]
    block = section.partition("```sh\n")[2].partition("```")[0]
    own = {"charts/ccm-from-scratch": str(CHART), "REVISION": "1"}
    lines = block.replace("--namespace kube-system", "").replace("-n kube-system", "").splitlines()
    return [[own.get(word, word) for word in line.split()[1:]] for line in lines]


async def test_the_same_values_swap_in_place_and_back(
    cluster: ControlPlane, kubernetes: Toolchain, helm, tmp_path: Path
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("args: {allow-untagged-cloud: ''}\nenv: {A: {value: b}}\n", encoding="utf-8")
    access = [f"--kubeconfig={cluster.kubeconfig}", "--namespace=kube-system"]

    async def run(*arguments: object) -> None:
        await asyncio.to_thread(helm, *arguments, *access)

    async def read(path: str) -> Any:
        return await asyncio.to_thread(cluster.api().get, path)

    async def deployment() -> Any:
        return await read(f"/apis/apps/v1/namespaces/kube-system/deployments/{NAME}")

    await run("install", "hccm", HERE / "official", f"--values={values}")
    official = await deployment()

    await run("upgrade", "hccm", CHART, f"--values={values}", IMAGE)
    ours = await deployment()
    # the same object, and its old Pod goes before the new one comes
    assert ours["metadata"]["uid"] == official["metadata"]["uid"]
    assert ours["spec"]["selector"] == official["spec"]["selector"]
    assert ours["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert [one["name"] for one in ours["spec"]["template"]["spec"]["containers"]] == ["ccm"]
    assert await read(f"{ROLES}/system:{NAME}") is None
    assert await read(f"{ROLES}/{NAME}") is not None

    stop, wait, _, back_again = way_back()
    await run(*stop)
    stopped = await deployment()
    assert stopped["spec"]["replicas"] == 0
    assert stopped["spec"]["template"] == ours["spec"]["template"]
    labels = ours["spec"]["template"]["metadata"]["labels"]
    assert wait[wait.index("-l") + 1] in {f"{key}={value}" for key, value in labels.items()}

    kubectl = [kubernetes.bin / "kubectl", *access, *wait]
    await asyncio.to_thread(subprocess.run, kubectl, check=True, timeout=120)

    await run(*back_again)
    back = await deployment()
    assert back["metadata"]["uid"] == official["metadata"]["uid"]
    assert (
        back["spec"]["template"]["spec"]["containers"] == official["spec"]["template"]["spec"]["containers"]
    )
    assert back["spec"]["replicas"] == official["spec"]["replicas"] == 1
    assert back["spec"]["strategy"]["rollingUpdate"] == official["spec"]["strategy"]["rollingUpdate"]
    assert await read(f"{ROLES}/system:{NAME}") is not None
    assert await read(f"{ROLES}/{NAME}") is None
