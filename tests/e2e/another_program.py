"""Another Pulumi program creates a second cluster in the environment's cloud, from our components."""

import json
import re
import shutil
import subprocess
import zipfile

import yaml
from uv import find_uv_bin

from sandbox.kubernetes import releases
from sandbox.stack_settings import TEMPLATES
from tests import child_processes
from tests.e2e.cluster_state import changed
from tests.e2e.conftest import TREE, eventually
from tests.e2e.looks import ready, taints


def makes_a_cluster(environment, kubernetes_version, tmp_path):
    """As docs/guides/components.md has it; its machines get the image that was loaded before them."""
    before = environment.server_ids()
    environment.dev("image", "--output", str(tmp_path / "ccm.tar"))
    loaded = environment.dev("load", str(tmp_path / "ccm.tar")).stdout
    image = re.search(r"(\S+) on all machines", loaded)[1]
    program = example(tmp_path, image, releases.k3s_name(kubernetes_version))
    backend = f"PULUMI_BACKEND_URL={tmp_path.as_uri()}"
    script = f'eval "$(./dev env)" && export PYTHONPATH={tmp_path} {backend} && cd {program}'

    def run(*command):
        words = ["bash", "-c", f'{script} && exec "$@"', "bash", *command]
        done = child_processes.run(words, cwd=environment.root, timeout=300)
        assert not done.returncode, done.stdout + done.stderr
        return done.stdout

    run("pulumi", "stack", "init", "example")
    try:
        run("pulumi", "up", "--yes", "--skip-preview")
        (program / "kubeconfig").write_text(run("pulumi", "stack", "output", "kubeconfig", "--show-secrets"))

        def initialized():
            listed = run("kubectl", "--kubeconfig=kubeconfig", "get", "nodes", "--output=json")
            nodes = {node["metadata"]["name"]: node for node in json.loads(listed)["items"]}
            done = [n for n in nodes if ready(nodes[n]) and nodes[n]["spec"].get("providerID")]
            return sorted(done) == ["shop-control", "shop-worker-1"] and not any(map(taints, nodes.values()))

        # a first `up` waits for k3s and for the CCM's Pods, not for what they then do with the Nodes
        eventually(initialized, 60, "both Nodes are ready and initialized")
        assert "unchanged" in (again := run("pulumi", "up", "--yes", "--skip-preview"))
        assert not changed(again), again
        assert not {path.name for path in program.iterdir()} & {"kubeconfig.yaml", ".dev-env.ssh"}
    finally:
        run("pulumi", "destroy", "--yes", "--skip-preview")
    assert environment.server_ids() == before


def example(folder, image, k3s_version):
    """The program of examples/cluster beside the installed package, with settings for the sandbox."""
    uv = [find_uv_bin(), "build", "--quiet", "--wheel", "--out-dir", str(folder), str(TREE)]
    subprocess.run(uv, check=True, timeout=300, cwd="/")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith("ccm_pulumi/")])
    program = folder / "program"
    shutil.copytree(TREE / "examples/cluster", program)
    (program / ".venv").symlink_to(TREE / ".venv")  # as its Pulumi.yaml has it
    local = yaml.safe_load((TEMPLATES / "local.yaml").read_text())["config"]
    cluster = {
        "cluster_name": "shop",
        "worker_count": 1,
        "ssh_allowed_cidrs": ["any"],
        "ccm_image": image,
        "hcloud_endpoint": local["ccm-from-scratch:hcloudEndpoint"],
        "k3s_version": k3s_version,
        "k3s_install_url": local["ccm-from-scratch:k3sInstallUrl"],
    }
    polling = {key: value for key, value in local.items() if key.startswith("hcloud:")}
    config = {"config": {"example-cluster:cluster": cluster, **polling}}
    (program / "Pulumi.example.yaml").write_text(yaml.safe_dump(config))
    return program
