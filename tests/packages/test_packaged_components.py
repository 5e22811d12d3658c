import re
import shutil
import zipfile
from pathlib import Path

import pytest
import yaml

from hetzner_emulator.testing.cloud import running
from tests.child_processes import run
from tests.pulumi_lab import plugins, pulumi

pytestmark = pytest.mark.slow

TREE = Path(__file__).resolve().parents[2]
EXAMPLE = TREE / "examples/cluster"
CLUSTER = {"cluster_name": "shop", "ssh_allowed_cidrs": ["any"], "ccm_image": "registry.example.com/ccm:1"}


@pytest.fixture
def program(wheel, tmp_path):
    """The example, and beside it of the wheel nothing but the components: the engine is not in it."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith("ccm_pulumi/")])
    shutil.copytree(EXAMPLE, tmp_path / "program")
    (tmp_path / "program/.venv").symlink_to(TREE / ".venv")
    return tmp_path / "program"


def preview(program, cluster, cloud):
    (program / "Pulumi.test.yaml").write_text(
        yaml.safe_dump({"config": {"example-cluster:cluster": cluster}})
    )
    variables = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(program),
        "PYTHONPATH": str(program.parent),
        **plugins(program.parent / "home"),
        "PULUMI_BACKEND_URL": program.parent.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "x",
        **cloud.environment,
    }
    said = ""
    for words in (["stack", "init", "test"], ["preview"]):
        command = [str(pulumi()), *words, "--non-interactive"]
        done = run(command, timeout=300, cwd=program, env=variables)
        said += done.stdout + done.stderr
    return done.returncode, said


def test_the_guide_shows_the_program_that_is_run():
    text = (TREE / "docs/guides/components.md").read_text()
    (shown,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert (EXAMPLE / "__main__.py").read_text().endswith(f"\n\n{shown}")
    assert len([line for line in shown.splitlines() if line]) <= 10


def test_the_example_plans_a_cluster(program):
    with running() as cloud:
        code, said = preview(program, CLUSTER, cloud)
        assert code == 0, said
        assert re.search(r"\+ \d\d to create", said), said
        for what in ("hcloud:index:Server shop-control", "Deployment shop-deployment-ccm-from-scratch"):
            assert what in said
        assert {request.method for request in cloud.requests} <= {"GET"}


def test_wrong_settings_are_reported_without_a_traceback(program):
    with running() as cloud:
        code, said = preview(program, {**CLUSTER, "worker_cuont": 1}, cloud)
    assert code
    assert "worker_cuont: 1 is not possible: there is no such setting; did you mean worker_count?" in said
    assert "Traceback" not in said
